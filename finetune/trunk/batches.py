"""Where the steps of training get their batches: pictures, or features that the trunk gave.

Where all that trains lies behind one tensor, a step is fed that tensor, and TensorFlow leaves out
everything before it: the same graph, loss and variables as with pictures. The features come from
a store, or the trunk computes them batch by batch.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import RunError
from checkpoints.progress import Progress
from exporters.graph import as_graph
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.datasets.dataset import Dataset
from finetune.held_pictures import LIMIT_BYTES, bytes_held, held_dataset
from finetune.input_pipeline import training_dataset
from finetune.planning import read_values
from finetune.preprocessing import Preprocessing
from finetune.training.precision import why_float32
from finetune.trunk.cut import (
    before_dropout,
    find_cut,
    is_rearranged,
    replace_by_placeholder,
    variables_before,
)
from finetune.trunk.extraction import extract
from finetune.trunk.frozen import BF16, Trunk, freeze_trunk, with_precision
from finetune.trunk.joint_extraction import extract_together
from finetune.trunk.store import FeatureStore, Key
from finetune.trunk.views import Views
from finetune.workers.workers import ALONE, Workers

DISTORTED = "full"
"""How pictures are distorted where nothing else was asked for."""

FED = "features"
"""Name of the placeholder that steps are fed."""

_COMPARED_PICTURES = 16


class StepBatches:
    """The batches of one phase of training.

    Attributes:
      images: tensor of pictures, float32 [batch, size, size, channels]; of several processes each
        has its own rows.
      pictures: how many there are to train on.
      labels: tensor of their classes, int64 [batch]; where pictures may have several, 0 or 1 for
        each, int64 [batch, classes].
      cut: the tensor that steps are fed instead of pictures, or None.
      is_bottleneck: whether that is what feeds the main head in evaluation too.
      store: where its values are, or None where the trunk computes them for each step.
      views: the pictures as they are shown, or None where each is distorted anew.
    """

    def __init__(
        self,
        dataset: Dataset,
        preprocessing: Preprocessing,
        config: TrainConfig,
        first: int,
        progress: Progress,
        workers: Workers = ALONE,
    ) -> None:
        """Makes the tensors, in the current tf.Graph.

        Args:
          dataset: the pictures.
          preprocessing: how they become input.
          config: batch size, seed, augment, views, cache and precision.
          first: how many steps of the run are done.
          progress: told what steps run on.
          workers: who takes which rows of each batch.
        """
        tf = load_tensorflow()
        v1 = tf.compat.v1
        self._dataset = dataset
        self._preprocessing = preprocessing
        self._config = config
        self._first = first
        self._progress = progress
        self._workers = workers
        self._part = workers.part(config.batch_size)
        self.pictures = dataset.split("train").count
        size, batch = preprocessing.image_size, self._part.rows
        several = [len(dataset.classes)] if dataset.multi_label else []
        self._iterator = v1.data.Iterator.from_structure(
            (tf.float32, tf.int64),
            (
                tf.TensorShape([batch, size, size, preprocessing.channels]),
                tf.TensorShape([batch, *several]),
            ),
        )
        self.images, self.labels = self._iterator.get_next()
        self.cut: Any = None
        self.is_bottleneck = False
        self.store: FeatureStore | None = None
        self.views: Views | None = None
        self._initializer: Any = None
        self._before: list[Any] = []
        self._trunk_graph: Any = None
        self._trunk: Trunk | None = None
        self._fed: Any = None
        self._held_out: dict[str, tuple[NDArray[np.float32], Views]] = {}
        self._streamed: Iterator[Any] | None = None
        self._step = first

    def cut_before(
        self,
        fetches: Iterable[Any],
        changing: Sequence[Any],
        variables: Sequence[Any],
        bottleneck: Any,
    ) -> None:
        """Finds what can be fed instead of pictures, and puts a placeholder there.

        To be called when the graph is complete and its message was made: what trains is not
        connected with the pictures afterwards.

        Args:
          fetches: what a step runs.
          changing: the variables that it changes.
          variables: all variables of the net.
          bottleneck: what feeds the main head.
        """
        bottleneck = before_dropout(bottleneck)
        self.cut = find_cut(fetches, self.images, changing, [self.labels], bottleneck)
        if self.cut is not None and is_rearranged(self.cut, self.images):
            self.cut = None
        if self.cut is None:
            self._initializer = self._iterator.make_initializer(self._pictures())
            if self._config.cache == "on" or self._config.views is not None:
                self._progress.say(
                    "Steps run on pictures: no tensor before what trains is all that it is fed "
                    "from, so there are no features to store, as --cache and --views would."
                )
            return
        v1 = load_tensorflow().compat.v1
        self.is_bottleneck = self.cut is bottleneck
        self._before = variables_before(self.cut, variables)
        self._trunk_graph = v1.graph_util.extract_sub_graph(
            self.cut.graph.as_graph_def(), [self.cut.op.name]
        )
        self._fed = replace_by_placeholder(self.cut, FED)

    @property
    def on_features(self) -> bool:
        """Whether steps are fed something else than pictures."""
        return self.cut is not None

    def restart(self, session: Any) -> None:
        """Puts the batches to the first one; features are computed on the first call.

        Args:
          session: that holds the net's variables.

        Raises:
          RunError: features were to be stored, and there is no room.
        """
        self._step = self._first
        if self.cut is None:
            session.run(self._initializer)
            return
        if self._trunk is None:
            self._trunk = self._freeze(session)
            self._choose(self._trunk)
        if self.store is None:
            self._close()
            self._streamed = self._trunk.activations(self._shown_pictures)

    def feeds(self) -> dict[str, Any]:
        """What the next step is fed beside its graph: name of the tensor -> value."""
        if self.cut is None:
            return {}
        if self.store is None:
            if self._streamed is None:
                raise RunError("The batches were not started.")
            activations, (labels,) = next(self._streamed)
            return {self._fed.name: activations, self.labels.name: labels}
        assert self.views is not None  # noqa: S101 - stored features always are of views
        batch = self._part.rows
        rows, views = self.views.shown(self._step * batch, batch)
        self._step += 1
        keys = [self.views.key(int(row), int(view)) for row, view in zip(rows, views, strict=True)]
        return {
            self._fed.name: self.store.read(keys),
            self.labels.name: self.views.labels[rows],
        }

    def plain_features(self, most: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Features of training pictures as evaluation sees them, and their classes.

        Args:
          most: how many pictures at most; of more, so many are drawn, the same each time.

        Returns:
          float32 [pictures, ...] and int64 [pictures].
        """
        if self._trunk is None:
            raise RunError("The batches were not started.")
        views = self.views or Views(
            self._dataset, self._preprocessing, seed=self._config.seed, progress=self._progress
        )
        rows = np.arange(views.count)
        if views.count > most:
            rows = np.sort(np.random.default_rng(0).choice(views.count, most, replace=False))
        keys = [views.key(int(row)) for row in rows]
        if self.store is not None:
            return self.store.read(keys), views.labels[rows]
        found = [
            np.asarray(activations, np.float32)
            for activations, _ in self._trunk.activations(
                lambda: views.chosen(keys, self._config.batch_size)
            )
        ]
        return np.concatenate(found), views.labels[rows]

    def held_out(self, split: str) -> tuple[NDArray[np.float32], Views] | None:
        """Features of pictures that are not trained on, as evaluation sees them.

        Args:
          split: whose pictures.

        Returns:
          float32 [pictures, ...] and the pictures; None where features are not stored.
        """
        if self.store is None or self._trunk is None:
            return None
        if split not in self._held_out:
            views = Views(self._dataset, self._preprocessing, split=split)
            keys = list(views.keys())
            missing = self.store.find(keys, self._progress)
            if missing:
                if self.store.make_room(len(missing)) is None:
                    return None
                extract(self._trunk, self.store, views, missing, self._progress)
            self._held_out[split] = self.store.read(keys), views
        return self._held_out[split]

    def close(self) -> None:
        """Frees the session of a trunk that computes batch by batch."""
        self._close()

    def _close(self) -> None:
        if self._streamed is not None:
            self._streamed.close()  # type: ignore[attr-defined]
            self._streamed = None

    def _freeze(self, session: Any) -> Trunk:
        return freeze_trunk(
            as_graph(self._trunk_graph),
            read_values(session, self._before),
            self.images.name,
            self.cut.name,
            tuple(self.cut.shape.as_list()[1:]),
        )

    def _choose(self, trunk: Trunk) -> None:
        """Takes stored features where they can be had, else the trunk computes each batch."""
        config = self._config
        views = config.views or 1
        augment = config.augment or ("none" if views == 1 else DISTORTED)
        if views == 1 and augment != "none":
            # Each picture is distorted anew each time it is shown: there is nothing to store.
            if config.cache == "on":
                raise RunError(
                    f"Pictures that --augment {augment} distorts anew each time cannot be stored.",
                    expected="--views K with --cache on, for K views of each picture",
                    received="--cache on without --views",
                    next_step="Add --views 4, or leave --cache out.",
                )
            self._trunk = self._in_precision(trunk)
            self._say("the trunk computes them for each step, for --augment distorts anew")
            return
        self.views = Views(
            self._dataset,
            self._preprocessing,
            views=views,
            augment=augment,
            seed=config.seed,
            part=self._part,
            progress=self._progress,
        )
        if config.cache == "off":
            self._trunk = self._in_precision(trunk)
            self._say("the trunk computes them for each step, as --cache off asks")
            return
        self._fill(trunk, self.views)

    def _fill(self, trunk: Trunk, views: Views) -> None:
        self._trunk, store = self._find_store(trunk, views)
        missing = store.find(views.keys(), self._progress)
        total = views.count * views.views
        told = f"{views.count} pictures"
        if views.views > 1:
            told += f" in {views.views} views"
        size = total * store.record_bytes / 1e6
        speed = None
        if self._is_so_anywhere(bool(missing)):
            problem = None
            if self._is_so_anywhere(store.make_room(len(missing)) is None):
                problem = "more than there is room for"
            else:
                try:
                    speed = self._extract(store, views, missing)
                except OSError as error:
                    # One of several processes cannot go another way than the others.
                    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
                    if not is_full or self._workers.count > 1:
                        raise
                    problem = "more than the disk has room for"
            if problem is not None:
                if self._config.cache == "on":
                    raise RunError(
                        f"Features of {told} cannot be stored in {store.root}.",
                        expected="room on the disk, and within SLIMTUNE_FEATURES_GB",
                        received=f"{size:.0f} MB, {problem}",
                        next_step="Make room, raise SLIMTUNE_FEATURES_GB, or leave --cache out.",
                    )
                self._say(f"the trunk computes them for each step: {size:.0f} MB are {problem}")
                return
        self.store = store
        found = total - len(missing)
        computed = f"{len(missing)} computed" + (f" at {speed:.0f} a second" if speed else "")
        self._say(f"stored for {told}, {size:.1f} MB: {found} were there, {computed}")

    def _extract(self, store: FeatureStore, views: Views, missing: list[Key]) -> float:
        assert self._trunk is not None  # noqa: S101 - frozen before anything is stored of it
        if self._workers.count == 1:
            return extract(self._trunk, store, views, missing, self._progress)
        return extract_together(self._trunk, store, views, missing, self._workers, self._progress)

    def _is_so_anywhere(self, is_so: bool) -> bool:
        return bool(self._workers.gather(np.array([is_so], np.int32)).any())

    def _in_precision(self, trunk: Trunk) -> Trunk:
        """The trunk in the precision that the chief finds right."""
        wanted = self._config.precision
        if self._workers.is_chief:
            trunk = with_precision(trunk, self._first_pictures, wanted, self._progress)
        return trunk.in_bfloat16 if self._workers.share(trunk.precision) == BF16 else trunk

    def _find_store(self, trunk: Trunk, views: Views) -> tuple[Trunk, FeatureStore]:
        """The trunk in a precision whose features are all there already, else in the one to take."""
        wanted = self._config.precision
        choices = [trunk] if why_float32() else [trunk.in_bfloat16, trunk]
        for choice in choices:
            if wanted in ("auto", choice.precision):
                store = _store_of(choice, views)
                is_whole = store.directory.is_dir() and not store.find(views.keys())
                if self._workers.share(is_whole):
                    return choice, store
        chosen = self._in_precision(trunk)
        return chosen, _store_of(chosen, views)

    def _say(self, how: str) -> None:
        numbers = math.prod(self.cut.shape.as_list()[1:])
        assert self._trunk is not None  # noqa: S101 - frozen before anything is said of it
        self._progress.say(
            f"Steps run on features, {numbers:,} numbers a picture ({self.cut.op.name}, trunk in "
            f"{self._trunk.precision}): {how}."
        )

    def _shown_pictures(self) -> Any:
        """Pictures as steps see them, from the first one on."""
        batch = self._part.rows
        if self.views is not None:
            return self.views.training(self._first * batch, batch)
        return self._pictures()

    def _first_pictures(self) -> Any:
        """The batch that precisions are compared on: the same whichever step a run is at."""
        return training_dataset(
            self._dataset,
            self._preprocessing,
            min(_COMPARED_PICTURES, self._dataset.split("train").count),
            0,
            augment="none",
        ).take(1)

    def _pictures(self) -> Any:
        config = self._config
        augment = config.augment or DISTORTED
        size = bytes_held(self._dataset, self._preprocessing)
        count = self._dataset.split("train").count
        left = (config.total_steps(count) - self._first) * config.batch_size
        common = (self._dataset, self._preprocessing, config.batch_size, config.seed)
        is_shown_again = augment == "none" and left >= 2 * count
        if is_shown_again and config.cache != "off" and size <= LIMIT_BYTES:
            self._progress.say(
                f"Pictures are decoded once and held in memory, {size / 1e6:.1f} MB."
            )
            return held_dataset(*common, self._first, part=self._part, progress=self._progress)
        return training_dataset(*common, augment=augment, start_step=self._first, part=self._part)


def _store_of(trunk: Trunk, views: Views) -> FeatureStore:
    return FeatureStore({"trunk": trunk.digest, **views.description}, trunk.shape, trunk.dtype)
