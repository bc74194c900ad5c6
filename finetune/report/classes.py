"""The confusion matrix, the pairs that are taken for each other, and the classes one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from finetune.evaluating.intervals import wilson_interval
from finetune.report.facts import Scores

MATRIX_CLASSES = 50
"""With more classes the matrix is left out and more of its worst pairs are listed."""

PAIRS, PAIRS_WITHOUT_MATRIX = 8, 30

MAX_ROWS = 500
"""Of more classes, the weakest are listed."""


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix.

    Attributes:
      count: pictures.
      share: of the pictures of the row's class, 0 to 1.
      is_right: whether it stands on the diagonal.
      predicted: name of the column's class.
    """

    count: int
    share: float
    is_right: bool
    predicted: str


@dataclass(frozen=True)
class Pair:
    """Pictures of one class that were called by the name of another."""

    true: str
    predicted: str
    count: int
    of: int


@dataclass(frozen=True)
class ClassRow:
    """One class.

    Attributes:
      name: of the class.
      count: its pictures.
      precision: share of it among what was called by its name; None where nothing was.
      recall: share of its pictures that were called by its name; None without pictures.
      interval: the 95 % interval of the recall, or None.
      f1: the harmonic mean of precision and recall; None where nothing defines it.
    """

    name: str
    count: int
    precision: float | None
    recall: float | None
    interval: tuple[float, float] | None
    f1: float | None


def matrix(scores: Scores) -> list[tuple[str, list[Cell]]] | None:
    """The rows of the matrix, each with the true class's name; None for too many classes."""
    if len(scores.classes) > MATRIX_CLASSES:
        return None
    rows, counted = [], scores.confusion.matrix()
    for row, name in enumerate(scores.classes):
        counts = counted[row]
        total = max(1, int(counts.sum()))
        cells = [
            Cell(int(count), int(count) / total, row == column, scores.classes[column])
            for column, count in enumerate(counts)
        ]
        rows.append((name, cells))
    return rows


def worst_pairs(scores: Scores) -> tuple[list[Pair], int]:
    """The commonest confusions, most pictures first, and how many pairs there are in all."""
    wrong, totals = scores.confusion.wrong(), scores.confusion.pictures
    true, predicted, counts = wrong.true, wrong.said, wrong.counts
    # The same number of pictures weighs more in a small class.
    order = np.lexsort((-counts / totals[true], -counts))
    limit = PAIRS if len(scores.classes) <= MATRIX_CLASSES else PAIRS_WITHOUT_MATRIX
    pairs = [
        Pair(
            scores.classes[true[place]],
            scores.classes[predicted[place]],
            int(counts[place]),
            int(totals[true[place]]),
        )
        for place in order[:limit]
    ]
    return pairs, len(counts)


def class_rows(scores: Scores) -> tuple[list[ClassRow], int]:
    """The classes, lowest recall first, those without pictures last; and how many are left out."""
    found = scores.confusion
    right, counts, called = found.right, found.pictures, found.called
    rows = [
        ClassRow(
            name,
            int(counts[place]),
            float(right[place] / called[place]) if called[place] else None,
            float(right[place] / counts[place]) if counts[place] else None,
            wilson_interval(int(right[place]), int(counts[place])) if counts[place] else None,
            float(2 * right[place] / (counts[place] + called[place]))
            if counts[place] + called[place]
            else None,
        )
        for place, name in enumerate(scores.classes)
    ]
    rows.sort(key=_weakest_first)
    return rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS)


def _weakest_first(row: ClassRow) -> tuple[float, float]:
    return (
        2.0 if row.recall is None else row.recall,
        2.0 if row.precision is None else row.precision,
    )
