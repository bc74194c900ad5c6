"""How much the pictures of each class count: `balanced`, or a CSV file of class,weight."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from checkpoints.errors import DataError, NotFoundError, listed
from checkpoints.numbers import real_number
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import labels_to_learn, read_index

BALANCED = "balanced"


def find_class_weights(option: str | None, dataset: Dataset) -> tuple[float, ...]:
    """The factor of each class's loss, in the order of the classes; empty where all are alike.

    Args:
      option: None, "balanced" or the path of a CSV file.
      dataset: whose classes, and whose training pictures are counted.

    Raises:
      NotFoundError: there is no such file.
      DataError: the file does not name every class once with a number from 0.
    """
    if option is None:
        return ()
    if option == BALANCED:
        return balanced_weights(_training_counts(dataset))
    return _read(Path(option), dataset.classes)


def balanced_weights(counts: Sequence[int]) -> tuple[float, ...]:
    """Pictures / (classes * pictures of the class): every class weighs the same in all.

    A class without pictures gets 1.

    Source:
      King and Zeng 2001, "Logistic Regression in Rare Events Data", as in scikit-learn's
      class_weight="balanced".
    """
    present = [count for count in counts if count]
    return tuple(sum(present) / (len(present) * count) if count else 1.0 for count in counts)


def _training_counts(dataset: Dataset) -> list[int]:
    shown = labels_to_learn(dataset, read_index(dataset.split("train")))
    if dataset.multi_label:
        return [int(count) for count in shown.sum(axis=0)]
    return [int((shown == label).sum()) for label in range(len(dataset.classes))]


def _read(file: Path, classes: Sequence[str]) -> tuple[float, ...]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            rows = [row for row in csv.reader(opened) if row]
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{file} is not there.",
            expected=f"{BALANCED}, or a CSV file of class,weight",
            next_step="Correct --class-weights.",
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{file} is no CSV file.", expected="lines of class,weight", received=error
        ) from error
    found: dict[str, float] = {}
    problems = []
    for number, row in enumerate(rows, start=1):
        weight = _number(row[1]) if len(row) == 2 else None
        name = row[0].strip()
        if number == 1 and weight is None and name not in classes:
            continue  # a header
        if weight is None or name not in classes or name in found:
            problems.append(f"line {number}: {','.join(row)}")
        else:
            found[name] = weight
    problems += [f"no line for {name}" for name in classes if name not in found]
    if problems:
        raise DataError(
            f"{file} does not give every class one weight:\n{listed(problems)}",
            expected=f"class,weight for each of {', '.join(classes[:10])}, weights from 0",
            next_step="Correct the file, or use --class-weights balanced.",
        )
    return tuple(found[name] for name in classes)


def _number(text: str) -> float | None:
    number = real_number(text)
    return number if number is not None and number >= 0 else None
