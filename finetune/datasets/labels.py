"""What the labels of shards mean: class names from a labels file or from the records themselves.

TF-Slim counts labels from 0. The older Inception records count from 1, as their 0 was the
background, and name the class in image/class/text; there the names tell from where the labels
count. Labels are never moved on their numbers alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, listed
from exporters.labels import read_label_text

if TYPE_CHECKING:
    from finetune.datasets.dataset import Dataset, Split

LABELS_FILE = "labels.txt"
BACKGROUND = "background"
"""Name of a class before those of the data, as in the published nets with 1001 classes."""

_NUMBERED_LINE = re.compile(r"(\d{1,18}):(.*)")


def name_classes(directory: Path, splits: Mapping[str, Split]) -> tuple[tuple[str, ...], int]:
    """Class names of a directory without dataset.json, and the label of the first of them.

    Args:
      directory: holds labels.txt, or shards whose records name their classes.
      splits: its shards.

    Raises:
      DataError: nothing names the classes, or labels.txt is none.
    """
    texts: dict[int, set[str]] = {}
    broken: DataError | None = None
    for name, split in splits.items():
        try:
            for label, found in label_texts({name: split}).items():
                texts.setdefault(label, set()).update(found)
        except DataError as error:
            broken = error
    path = directory / LABELS_FILE
    if path.is_file():
        # A broken record is told where records are read; names are known all the same.
        names = read_labels_file(path)
        return names, 1 if text_offsets(names, texts) == {1} else 0
    if broken is not None:
        raise broken
    return _classes_of_texts(directory, texts)


def label_texts(splits: Mapping[str, Split]) -> dict[int, set[str]]:
    """Label as it is stored -> the class names that records give it, "" where one gives none.

    Of each label the first record in each split is read.

    Raises:
      DataError: a shard is damaged.
    """
    import numpy as np

    from finetune.datasets.record_index import read_index
    from finetune.datasets.records import mapped, parse_example

    found: dict[int, set[str]] = {}
    for split in splits.values():
        index = read_index(split)
        for label, position in zip(*np.unique(index.labels, return_index=True), strict=True):
            start, length = int(index.starts[position]), int(index.lengths[position])
            with mapped(index.paths[int(index.shards[position])]) as view:
                features = parse_example(bytes(view[start : start + length]))
            first = (features.get("image/class/text") or [b""])[0]
            text = first.decode("utf-8", "replace") if isinstance(first, bytes) else ""
            found.setdefault(int(label) + split.label_offset, set()).add(text)
    return found


def text_offsets(names: Sequence[str], texts: Mapping[int, Collection[str]]) -> set[int]:
    """How far stored labels lie above the places of the classes that their records name.

    Texts that are no class's name, such as longer descriptions, say nothing.
    """
    place = {name: number for number, name in enumerate(names)}
    return {label - place[text] for label, said in texts.items() for text in said if text in place}


def _classes_of_texts(
    directory: Path, texts: Mapping[int, set[str]]
) -> tuple[tuple[str, ...], int]:
    named = {label: min(said) for label, said in texts.items() if len(said) == 1 and "" not in said}
    offset = min(texts, default=0)
    labels = range(offset, max(texts, default=-1) + 1)
    if not named:
        wrong = "its records do not name their classes"
    elif offset not in (0, 1) or len(named) < len(labels):
        wrong = f"its records name the classes of the labels {_ranges(named)} only"
    elif len(set(named.values())) < len(named):
        wrong = "its records call several labels by one name"
    else:
        return tuple(named[label] for label in labels), offset
    raise DataError(
        f"{directory} has shards but no {LABELS_FILE}, and {wrong}.",
        expected="a class name a line, or TF-Slim's 0:daisy",
        next_step=f"Write {LABELS_FILE}, the class of label 0 first; or "
        + shell_words("slimtune", "data", "build", directory, "OUT")
        + " makes a dataset whose classes are called by their numbers.",
    )


def _ranges(labels: Iterable[int]) -> str:
    shown = [str(label) for label in sorted(labels)]
    return ", ".join(shown if len(shown) <= 10 else [*shown[:5], "...", shown[-1]])


def check_labels(dataset: Dataset) -> dict[str, tuple[int, ...]]:
    """Reads the label of every record and compares it with the number of classes.

    Returns:
      Split name -> pictures of each class, in the order of `dataset.classes`.

    Raises:
      DataError: a label is out of range, or is another class's by the name in its record (says
        so where the labels run from 1 to n), or labels.txt contradicts dataset.json.
    """
    import numpy as np

    from finetune.datasets.record_index import read_index

    num_classes = len(dataset.classes)
    counts: dict[str, tuple[int, ...]] = {}
    problems: list[str] = []
    lowest, highest = num_classes, -1
    for name, split in dataset.splits.items():
        index = read_index(split)
        labels = index.labels
        if len(labels):
            lowest = min(lowest, int(labels.min()))
            highest = max(highest, int(labels.max()))
        wrong = (labels < 0) | (labels >= num_classes)
        problems.extend(
            f"{index.describe(int(position))}: label {labels[position] + split.label_offset}"
            for position in np.flatnonzero(wrong)
        )
        found = np.bincount(labels[~wrong], minlength=num_classes)
        counts[name] = tuple(int(count) for count in found)
    if problems:
        from_one = lowest == 1 and highest == num_classes
        raise DataError(
            f"{dataset.path}: {len(problems)} labels do not name a class:\n{listed(problems)}",
            expected=f"labels 0 to {num_classes - 1} for {num_classes} classes",
            received=f"labels {lowest} to {highest}" + (", counted from 1" if from_one else ""),
            next_step="Write the shards again with labels from 0."
            if from_one
            else f"Correct {LABELS_FILE}, or write the shards again.",
        )
    if dataset.counts:
        check_labels_file(dataset.path, dataset.classes)
    _check_texts(dataset)
    return counts


def with_label_offset(dataset: Dataset, label_offset: int) -> Dataset:
    """The dataset with its first class at another label: classes before it left out, or put in.

    Args:
      dataset: as it says itself where its labels begin.
      label_offset: the label that the first class is to have in the shards. A larger one leaves
        the first classes out, such as a background that no picture shows; a smaller one puts
        BACKGROUND before them.

    Raises:
      DataError: pictures have a class that is left out, or there is room for one background only.
    """
    more = label_offset - dataset.label_offset
    if more == 0:
        return dataset
    if more > 0:
        counts = check_labels(dataset)
        shown = {split: sum(of[:more]) for split, of in counts.items() if any(of[:more])}
        if shown or more >= len(dataset.classes):
            raise DataError(
                f"{dataset.path}: labels from {label_offset} on leave out classes that have pictures.",
                expected=f"no pictures of {', '.join(dataset.classes[:more])}",
                received=", ".join(f"{count} in {split}" for split, count in shown.items()),
                next_step=f"Its labels begin at {dataset.label_offset}.",
            )
        classes = dataset.classes[more:]
    elif label_offset == dataset.label_offset - 1 >= 0 and BACKGROUND not in dataset.classes:
        classes = (BACKGROUND, *dataset.classes)
    else:
        raise DataError(
            f"{dataset.path}: labels cannot begin at {label_offset}.",
            expected=f"{dataset.label_offset}, as they do",
            received=label_offset,
        )
    splits = {
        name: replace(split, label_offset=label_offset) for name, split in dataset.splits.items()
    }
    # The counts go with the classes that labels.txt has.
    return replace(dataset, classes=classes, splits=splits, counts={})


def _check_texts(dataset: Dataset) -> None:
    """Refuses labels that lie off the classes that their own records name."""
    texts = label_texts(dataset.splits)
    if text_offsets(dataset.classes, texts) <= {dataset.label_offset}:
        return
    wrong = [
        f"label {label}: the records say {text!r}, {LABELS_FILE} says {name!r}"
        for label, said in sorted(texts.items())
        for name in (dataset.classes[label - dataset.label_offset],)
        for text in sorted(said)
        if text in dataset.classes and text != name
    ]
    raise DataError(
        f"{dataset.path}: labels and class names do not fit:\n{listed(wrong)}",
        expected="the class of label n in line n, from 0, or every label one higher",
        next_step=f"Correct {LABELS_FILE}, or write the shards again.",
    )


def check_labels_file(directory: Path, classes: Sequence[str]) -> None:
    """Compares a dataset's labels.txt, which other tools read, with the classes of dataset.json.

    Raises:
      DataError: it is not there, cannot be read, or names other classes or another order.
    """
    path = directory / LABELS_FILE
    again = "Build the dataset again, or write the class names of dataset.json into it, one a line."
    try:
        text = read_label_text(path)
    except OSError as error:
        said = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise DataError(
            f"{path} {said}.",
            expected=f"the {len(classes)} class names of dataset.json, one a line",
            received=error.strerror,
            next_step=again,
        ) from error
    if _lines(text) == list(classes):
        return
    names = parse_labels(text, path)
    if names == tuple(classes):
        return
    if len(names) != len(classes):
        expected, received = f"{len(classes)} class names", f"{len(names)}"
    else:
        number = next(n for n, name in enumerate(names) if name != classes[n])
        expected = f"{classes[number]!r} as class {number}, as dataset.json and the shards have it"
        received = repr(names[number])
    raise DataError(
        f"{path} contradicts dataset.json.",
        expected=expected,
        received=received,
        next_step=again,
    )


def read_labels_file(path: Path) -> tuple[str, ...]:
    """Class names of a labels file, as `parse_labels`; one that is not UTF-8 is a DataError."""
    return parse_labels(read_label_text(path), path)


def parse_labels(text: str, path: Path) -> tuple[str, ...]:
    """Class names from the text of a labels file.

    Args:
      text: a name a line, or `0:daisy`, `1:roses` ... where every line is numbered.
      path: named in the error.

    Raises:
      DataError: the numbers are not 0 to n-1, a class is named twice, or there is none.
    """
    lines = _lines(text)
    matches = [_NUMBERED_LINE.fullmatch(line) for line in lines]
    numbered = [match for match in matches if match]
    if lines and len(numbered) == len(lines):
        by_number = {int(match[1]): match[2] for match in numbered}
        if sorted(by_number) != list(range(len(lines))):
            numbers = [int(match[1]) for match in numbered]
            twice = sorted({number for number in numbers if numbers.count(number) > 1})
            raise DataError(
                f"{path} gives the number {twice[0]} to several classes."
                if twice
                else f"{path} does not number its {len(lines)} classes from 0 without gaps.",
                expected=f"each number from 0 to {len(lines) - 1} once",
                received=_ranges(numbers),
                next_step="Number the classes from 0, as the labels in the shards must be.",
            )
        lines = [by_number[number] for number in range(len(lines))]
    repeated = sorted({name for name in lines if lines.count(name) > 1})
    if repeated or not lines:
        raise DataError(
            f"{path} names a class twice: {', '.join(repeated)}."
            if repeated
            else f"{path} is empty.",
            expected="each class once",
            next_step="Correct the file; line n is the class of label n, from 0.",
        )
    return tuple(lines)


def _lines(text: str) -> list[str]:
    """The lines of a labels file that are not empty, without their line ends."""
    return [line.rstrip("\r") for line in text.split("\n") if line.strip("\r")]
