"""How good predictions are: accuracy, top 5, per class, confusion. Plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOP = 5


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
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    split: str
    step: int | None

    @property
    def count(self) -> int:
        """How many pictures; each counts once."""
        return len(self.labels)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """int64 [pictures], the most probable class of each; the lower one of equals."""
        return self.probabilities.argmax(axis=1)

    @property
    def accuracy(self) -> float:
        """Share of pictures whose most probable class is the true one."""
        return float((self.predicted == self.labels).mean())

    @property
    def top5(self) -> float | None:
        """Share of pictures whose class is among the five most probable; None up to 5 classes."""
        if len(self.classes) <= TOP:
            return None
        order = np.argsort(-self.probabilities, axis=1, kind="stable")[:, :TOP]
        return float((order == self.labels[:, None]).any(axis=1).mean())

    def confusion(self) -> NDArray[np.int64]:
        """int64 [classes, classes]: row true, column predicted."""
        size = len(self.classes)
        flat = np.bincount(self.labels * size + self.predicted, minlength=size * size)
        return flat.reshape(size, size)

    def per_class(self) -> list[dict[str, Any]]:
        """Count, precision and recall of each class; None where nothing defines it."""
        confusion = self.confusion()
        right = confusion.diagonal()
        return [
            {
                "class": name,
                "count": int(count),
                "precision": float(right[index] / taken) if taken else None,
                "recall": float(right[index] / count) if count else None,
            }
            for index, (name, count, taken) in enumerate(
                zip(self.classes, confusion.sum(axis=1), confusion.sum(axis=0), strict=True)
            )
        ]

    def as_json(self, pictures: bool = False) -> dict[str, Any]:
        """What `evaluate --json` prints; with `pictures`, each picture's answer too."""
        value: dict[str, Any] = {
            "split": self.split,
            "step": self.step,
            "count": self.count,
            "accuracy": self.accuracy,
            "top5": self.top5,
            "classes": list(self.classes),
            "per_class": self.per_class(),
            "confusion": self.confusion().tolist(),
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
