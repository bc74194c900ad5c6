"""How good predictions are: accuracy, top 5, classes, confusion, calibration. Plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finetune.evaluating.averages_lag import Lag
from finetune.evaluating.calibration import Calibration, calibrate
from finetune.evaluating.confusion import Confusion
from finetune.evaluating.intervals import wilson_interval

TOP = 5

MISTAKES = 20
"""How many of the most confident mistakes are named."""

MATRIX_CLASSES = 1_000
"""Of more classes a run's evaluation.json has no matrix."""

MOVING_AVERAGES, BATCH = "moving-averages", "batch"
"""What batch norm normalised by."""


@dataclass(frozen=True)
class Evaluation:
    """The answers of a model on one split, and what they are worth.

    Attributes:
      classes: class names.
      names: file name of each picture, in the order of the split.
      labels: int64 [pictures], the true class of each.
      probabilities: float32 [pictures, classes].
      split: what was evaluated.
      step: of the model, or None where it is not known.
      folder: what the names are relative to, where that is known.
      statistics: what batch norm normalised by: "moving-averages", or "batch" as a diagnostic.
      lag: how the two compare, where that was asked for or moving averages lag plainly.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    split: str
    step: int | None
    folder: Path | None = None
    statistics: str = MOVING_AVERAGES
    lag: Lag | None = None

    @property
    def count(self) -> int:
        """How many pictures; each counts once."""
        return len(self.labels)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """int64 [pictures], the most probable class of each; the lower one of equals."""
        return self.probabilities.argmax(axis=1)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the most probable class is the true one: bool [pictures]."""
        return self.predicted == self.labels

    @property
    def accuracy(self) -> float:
        """Share of pictures whose most probable class is the true one."""
        return float(self.right.mean())

    @property
    def accuracy_interval(self) -> tuple[float, float]:
        """The 95 % interval of the accuracy (Wilson)."""
        return wilson_interval(int(self.right.sum()), self.count)

    @property
    def top5(self) -> float | None:
        """Share of pictures whose class is among the five most probable; None up to 5 classes."""
        if len(self.classes) <= TOP:
            return None
        own = self.probabilities[np.arange(self.count), self.labels]
        # Of equals the lower class stands first, as in `predicted`.
        ahead = [
            int((row > mine).sum() + (row[:label] == mine).sum())
            for row, mine, label in zip(self.probabilities, own, self.labels, strict=True)
        ]
        return float(((np.array(ahead) < TOP) & ~np.isnan(own)).mean())

    def agreement(self, other: Evaluation) -> float:
        """Share of pictures of which both say the same."""
        same = (self.predicted == other.predicted).reshape(self.count, -1)
        return float(same.all(axis=1).mean())

    def confusion(self) -> NDArray[np.int64]:
        """int64 [classes, classes]: row true, column predicted."""
        return self.confusion_pairs().matrix()

    def confusion_pairs(self) -> Confusion:
        """The same without what never happened."""
        return Confusion.of_answers(self.labels, self.predicted, len(self.classes))

    def per_class(self) -> list[dict[str, Any]]:
        """Count, precision, recall, its 95 % interval, and F1 of each class.

        None where nothing defines a figure: precision of a class that was never said, recall of
        one without pictures, F1 of one with neither.
        """
        found = self.confusion_pairs()
        return [
            class_figures(name, int(hits), int(count), int(said))
            for name, hits, count, said in zip(
                self.classes, found.right, found.pictures, found.called, strict=True
            )
        ]

    def calibration(self) -> Calibration:
        """Whether the confidence of the answers is worth their accuracy."""
        return calibrate(self.probabilities.max(axis=1), self.right)

    def mistakes(self, limit: int = MISTAKES) -> list[dict[str, Any]]:
        """The wrong answers, most confident first: odd pictures and wrong labels stand on top.

        Args:
          limit: how many at most.

        Returns:
          {path, label, predicted, probability} each, with the names of the classes.
        """
        predicted, confidences = self.predicted, self.probabilities.max(axis=1)
        wrong = np.flatnonzero(~self.right)
        order = wrong[np.argsort(-confidences[wrong], kind="stable")][:limit]
        return [
            {
                "path": self.path_of(self.names[place]),
                "label": self.classes[self.labels[place]],
                "predicted": self.classes[predicted[place]],
                "probability": float(confidences[place]),
            }
            for place in order
        ]

    def confusions(self, limit: int) -> list[tuple[str, str, int, int]]:
        """The commonest confusions: true class, what was said, how often, of how many pictures.

        Args:
          limit: how many at most.
        """
        confusion = self.confusion_pairs()
        totals, wrong = confusion.pictures, confusion.wrong()
        order = np.argsort(-wrong.counts, kind="stable")[:limit]
        return [
            (self.classes[true], self.classes[said], int(count), int(totals[true]))
            for true, said, count in zip(
                wrong.true[order], wrong.said[order], wrong.counts[order], strict=True
            )
        ]

    def path_of(self, name: str) -> str:
        """Where a picture lies, as far as that is known."""
        return name if self.folder is None else str(self.folder / name)

    def as_json(self, pictures: bool = False) -> dict[str, Any]:
        """What `evaluate --json` prints; with `pictures`, each picture's answer too.

        Of more than MATRIX_CLASSES classes these stand for the matrix, which would be larger.
        """
        has_matrix = not pictures or len(self.classes) <= MATRIX_CLASSES
        value: dict[str, Any] = {
            "split": self.split,
            "step": self.step,
            "count": self.count,
            "accuracy": self.accuracy,
            "accuracy_interval": list(self.accuracy_interval),
            "top5": self.top5,
            "classes": list(self.classes),
            "per_class": self.per_class(),
            "confusion": self.confusion().tolist() if has_matrix else None,
            "calibration": self.calibration().as_json(),
            "mistakes": self.mistakes(),
            "statistics": self.statistics,
            "averages_lag": None if self.lag is None else self.lag.as_json(),
        }
        if pictures:
            best = self.probabilities.max(axis=1)
            value["pictures"] = [
                {
                    "name": name,
                    "label": int(label),
                    "predicted": int(predicted),
                    "probability": float(probability),
                }
                for name, label, predicted, probability in zip(
                    self.names, self.labels, self.predicted, best, strict=True
                )
            ]
        return value


def class_figures(name: str, hits: int, count: int, said: int) -> dict[str, Any]:
    """What `evaluate --json` prints of a class; None where nothing defines a figure.

    Args:
      name: of the class.
      hits: pictures of it that it was said of.
      count: pictures of it.
      said: pictures that it was said of.
    """
    return {
        "class": name,
        "count": count,
        "precision": hits / said if said else None,
        "recall": hits / count if count else None,
        "recall_interval": list(wilson_interval(hits, count)) if count else None,
        # The harmonic mean of precision and recall, over whole numbers.
        "f1": 2 * hits / (count + said) if count + said else None,
    }


def top_classes(
    probabilities: NDArray[np.float32], classes: Sequence[str], top: int
) -> list[dict[str, Any]]:
    """The most probable classes of one picture, best first.

    Args:
      probabilities: float32 [classes].
      classes: their names.
      top: how many at most.
    """
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [{"label": classes[i], "probability": float(probabilities[i])} for i in order]
