"""How far the moving averages of batch norm lag behind, as the answers show it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_GAP = 0.1
"""Differences of accuracy below it are not worth a warning."""

MIN_DEVIATIONS = 2.5
"""How unlikely by chance a gap has to be, in standard deviations."""


@dataclass(frozen=True)
class Lag:
    """Accuracy by the statistics of the batch, held against that by moving averages.

    Attributes:
      count: pictures compared.
      moving_averages: share of them that was right by moving averages.
      batch: share of them that was right by the statistics of their batch.
      is_plain: whether the gap is large, and no matter of chance.
    """

    count: int
    moving_averages: float
    batch: float
    is_plain: bool

    @property
    def gap(self) -> float:
        """By how much accuracy falls short for the averages' sake, a share."""
        return self.batch - self.moving_averages

    def as_json(self) -> dict[str, Any]:
        """What `evaluate --json` prints under "averages_lag"."""
        return {**asdict(self), "gap": self.gap}

    def __str__(self) -> str:
        return (
            f"{self.moving_averages:.1%} right by moving averages, {self.batch:.1%} by the "
            f"statistics of each batch: {abs(100 * self.gap):.1f} points "
            f"{'lower' if self.gap > 0 else 'higher'} by averages"
        )


def measure_lag(averages: NDArray[np.bool_], batch: NDArray[np.bool_]) -> Lag:
    """Compares which pictures were right.

    Args:
      averages: bool [pictures], right by moving averages.
      batch: bool [pictures], right by the statistics of the batch.

    Source:
      McNemar 1947, Note on the sampling error of the difference between correlated proportions:
      only pictures on which the two differ tell.
    """
    gained = int((batch & ~averages).sum())
    lost = int((averages & ~batch).sum())
    gap = (gained - lost) / len(averages)
    deviations = (gained - lost) / math.sqrt(gained + lost) if gained + lost else 0.0
    return Lag(
        count=len(averages),
        moving_averages=float(averages.mean()),
        batch=float(batch.mean()),
        is_plain=gap >= MIN_GAP and deviations >= MIN_DEVIATIONS,
    )
