"""Pictures of several classes: how good answers are where each class is answered for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import UsageError
from finetune.config import TrainConfig
from finetune.datasets.dataset import Dataset
from finetune.evaluating.scores import MISTAKES, Evaluation, class_figures

THRESHOLD = 0.5
"""From this probability on a class counts as said: where its logit is 0."""


def refuse_options(config: TrainConfig, dataset: Dataset) -> None:
    """Raises UsageError for options that need one class a picture, where pictures have several."""
    if not dataset.multi_label:
        return
    problem = None
    if config.loss is not None:
        problem = (
            f"--loss {config.loss}",
            "such a function is given one label a picture",
            "the built-in loss: sigmoid cross entropy of each class",
        )
    elif config.init == "prototypes":
        problem = (
            "--init prototypes",
            "its scale is fitted to one class a picture",
            "--init default, which a head of several classes always begins with",
        )
    if problem is not None:
        option, reason, expected = problem
        raise UsageError(
            f"{option} does not go with pictures of several classes: {reason}.",
            expected=expected,
            received=f"{dataset.path}, with labels of several classes",
            next_step=f"Leave {option.split()[0]} out, or build the dataset with one class a picture.",
        )


@dataclass(frozen=True)
class MultiLabelEvaluation(Evaluation):
    """The answers of a model that answers each class for itself, and what they are worth.

    A class counts as said from the probability THRESHOLD on. A picture is right where all of its
    classes are said and no other.

    Attributes:
      labels: int64 [pictures, classes], 1 for each class that a picture shows, else 0.
      probabilities: float32 [pictures, classes], each from 0 to 1 for itself.
    """

    @property
    def predicted(self) -> NDArray[np.int64]:
        """int64 [pictures, classes], 1 for each class that was said, else 0."""
        return (self.probabilities >= THRESHOLD).astype(np.int64)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether exactly the true classes were said: bool [pictures]."""
        return np.asarray((self.predicted == self.labels).all(axis=1))

    @property
    def top5(self) -> None:
        """None: a picture has no one class."""
        return

    def average_precisions(self) -> list[float | None]:
        """The average precision of each class; None for one without pictures."""
        return [
            average_precision(self.labels[:, place], self.probabilities[:, place])
            for place in range(len(self.classes))
        ]

    @property
    def mean_average_precision(self) -> float | None:
        """The mean over the classes that have pictures; None where none has."""
        found = [one for one in self.average_precisions() if one is not None]
        return sum(found) / len(found) if found else None

    def per_class(self) -> list[dict[str, Any]]:
        """As for one class a picture, at the threshold; with average precision beside.

        None where nothing defines a figure.
        """
        hits = (self.labels & self.predicted).sum(axis=0)
        counts, said = self.labels.sum(axis=0), self.predicted.sum(axis=0)
        return [
            {
                **class_figures(name, int(hits[place]), int(counts[place]), int(said[place])),
                "average_precision": precision,
            }
            for place, (name, precision) in enumerate(
                zip(self.classes, self.average_precisions(), strict=True)
            )
        ]

    def confusions(self, limit: int) -> list[tuple[str, str, int, int]]:
        """None: no class stands in the place of another."""
        return []

    def mistakes(self, limit: int = MISTAKES) -> list[dict[str, Any]]:
        """The wrong answers, a class of a picture each, most confident first.

        Args:
          limit: how many at most.

        Returns:
          {path, class, labelled, probability} each: whether the picture has the class by its
          labels, and the probability that the model gives it.
        """
        wrong = self.predicted != self.labels
        pictures, classes = np.nonzero(wrong)
        order = np.argsort(-np.abs(self.probabilities[wrong] - THRESHOLD), kind="stable")[:limit]
        return [
            {
                "path": self.path_of(self.names[pictures[place]]),
                "class": self.classes[classes[place]],
                "labelled": bool(self.labels[pictures[place], classes[place]]),
                "probability": float(self.probabilities[pictures[place], classes[place]]),
            }
            for place in order
        ]

    def as_json(self, pictures: bool = False) -> dict[str, Any]:
        """What `evaluate --json` prints; with `pictures`, each picture's answer too."""
        value: dict[str, Any] = {
            "split": self.split,
            "step": self.step,
            "count": self.count,
            "multi_label": True,
            "threshold": THRESHOLD,
            "accuracy": self.accuracy,
            "accuracy_interval": list(self.accuracy_interval),
            "mean_average_precision": self.mean_average_precision,
            "classes": list(self.classes),
            "per_class": self.per_class(),
            "mistakes": self.mistakes(),
            "statistics": self.statistics,
            "averages_lag": None if self.lag is None else self.lag.as_json(),
        }
        if pictures:
            value["pictures"] = [
                {
                    "name": name,
                    "labels": np.flatnonzero(labels).tolist(),
                    "predicted": np.flatnonzero(predicted).tolist(),
                }
                for name, labels, predicted in zip(
                    self.names, self.labels, self.predicted, strict=True
                )
            ]
        return value


def average_precision(
    shown: NDArray[np.int64], probabilities: NDArray[np.floating[Any]]
) -> float | None:
    """The area under precision over recall, in steps; None where no picture shows the class.

    Pictures of the same probability come in together: their order says nothing.

    Args:
      shown: 0 or 1, [pictures].
      probabilities: [pictures].

    Source:
      Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval, section 8.4.
    """
    total = int(shown.sum())
    if not total:
        return None
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits = np.cumsum(shown[order])[last]
    return float((np.diff(hits, prepend=0) * hits / (last + 1)).sum() / total)
