"""What the files of a run directory say, checked before anything is shown of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.errors import RunError
from finetune.config import TrainConfig
from finetune.evaluating.averages_lag import Lag
from finetune.evaluating.confusion import Confusion
from finetune.report.several import SeveralScores, several_scores
from finetune.run import Run, read_json


@dataclass(frozen=True)
class Answer:
    """What the model said of one picture.

    Attributes:
      position: the picture's place in the split.
      name: its file name.
      label: its true class.
      predicted: the most probable class.
      probability: of that class.
    """

    position: int
    name: str
    label: int
    predicted: int
    probability: float

    @property
    def is_right(self) -> bool:
        """Whether the most probable class is the true one."""
        return self.predicted == self.label


@dataclass(frozen=True)
class Scores:
    """evaluation.json.

    Attributes:
      split: what was evaluated.
      step: of the model, or None.
      classes: class names.
      confusion: what was taken for what; at least one picture.
      top5: share of pictures whose class is among the five most probable, or None.
      answers: the answer for each picture, or empty where the file has none.
      lag: how far moving averages of batch norm fall short, where they plainly do, or None.
    """

    split: str
    step: int | None
    classes: tuple[str, ...]
    confusion: Confusion
    top5: float | None
    answers: tuple[Answer, ...]
    lag: Lag | None = None

    @property
    def count(self) -> int:
        """How many pictures."""
        return int(self.confusion.counts.sum())

    @property
    def right(self) -> int:
        """How many of them were called by their class."""
        return int(self.confusion.right.sum())

    @property
    def accuracy(self) -> float:
        """Share of pictures called by their class."""
        return self.right / self.count

    @property
    def commonest_share(self) -> float:
        """The accuracy of always naming the commonest class."""
        return int(self.confusion.pictures.max()) / self.count


@dataclass(frozen=True)
class PlannedVariable:
    """One variable in plan.json."""

    name: str
    shape: tuple[int, ...]
    state: str
    origin: str
    is_optimised: bool
    sha256: str | None

    @property
    def parameters(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class StoredPhase:
    """A stretch of steps in which the same scopes train, as plan.json has it.

    Attributes:
      first: how many steps were done before it.
      last: its last step.
      trainable: the scopes.
      learning_rate: of its first step.
    """

    first: int
    last: int
    trainable: tuple[str, ...]
    learning_rate: float


@dataclass(frozen=True)
class StoredPlan:
    """plan.json.

    Attributes:
      net: the net's name.
      checkpoint: where restored values came from, or None.
      trainable: the scopes that were trained.
      variables: all, in the net's order.
      unused: (name, reason) of each entry of the checkpoint that nothing took.
      notes: what the plan found worth saying.
      phases: the phases of the run.
      precision: what steps ran in: fp32 or bf16; None where the file does not say.
    """

    net: str
    checkpoint: str | None
    trainable: tuple[str, ...]
    variables: tuple[PlannedVariable, ...]
    unused: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    phases: tuple[StoredPhase, ...] = ()
    precision: str | None = None

    @property
    def frozen(self) -> tuple[PlannedVariable, ...]:
        """The variables that must not have changed by a bit."""
        return tuple(v for v in self.variables if v.state == "frozen")

    @property
    def parameters(self) -> int:
        """How many numbers all variables hold."""
        return sum(v.parameters for v in self.variables)

    @property
    def trained_parameters(self) -> int:
        """How many of them the optimiser changed."""
        return sum(v.parameters for v in self.variables if v.is_optimised)


@dataclass(frozen=True)
class Facts:
    """A run as its files have it.

    Attributes:
      run: where they lie.
      config: the options.
      total_steps: how many steps the run has in all.
      step: of the newest checkpoint; 0 before the first.
      plan: None where training has not begun.
      classes: class names from labels.txt; empty where it is absent.
      metrics: the lines of metrics.jsonl that are objects.
      scores: None where nothing was evaluated, or pictures have several classes.
      several: the figures where they do.
    """

    run: Run
    config: TrainConfig
    total_steps: int
    step: int
    plan: StoredPlan | None
    classes: tuple[str, ...]
    metrics: tuple[Mapping[str, Any], ...]
    scores: Scores | None
    several: SeveralScores | None = None

    @property
    def evaluated(self) -> Scores | SeveralScores | None:
        """The evaluation of either kind."""
        return self.scores or self.several


def read_facts(run: Run) -> Facts:
    """Reads the files of a run; pictures and checkpoints are not opened.

    Raises:
      RunError: the directory holds no run, or a file in it is not what train writes.
    """
    config = run.read_config()
    labels = ""
    if run.labels_file.is_file():
        labels = run.labels_file.read_text(encoding="utf-8", errors="replace")
    scores = read_scores(run.evaluation_file) if run.evaluation_file.is_file() else None
    return Facts(
        run=run,
        config=config,
        total_steps=run.total_steps(),
        step=run.step(),
        plan=read_plan(run.plan_file) if run.plan_file.is_file() else None,
        classes=tuple(labels.removesuffix("\n").split("\n")) if labels else (),
        metrics=tuple(run.read_metrics()),
        scores=scores if isinstance(scores, Scores) else None,
        several=scores if isinstance(scores, SeveralScores) else None,
    )


def read_plan(file: Path) -> StoredPlan:
    """Reads plan.json.

    Raises:
      RunError: it is not what train writes.
    """
    stored = read_json(file)
    try:
        checkpoint = stored["checkpoint"]
        return StoredPlan(
            net=str(stored["net"]),
            checkpoint=None if checkpoint is None else str(checkpoint),
            trainable=tuple(str(scope) for scope in stored["trainable"]),
            variables=tuple(_variable(variable) for variable in stored["variables"]),
            unused=tuple((str(u["name"]), str(u["reason"])) for u in stored["unused"]),
            notes=tuple(str(note) for note in stored.get("notes", ())),
            phases=tuple(_phase(phase) for phase in stored.get("phases", ())),
            precision=None if stored.get("precision") is None else str(stored["precision"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unlike(file, "net, checkpoint, trainable, variables and unused", error) from error


def _phase(stored: Mapping[str, Any]) -> StoredPhase:
    return StoredPhase(
        first=int(stored["first"]),
        last=int(stored["last"]),
        trainable=tuple(str(scope) for scope in stored["trainable"]),
        learning_rate=float(stored["learning_rate"]),
    )


def _variable(stored: Mapping[str, Any]) -> PlannedVariable:
    return PlannedVariable(
        name=str(stored["name"]),
        shape=tuple(int(size) for size in stored["shape"]),
        state=str(stored["state"]),
        origin=str(stored["origin"]),
        is_optimised=bool(stored["optimised"]),
        sha256=stored.get("sha256"),
    )


def read_scores(file: Path) -> Scores | SeveralScores:
    """Reads evaluation.json; what follows from the confusion matrix is not taken from elsewhere.

    Raises:
      RunError: it is not what train writes.
    """
    stored = read_json(file)
    try:
        if stored.get("multi_label") is True:
            return several_scores(stored, _lag(stored.get("averages_lag")))
        classes = tuple(str(name) for name in stored["classes"])
        answers = _answers(stored.get("pictures", ()), len(classes))
        step = stored.get("step")
        top5 = stored.get("top5")
        return Scores(
            split=str(stored["split"]),
            step=None if step is None else int(step),
            classes=classes,
            confusion=_confusion(stored["confusion"], answers, len(classes)),
            top5=None if top5 is None else float(top5),
            answers=answers,
            lag=_lag(stored.get("averages_lag")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unlike(file, "split, classes, confusion and pictures", error) from error


def _confusion(
    stored: Sequence[Sequence[int]] | None, answers: Sequence[Answer], classes: int
) -> Confusion:
    """From the matrix, or from the answers where it was too large to be stored beside them."""
    if stored is None:
        labels = np.array([answer.label for answer in answers], np.int64)
        predicted = np.array([answer.predicted for answer in answers], np.int64)
        found = Confusion.of_answers(labels, predicted, classes)
    else:
        matrix = np.array(stored, np.int64)
        if matrix.shape != (classes, classes):
            raise ValueError(f"a confusion matrix {list(matrix.shape)}, {classes} classes")
        found = Confusion.of_matrix(matrix)
    if (found.counts < 0).any() or found.counts.sum() < 1:
        raise ValueError("a confusion matrix without pictures")
    return found


def _lag(stored: Mapping[str, Any] | None) -> Lag | None:
    if stored is None:
        return None
    return Lag(
        count=int(stored["count"]),
        moving_averages=float(stored["moving_averages"]),
        batch=float(stored["batch"]),
        is_plain=bool(stored["is_plain"]),
    )


def _answers(stored: Sequence[Mapping[str, Any]], classes: int) -> tuple[Answer, ...]:
    answers = tuple(
        Answer(
            position,
            str(picture["name"]),
            int(picture["label"]),
            int(picture["predicted"]),
            float(picture["probability"]),
        )
        for position, picture in enumerate(stored)
    )
    for answer in answers:
        if not (0 <= answer.label < classes and 0 <= answer.predicted < classes):
            raise ValueError(f"picture {answer.position} has a class beyond the {classes}")
        if not 0 <= answer.probability <= 1:
            raise ValueError(f"picture {answer.position} has no probability")
    return answers


def _unlike(file: Path, expected: str, error: Exception) -> RunError:
    return RunError(
        f"{file} is not what train writes.",
        expected=f"an object with {expected}",
        received=f"{type(error).__name__}: {error}",
        next_step="Remove the file, or train again with --overwrite.",
    )
