"""Pretrains the small Inception-v3 that ships with slimtune on drawn shapes and textures.

The pictures are drawn first, into one array on the disk; then the net is trained on random crops
of them, in graph mode, on the CPU. Everything random comes from one seed.
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow
from finetune.sample import shapes
from finetune.sample.seeds import generator
from finetune.slim import load_slim, quietly

Pictures = NDArray[np.uint8]

IMAGE_SIZE = 149
"""What the base is made for; the last stage of every recipe has it."""
DEPTH_MULTIPLIER = 0.25
CENTRAL_CROP = 0.875
HELD_OUT_SEED = 1_000_000
"""Held-out pictures are drawn with seeds from here on, training pictures with seeds below."""


@dataclass(frozen=True)
class Stage:
    """A part of the training: pictures of `image_size` pixels a side for `steps` steps.

    With `auxiliary` the loss of the auxiliary head is added, two fifths of the main one's, which
    helps the lower layers along; that head is not kept.
    """

    image_size: int
    steps: int
    auxiliary: bool = False


@dataclass(frozen=True)
class Recipe:
    """How the base is made.

    Attributes:
      seed: of drawing, order, crops, colours, initial values and dropout.
      per_kind: pictures drawn of every kind for training; the first is plain, the last busiest.
      held_out: pictures drawn of every kind for the score.
      stages: small pictures first, which train twice as fast.
      batch_size: pictures a step.
      learning_rate: Adam's, at its highest; it rises over `warm_up` steps, then falls to zero
        as half a cosine.
      warm_up: steps.
      busy_from: share of the steps after which the busiest pictures take part.
      weight_decay: factor of the L2 norm of the weights in the loss.
      label_smoothing: share of the target spread over all kinds.
      batch_norm_decay: of the moving averages.
      bfloat16: whether convolutions run in bfloat16 where the CPU has it; variables stay float32.
    """

    seed: int = 0
    per_kind: int = 700
    held_out: int = 20
    stages: tuple[Stage, ...] = (Stage(107, 4500, auxiliary=True), Stage(IMAGE_SIZE, 2800))
    batch_size: int = 64
    learning_rate: float = 0.008
    warm_up: int = 150
    busy_from: float = 0.4
    weight_decay: float = 0.00001
    label_smoothing: float = 0.05
    batch_norm_decay: float = 0.99
    bfloat16: bool = True

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True)
class Pretrained:
    """The result: variables by name (float32) and what they score on held-out shapes."""

    variables: dict[str, NDArray[np.float32]]
    accuracy: float
    seconds: float


def pretrain(
    recipe: Recipe,
    scratch: Path | None = None,
    snapshots: Path | None = None,
    progress: Progress = SILENT,
) -> Pretrained:
    """Draws the shapes and trains the net on them.

    Args:
      recipe: how.
      scratch: a directory with room for the drawn pictures (85 kB each); left out, the
        system's directory for temporary files. What is written there is removed.
      snapshots: a directory for the variables after every thousand steps (.npz), to look at
        while it trains.
      progress: told of pictures and steps.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        pictures, labels = draw_all(recipe, Path(folder) / "pictures.npy", progress)
        held_out, held_out_labels = draw_held_out(recipe.held_out, progress)
        variables, logits = train(recipe, pictures, labels, held_out, snapshots, progress)
    accuracy = float(np.mean(np.argmax(logits, axis=1) == held_out_labels))
    return Pretrained(variables, accuracy, time.monotonic() - start)


def _draw(job: tuple[str, int, float]) -> Pictures:
    return np.asarray(shapes.draw(*job))


def draw_all(
    recipe: Recipe, path: Path, progress: Progress = SILENT
) -> tuple[Pictures, NDArray[np.int64]]:
    """Training pictures in an array that lies on the disk: uint8 [count, side, side, 3], labels."""
    jobs = [
        (kind, recipe.seed * recipe.per_kind + index, index / recipe.per_kind)
        for kind in shapes.KINDS
        for index in range(recipe.per_kind)
    ]
    shape = (len(jobs), shapes.SIDE, shapes.SIDE, 3)
    pictures = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    with (
        multiprocessing.get_context("spawn").Pool() as pool,
        progress.task("Drawing shapes", len(jobs), "pictures") as task,
    ):
        for index, picture in enumerate(pool.imap(_draw, jobs, chunksize=64)):
            pictures[index] = picture
            task.advance()
    return pictures, np.repeat(np.arange(len(shapes.KINDS)), recipe.per_kind)


def draw_held_out(per_kind: int, progress: Progress = SILENT) -> tuple[Pictures, NDArray[np.int64]]:
    """Pictures that training never sees, plain to busy: uint8 [count, side, side, 3], labels."""
    jobs = [
        (kind, HELD_OUT_SEED + index, index / per_kind)
        for kind in shapes.KINDS
        for index in range(per_kind)
    ]
    pictures = np.empty((len(jobs), shapes.SIDE, shapes.SIDE, 3), np.uint8)
    with progress.task("Drawing held-out shapes", len(jobs), "pictures") as task:
        for index, job in enumerate(jobs):
            pictures[index] = _draw(job)
            task.advance()
    return pictures, np.repeat(np.arange(len(shapes.KINDS)), per_kind)


def _crops(random: np.random.RandomState, count: int) -> NDArray[np.float32]:
    """Boxes [count, 4] as y1, x1, y2, x2 in fractions; half of them mirrored (x2 < x1)."""
    area = random.uniform(0.5, 1.0, count)
    aspect = np.exp(random.uniform(math.log(0.8), math.log(1.25), count))
    height = np.minimum(np.sqrt(area / aspect), 1)
    width = np.minimum(np.sqrt(area * aspect), 1)
    top = random.uniform(0, 1, count) * (1 - height)
    left = random.uniform(0, 1, count) * (1 - width)
    right = left + width
    mirrored = random.uniform(0, 1, count) < 0.5
    ends = np.where(mirrored, right, left), np.where(mirrored, left, right)
    return np.stack([top, ends[0], top + height, ends[1]], axis=1).astype(np.float32)


def _batches(recipe: Recipe) -> Iterator[tuple[NDArray[np.int64], dict[str, Any]]]:
    """For each step the numbers of its pictures, their crops and their changes of colour.

    The first steps take plain pictures; busier ones join until `busy_from` of the steps.
    """
    random = generator("pretrain", recipe.seed)
    size = recipe.batch_size
    for step in range(recipe.steps):
        share = min(1.0, 0.15 + 0.85 * step / (recipe.busy_from * recipe.steps))
        kinds = random.randint(0, len(shapes.KINDS), size)
        numbers = (random.uniform(0, share, size) * recipe.per_kind).astype(np.int64)
        changes = {
            "boxes": _crops(random, size),
            "gains": np.exp(random.normal(0, 0.1, (size, 1, 1, 3))).astype(np.float32),
            "contrasts": np.exp(random.normal(0, 0.15, (size, 1, 1, 1))).astype(np.float32),
            "greys": np.clip(random.normal(0, 0.25, (size, 1, 1, 1)), -0.3, 1).astype(np.float32),
        }
        yield kinds * recipe.per_kind + numbers, changes


def learning_rate(recipe: Recipe, step: int) -> float:
    """The rate at a step counted from 0."""
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    share = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * (1 + math.cos(math.pi * share)) / 2


def _net(
    images: Any, recipe: Recipe, *, is_training: bool, auxiliary: bool = False, reuse: bool = False
) -> tuple[Any, Any]:
    """The logits of the main head and, where it is built, of the auxiliary one."""
    slim = load_slim()
    v1 = load_tensorflow().compat.v1
    from tf_slim.nets import inception

    scope = inception.inception_v3_arg_scope(
        weight_decay=recipe.weight_decay, batch_norm_decay=recipe.batch_norm_decay
    )
    with slim.arg_scope(scope):
        logits, end_points = inception.inception_v3(
            images,
            num_classes=len(shapes.KINDS),
            is_training=is_training,
            dropout_keep_prob=0.9,
            depth_multiplier=DEPTH_MULTIPLIER,
            create_aux_logits=auxiliary,
            reuse=v1.AUTO_REUSE if reuse else None,
        )
    return logits, end_points.get("AuxLogits")


def _augmented(pictures: Any, changes: dict[str, Any], image_size: int) -> Any:
    """Crops of uint8 pictures, changed in colour, float32 in [-1, 1]."""
    tf = load_tensorflow()
    numbers = tf.range(tf.shape(pictures)[0])
    size = [image_size, image_size]
    crops = tf.image.crop_and_resize(pictures, changes["boxes"], numbers, size) / 127.5 - 1
    crops = crops * changes["gains"] * changes["contrasts"]
    grey = tf.reduce_mean(crops, axis=3, keepdims=True)
    return tf.clip_by_value(crops + (grey - crops) * changes["greys"], -1, 1)


def central_crop(pictures: Any) -> Any:
    """The central crop of evaluation: uint8 [batch, side, side, 3] to float32 in [-1, 1]."""
    tf = load_tensorflow()
    count = tf.shape(pictures)[0]
    near, far = (1 - CENTRAL_CROP) / 2, (1 + CENTRAL_CROP) / 2
    boxes = tf.tile([[near, near, far, far]], [count, 1])
    size = [IMAGE_SIZE, IMAGE_SIZE]
    return tf.image.crop_and_resize(pictures, boxes, tf.range(count), size) / 127.5 - 1


@dataclass(frozen=True)
class _Graph:
    """Placeholders, one training operation and loss a stage, the logits of evaluation."""

    pictures: Any
    labels: Any
    rate: Any
    changes: dict[str, Any]
    train_ops: list[Any]
    losses: list[Any]
    evaluated: Any
    variables: dict[str, Any]


def _build(recipe: Recipe) -> _Graph:
    """Builds the net for evaluation and once for each stage, on the same variables."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    v1.set_random_seed(recipe.seed)
    pictures = v1.placeholder(tf.uint8, [None, shapes.SIDE, shapes.SIDE, 3])
    labels = v1.placeholder(tf.int64, [None])
    rate = v1.placeholder(tf.float32, [])
    shape_of = {"boxes": [4], "gains": [1, 1, 3], "contrasts": [1, 1, 1], "greys": [1, 1, 1]}
    changes = {name: v1.placeholder(tf.float32, [None, *rest]) for name, rest in shape_of.items()}
    evaluated, _ = _net(central_crop(pictures), recipe, is_training=False)
    variables = {variable.op.name: variable for variable in v1.global_variables()}
    decay = v1.losses.get_regularization_loss()
    optimizer = v1.train.AdamOptimizer(rate, epsilon=1e-5)
    targets = tf.one_hot(labels, len(shapes.KINDS))
    train_ops, losses = [], []
    for stage in recipe.stages:
        built = len(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        images = _augmented(pictures, changes, stage.image_size)
        heads = _net(images, recipe, is_training=True, auxiliary=stage.auxiliary, reuse=True)
        loss = decay
        for logits, weight in zip(heads, (1.0, 0.4), strict=True):
            if logits is not None:
                loss += v1.losses.softmax_cross_entropy(
                    targets, logits, weights=weight, label_smoothing=recipe.label_smoothing
                )
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)[built:]):
            train_ops.append(optimizer.minimize(loss))
        losses.append(loss)
    return _Graph(pictures, labels, rate, changes, train_ops, losses, evaluated, variables)


@quietly
def train(
    recipe: Recipe,
    pictures: Pictures,
    labels: NDArray[np.int64],
    held_out: Pictures,
    snapshots: Path | None = None,
    progress: Progress = SILENT,
) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float32]]:
    """Trains; returns the variables of the net and the logits of the held-out pictures.

    Args:
      recipe: how.
      pictures: uint8 [kinds * per_kind, side, side, 3], kind after kind, plain to busy.
      labels: the number of each picture's kind.
      held_out: uint8 [count, side, side, 3].
      snapshots: a directory for the variables after every thousand steps.
      progress: told of every step.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    config = v1.ConfigProto()
    if recipe.bfloat16:
        options = config.graph_options.rewrite_options
        options.auto_mixed_precision_onednn_bfloat16 = type(options).ON
    stages = np.repeat(np.arange(len(recipe.stages)), [stage.steps for stage in recipe.stages])
    with tf.Graph().as_default():
        graph = _build(recipe)
        with (
            v1.Session(config=config) as session,
            progress.task("Training", recipe.steps, "steps") as task,
        ):
            session.run(v1.global_variables_initializer())
            for step, (picked, changes) in enumerate(_batches(recipe)):
                feed = {graph.changes[name]: values for name, values in changes.items()}
                feed[graph.pictures] = pictures[picked]
                feed[graph.labels] = labels[picked]
                feed[graph.rate] = learning_rate(recipe, step)
                stage = int(stages[step])
                _, loss = session.run([graph.train_ops[stage], graph.losses[stage]], feed)
                task.advance()
                task.note(f"loss {loss:.3f}")
                if snapshots is not None and (step + 1) % 1000 == 0:
                    snapshots.mkdir(parents=True, exist_ok=True)
                    np.savez(snapshots / f"step-{step + 1}.npz", **session.run(graph.variables))
            scores = [
                session.run(graph.evaluated, {graph.pictures: held_out[first : first + 100]})
                for first in range(0, len(held_out), 100)
            ]
            values = session.run(graph.variables)
    return values, np.concatenate(scores)
