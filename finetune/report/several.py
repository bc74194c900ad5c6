"""evaluation.json of pictures with several classes: figures of the whole and of each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from finetune.evaluating.averages_lag import Lag
from finetune.evaluating.intervals import wilson_interval


@dataclass(frozen=True)
class SeveralRow:
    """One class.

    Attributes:
      name: of the class.
      count: the pictures that show it.
      precision: share of them among those it was said of; None where it was said of none.
      recall: share of its pictures that it was said of; None without pictures.
      interval: the 95 % interval of the recall, or None.
      f1: the harmonic mean of precision and recall; None where nothing defines it.
      average_precision: the area under precision over recall; None without pictures.
    """

    name: str
    count: int
    precision: float | None
    recall: float | None
    interval: tuple[float, float] | None
    f1: float | None
    average_precision: float | None


@dataclass(frozen=True)
class SeveralScores:
    """The figures.

    Attributes:
      split: what was evaluated.
      step: of the model, or None.
      classes: class names.
      count: pictures, at least one.
      accuracy: share of pictures of which exactly the true classes were said.
      threshold: from which probability on a class counts as said.
      mean_average_precision: over the classes with pictures, or None.
      rows: the classes, lowest average precision first, those without pictures last.
      lag: how far moving averages of batch norm fall short, where they plainly do, or None.
    """

    split: str
    step: int | None
    classes: tuple[str, ...]
    count: int
    accuracy: float
    threshold: float
    mean_average_precision: float | None
    rows: tuple[SeveralRow, ...]
    lag: Lag | None = None

    @property
    def right(self) -> int:
        """How many pictures were right with all classes."""
        return round(self.accuracy * self.count)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the accuracy (Wilson)."""
        return wilson_interval(self.right, self.count)


def several_scores(stored: Mapping[str, Any], lag: Lag | None) -> SeveralScores:
    """Reads the object.

    Raises:
      KeyError, TypeError, ValueError: it is not what train writes.
    """
    rows = tuple(_row(row) for row in stored["per_class"])
    classes = tuple(str(name) for name in stored["classes"])
    if tuple(row.name for row in rows) != classes:
        raise ValueError("figures of other classes")
    count = int(stored["count"])
    if count < 1:
        raise ValueError("an evaluation without pictures")
    step = stored["step"]
    return SeveralScores(
        split=str(stored["split"]),
        step=None if step is None else int(step),
        classes=classes,
        count=count,
        accuracy=_share(stored["accuracy"]) or 0.0,
        threshold=float(stored["threshold"]),
        mean_average_precision=_share(stored["mean_average_precision"]),
        rows=tuple(sorted(rows, key=_weakest_first)),
        lag=lag,
    )


def _row(stored: Mapping[str, Any]) -> SeveralRow:
    count, recall = int(stored["count"]), _share(stored["recall"])
    return SeveralRow(
        name=str(stored["class"]),
        count=count,
        precision=_share(stored["precision"]),
        recall=recall,
        interval=None if recall is None else wilson_interval(round(recall * count), count),
        f1=_share(stored["f1"]),
        average_precision=_share(stored["average_precision"]),
    )


def _share(value: Any) -> float | None:
    if value is None:
        return None
    share = float(value)
    if not 0 <= share <= 1:
        raise ValueError(f"{share} is no share")
    return share


def _weakest_first(row: SeveralRow) -> float:
    return 2.0 if row.average_precision is None else row.average_precision
