"""Whether probabilities are what they say: confidence against accuracy, and the gap of the two."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_BINS = 15


@dataclass(frozen=True)
class Bin:
    """The pictures whose confidence lies above `lower` and up to `upper`.

    Attributes:
      lower: share from 0 to 1.
      upper: share from 0 to 1.
      count: pictures.
      confidence: their mean confidence; None where there are none.
      accuracy: the share of them that was right; None where there are none.
    """

    lower: float
    upper: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """Bins of confidence, the probability of the most probable class.

    Attributes:
      ece: the expected calibration error: |confidence - accuracy| of each bin, weighted by its
        share of the pictures; 0 to 1.
      bins: of equal width, from 0 to 1.
    """

    ece: float
    bins: tuple[Bin, ...]

    def as_json(self) -> dict[str, Any]:
        """What `evaluate --json` prints under "calibration"."""
        return {"num_bins": len(self.bins), **asdict(self)}


def calibrate(
    confidences: NDArray[np.floating[Any]], right: NDArray[np.bool_], num_bins: int = NUM_BINS
) -> Calibration:
    """Sorts answers into bins of confidence.

    Args:
      confidences: float [pictures], from 0 to 1.
      right: bool [pictures], whether the answer was right.
      num_bins: bins of equal width.

    Source:
      Guo, Pleiss, Sun and Weinberger 2017, On calibration of modern neural networks, section 2.
    """
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    # side="left" puts a value that equals an edge into the bin below it.
    places = np.clip(np.searchsorted(edges, confidences, side="left") - 1, 0, num_bins - 1)
    counts = np.bincount(places, minlength=num_bins)
    sums = np.bincount(places, weights=confidences, minlength=num_bins)
    hits = np.bincount(places, weights=right, minlength=num_bins)
    bins = tuple(
        Bin(
            lower=float(edges[place]),
            upper=float(edges[place + 1]),
            count=int(count),
            confidence=float(sums[place] / count) if count else None,
            accuracy=float(hits[place] / count) if count else None,
        )
        for place, count in enumerate(counts)
    )
    # Weighted by counts, |sum - hits| of a bin is its count times the gap of its means.
    error = float(np.abs(sums - hits).sum() / max(1, len(confidences)))
    return Calibration(error, bins)
