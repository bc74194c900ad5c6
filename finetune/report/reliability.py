"""The calibration plot: how sure the model was against how often it was right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from finetune.evaluating.calibration import NUM_BINS, Bin, calibrate
from finetune.report.facts import Scores

CLOSE = 0.02
"""Confidence and accuracy that differ by less are called equal."""


@dataclass(frozen=True)
class Column:
    """One bin that has pictures; places and sizes in percent of the plot.

    Attributes:
      left: of the bin.
      width: of the bin.
      accuracy: the height of its bar.
      confidence: where its dot stands, from the left.
      share: of the pictures, relative to the fullest bin.
      title: the bin in words.
    """

    left: float
    width: float
    accuracy: float
    confidence: float
    share: float
    title: str


@dataclass(frozen=True)
class Reliability:
    """What the plot shows.

    Attributes:
      ece: the expected calibration error, 0 to 1.
      num_bins: of equal width.
      confidence: the mean, 0 to 1.
      accuracy: the mean, 0 to 1.
      columns: from the lowest confidence to the highest.
    """

    ece: float
    num_bins: int
    confidence: float
    accuracy: float
    columns: tuple[Column, ...]

    @property
    def verdict(self) -> str:
        """The whole in a word or two."""
        if abs(self.confidence - self.accuracy) < CLOSE:
            return "as sure as it is right"
        return "too sure" if self.confidence > self.accuracy else "too cautious"

    @property
    def description(self) -> str:
        """For those who do not see it."""
        return "Accuracy by confidence: " + "; ".join(c.title for c in self.columns) + "."


def reliability(scores: Scores) -> Reliability | None:
    """The plot of an evaluation; None where its single answers were not stored."""
    if not scores.answers:
        return None
    confidences = np.array([answer.probability for answer in scores.answers])
    right = np.array([answer.is_right for answer in scores.answers])
    found = calibrate(confidences, right)
    fullest = max(one.count for one in found.bins)
    return Reliability(
        ece=found.ece,
        num_bins=NUM_BINS,
        confidence=float(confidences.mean()),
        accuracy=float(right.mean()),
        columns=tuple(
            column for one in found.bins if (column := _column(one, fullest)) is not None
        ),
    )


def _column(one: Bin, fullest: int) -> Column | None:
    if one.confidence is None or one.accuracy is None:
        return None
    pictures = "1 picture" if one.count == 1 else f"{one.count:,} pictures"
    return Column(
        left=100 * one.lower,
        width=100 * (one.upper - one.lower),
        accuracy=100 * one.accuracy,
        confidence=100 * one.confidence,
        share=100 * one.count / fullest,
        title=f"{one.confidence:.0%} sure, {one.accuracy:.0%} right, {pictures}",
    )
