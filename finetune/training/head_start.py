"""A start for a new linear head that needs no steps: ridge regression on the training features.

Features are standardised, the classes' indicators are regressed on them, and regulariser and scale
are those that do best on pictures left out one at a time. All of it folds into the weights and
biases of a plain linear layer. From few pictures this beats gradient descent from random weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import RunError
from checkpoints.progress import Progress
from finetune.planning import BoundPlan, load_values

if TYPE_CHECKING:
    from finetune.config import TrainConfig
    from finetune.trunk.batches import StepBatches

REGULARISERS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Shares of the mean squared length of a standardised feature vector."""

VARIANCE_FLOOR = 0.05
"""Share of the mean variance that is added to each feature's: what hardly varies stays small."""

MAX_NUMBERS = 1 << 26
"""Features, and pictures times classes, that are fitted at most; of more, pictures are drawn."""

FEWEST_OF_A_CLASS = 4
"""Pictures, on average; with fewer of them drawn such a start knows too little."""

_SCALES = tuple(1.25**power for power in range(28))
_SMALLEST_LEFT_OUT = 1e-3


class HeadStart(NamedTuple):
    """A linear layer: logits = features @ weights + biases.

    Attributes:
      weights: float32 [channels, classes].
      biases: float32 [classes].
      accuracy: share of pictures that it gets right while they are left out.
      regulariser: the one that was taken.
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float32]
    accuracy: float
    regulariser: float


def fit_head(features: NDArray[np.float32], labels: NDArray[np.int64], classes: int) -> HeadStart:
    """Fits the layer.

    Args:
      features: [pictures, channels].
      labels: [pictures], from 0.
      classes: how many there are; some may have no picture.

    Source:
      Hoerl and Kennard 1970 (ridge regression); Allen 1974 (leaving one out in closed form).
    """
    x = np.asarray(features, np.float64)
    count = len(x)
    centre, variance = x.mean(axis=0), x.var(axis=0)
    spread = np.sqrt(variance + VARIANCE_FLOOR * variance.mean() + np.finfo(np.float32).tiny)
    z = (x - centre) / spread
    targets = np.eye(classes)[labels]
    shares = targets.mean(axis=0)
    residual = targets - shares

    # z = left * sqrt(values) * right, from the smaller of the two Gram matrices.
    if count <= z.shape[1]:
        values, left = np.linalg.eigh(z @ z.T)
        roots = np.sqrt(np.maximum(values, 0.0))
        right = (left.T @ z) / np.maximum(roots, _tiny(roots))[:, None]
    else:
        values, vectors = np.linalg.eigh(z.T @ z)
        roots = np.sqrt(np.maximum(values, 0.0))
        right = vectors.T
        left = (z @ vectors) / np.maximum(roots, _tiny(roots))
    projected = left.T @ residual
    unit = float(np.square(roots).sum()) / count

    best: tuple[float, float, NDArray[np.float64]] | None = None
    for regulariser in REGULARISERS:
        kept = np.square(roots) / (np.square(roots) + regulariser * unit + _tiny(roots))
        fitted = left @ (kept[:, None] * projected)
        leverage = np.square(left) @ kept + 1.0 / count
        wrong = (residual - fitted) / np.maximum(1.0 - leverage, _SMALLEST_LEFT_OUT)[:, None]
        error = float(np.square(wrong).mean())
        if best is None or error < best[0]:
            best = error, regulariser, targets - wrong
    assert best is not None  # noqa: S101 - there are regularisers
    _, regulariser, left_out = best
    factors = roots / (np.square(roots) + regulariser * unit + _tiny(roots))
    scale = min(_SCALES, key=lambda scale: _cross_entropy(scale * left_out, labels))
    weights = scale * (right.T @ (factors[:, None] * projected)) / spread[:, None]
    biases = scale * shares - centre @ weights
    return HeadStart(
        weights=weights.astype(np.float32),
        biases=biases.astype(np.float32),
        accuracy=float(np.mean(left_out.argmax(axis=1) == labels)),
        regulariser=regulariser,
    )


def start_head(
    session: Any, batches: StepBatches, bound: BoundPlan, config: TrainConfig, progress: Progress
) -> bool:
    """Gives a new linear head the values of `fit_head`, where that is all that trains.

    Args:
      session: with every variable at its first value.
      batches: what the steps get.
      bound: the plan and its variables.
      config: with `init`: default never starts so, prototypes must, None does where it can.
      progress: told of it.

    Returns:
      Whether the head was given new values.

    Raises:
      RunError: it must and cannot.
    """
    if config.init == "default":
        return False
    head = _linear_head(batches, bound, config)
    if head is None:
        if config.init == "prototypes":
            raise RunError(
                "--init prototypes needs a new linear head behind a frozen trunk.",
                expected="the main head alone among --trainable, initialised, without --hidden and"
                " --loss",
                received=f"{len(bound.trainable_variables)} variables that train",
                next_step="Leave --init out.",
            )
        return False
    weights, biases = head
    classes = biases.shape[0]
    most = max(1, MAX_NUMBERS // max(math.prod(batches.cut.shape.as_list()[1:]), classes))
    if config.init is None and most < min(batches.pictures, FEWEST_OF_A_CLASS * classes):
        progress.say(
            f"The head starts at random: of {batches.pictures:,} pictures ridge regression would take "
            f"{most:,}, too few of {classes:,} classes."
        )
        return False
    features, labels = batches.plain_features(most)
    start = fit_head(features.reshape(len(features), -1), labels, classes)
    values = {
        weights.op.name: start.weights.reshape(weights.shape.as_list()),
        biases.op.name: start.biases,
    }
    load_values(session, {v.op.name: v for v in (weights, biases)}, values)
    progress.say(
        f"The head starts from ridge regression on {len(labels)} pictures (regulariser "
        f"{start.regulariser:g}), which gets {start.accuracy:.1%} of them right when left out."
    )
    return True


def _linear_head(
    batches: StepBatches, bound: BoundPlan, config: TrainConfig
) -> tuple[Any, Any] | None:
    """Weights and biases of a linear layer on the features, where nothing else trains."""
    trained = sorted(bound.trainable_variables, key=lambda variable: -len(variable.shape))
    initialised = {v.name for v in bound.plan.variables if v.origin == "initialised"}
    if not batches.is_bottleneck or len(trained) != 2 or config.hidden or config.loss is not None:
        return None
    weights, biases = trained
    if not {weights.op.name, biases.op.name} <= initialised or len(biases.shape) != 1:
        return None
    channels = math.prod(batches.cut.shape.as_list()[1:])
    classes = biases.shape.as_list()[0]
    is_dense = weights.shape.as_list()[-1] == classes
    if not is_dense or weights.shape.num_elements() != channels * classes:
        return None
    return weights, biases


def _tiny(roots: NDArray[np.float64]) -> float:
    return float(np.finfo(np.float64).eps * max(1.0, roots.max()))


def _cross_entropy(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    right = shifted[np.arange(len(labels)), labels]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - right))
