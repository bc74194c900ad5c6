"""TFRecord files of pictures that are no dataset yet: of other layouts, without names, alone."""

from __future__ import annotations

import contextlib
import functools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from checkpoints.containers import TFRECORD, recognise
from checkpoints.errors import DataError, SlimtuneError, listed
from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import DATASET_FILE, SPLITS, canonical_split
from finetune.datasets.labels import LABELS_FILE, read_labels_file, text_offsets
from finetune.datasets.picture_formats import PictureError
from finetune.datasets.records import (
    FRAME_BYTES,
    HEADER,
    RecordError,
    RecordPlace,
    check_count,
    checked_data,
    mapped,
    parse_example,
    record_places,
)
from finetune.datasets.sources import RejectedItem, Source, SourceItem
from finetune.datasets.sources.names import check_class_names, natural_order, safe_name
from finetune.datasets.sources.record_layouts import RecordedPicture, class_numbers, read_layout

_SUFFIXES = frozenset([".tfrecord", ".tfrecords", ".tfrec", ".record", ".records"])
_SHARD = re.compile(r"(?!.*\.data-).*-\d{5}-of-\d{5}")  # A checkpoint has such names too.
_SPLIT_WORD = re.compile(r"(?<![a-z])(train(?:ing)?|val(?:id|idation)?|test(?:ing)?)(?![a-z])")


def recognises(path: Path) -> bool:
    """Whether the path is a TFRecord file, or a directory of nothing but such, and no dataset of ours."""
    if path.is_file():
        return path.suffix in _SUFFIXES or recognise(path) == TFRECORD
    return path.is_dir() and not (path / DATASET_FILE).exists() and bool(find_files(path))


def find_files(path: Path) -> list[Path]:
    """The record files of a path, by their names; none where folders lie beside them."""
    if path.is_file():
        return [path]
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    if any(entry.is_dir() for entry in entries):
        return []
    return [
        entry
        for entry in entries
        if entry.suffix.lower() in _SUFFIXES or _SHARD.fullmatch(entry.name)
    ]


def read_source(path: Path, depth: int = 1, progress: Progress = SILENT) -> Source:
    """Reads every record once, for its label. Records that cannot be read are rejected.

    Raises:
      DataError: the classes cannot be told.
    """
    files = find_files(path)
    root = path.parent if path.is_file() else path
    splits = _splits(files)
    found: list[tuple[str, str | None, RecordedPicture]] = []
    rejected: list[RejectedItem] = []
    size = sum(file.stat().st_size for file in files)
    with progress.task("Reading labels", size, "bytes") as task:
        for file in files:
            for place, picture in _pictures(file, rejected):
                name = f"{file.name}:{place.number}"
                found.append((name, splits[file], picture._replace(encoded=b"")))
                task.advance(place.length + FRAME_BYTES)
    classes, places = _classes(root, [picture for _, _, picture in found])
    check_class_names(path, classes, "Correct the labels.")
    named = {split for split in splits.values() if split}
    items = [
        SourceItem(name, label, split, picture.boxes, picture.name)
        for label, (name, split, picture) in zip(places, found, strict=True)
    ]
    same = len({item.label for item in items}) == 1
    return Source(
        root=root,
        name=safe_name(path.with_suffix("") if path.is_file() else path),
        classes=classes,
        items=items,
        splits=tuple(split for split in SPLITS if split in named),
        ignored=(),
        outline="\n".join(f"  {file.name}" for file in files),
        described="TFRecord files" if path.is_dir() else "a TFRecord file",
        hints=(f"Mind that {describe_one_label(len(items), found[0][2].label)}.",) if same else (),
        reader="records",
        rejected=tuple(rejected),
    )


def read_item(root: Path, path: str) -> bytes:
    """The picture of one record, its checksum compared.

    Raises:
      PictureError: the record is damaged.
    """
    name, _, number = path.rpartition(":")
    file = root / name
    try:
        status = file.stat()
        offsets = _offsets(file, status.st_size, status.st_mtime_ns)
        start, length = offsets[2 * int(number)], offsets[2 * int(number) + 1]
        with mapped(file) as view:
            place = RecordPlace(int(number), start - HEADER.size, start, length)
            return read_layout(parse_example(checked_data(file, view, place))).encoded
    except (SlimtuneError, OSError, IndexError) as err:
        detail = err.message if isinstance(err, SlimtuneError) else str(err)
        raise PictureError(str(root / path), "damaged", detail) from err


def _pictures(
    file: Path, rejected: list[RejectedItem]
) -> Iterator[tuple[RecordPlace, RecordedPicture]]:
    """Place and content of each record; those that cannot be read join the rejected."""
    number = 0
    with mapped(file) as view:
        try:
            for place in record_places(file, view):
                number = place.number
                try:
                    picture = read_layout(parse_example(checked_data(file, view, place)))
                    if not all(box.is_inside for box in picture.boxes):
                        raise DataError("has a box that lies not inside its picture")
                except DataError as error:
                    rejected.append(_rejected(file, number, error))
                else:
                    yield place, picture
                number += 1
            check_count(file, number, len(view), None)
        except RecordError as error:
            # What follows a broken frame cannot be found.
            rejected.append(_rejected(file, number, error))


def _rejected(file: Path, number: int, error: DataError) -> RejectedItem:
    detail = error.message.removeprefix(f"{file}: ").rstrip(".")
    return RejectedItem(f"{file.name}:{number}", "damaged", detail)


def shown_label(label: int | bytes) -> str:
    """A label for people: bytes that are no text are escaped."""
    return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else str(label)


def describe_one_label(count: int, label: int | bytes, where: str = "") -> str:
    """What to say of records that all have one label."""
    cause = (
        "; a writer that takes the argmax of a length instead of a one-hot row always writes 0"
        if label == 0
        else ""
    )
    return f"all {count} records{where} have the label {shown_label(label)}{cause}"


def _splits(files: Sequence[Path]) -> dict[Path, str | None]:
    """The split that each file's name tells, where every one tells one."""
    words = {file: _SPLIT_WORD.search(file.name.lower()) for file in files}
    if not all(words.values()):
        return dict.fromkeys(files)
    return {file: canonical_split(word[1]) for file, word in words.items() if word}


def _classes(root: Path, pictures: Sequence[RecordedPicture]) -> tuple[tuple[str, ...], list[int]]:
    """Class names, and the class of each picture."""
    if not pictures:
        return (), []
    as_bytes = [picture.label for picture in pictures if isinstance(picture.label, bytes)]
    numbers = [picture.label for picture in pictures if isinstance(picture.label, int)]
    if as_bytes and numbers:
        raise DataError(f"{root}: some labels are numbers and some are bytes.")
    if as_bytes:
        try:
            from_bytes = class_numbers(as_bytes)
        except DataError as err:
            raise DataError(f"{root}: a record {err.message}.", expected=err.expected) from err
        if from_bytes is None:
            names = [label.decode("utf-8") for label in as_bytes]
            classes = natural_order(set(names))
            place = {name: label for label, name in enumerate(classes)}
            return tuple(classes), [place[name] for name in names]
        numbers = from_bytes
    return _classes_by_number(root, numbers, _texts(root, numbers, pictures))


def _texts(
    root: Path, numbers: Sequence[int], pictures: Sequence[RecordedPicture]
) -> dict[int, str]:
    """The name that the records of each label give it; labels without one are left out."""
    texts: dict[int, set[str]] = defaultdict(set)
    for number, picture in zip(numbers, pictures, strict=True):
        texts[number].add(picture.text)
    several = [
        f"label {label}: {', '.join(sorted(names))}"
        for label, names in texts.items()
        if len(names - {""}) > 1
    ]
    if several:
        raise DataError(
            f"{root}: records of one label name several classes:\n{listed(several)}",
            next_step="Write the records again.",
        )
    return {label: text for label, names in texts.items() for text in names if "" not in names}


def _classes_by_number(
    root: Path, numbers: Sequence[int], texts: dict[int, str]
) -> tuple[tuple[str, ...], list[int]]:
    labels = sorted(set(numbers))
    if labels[0] < 0:
        raise DataError(f"{root}: a record has the label {labels[0]}.", expected="labels from 0")
    path = root / LABELS_FILE
    if not path.is_file():
        named = len(texts) == len(labels) == len(set(texts.values()))
        place = {label: number for number, label in enumerate(labels)}
        classes = tuple(texts[label] if named else str(label) for label in labels)
        return classes, [place[number] for number in numbers]
    names = read_labels_file(path)
    offsets = text_offsets(names, {label: [text] for label, text in texts.items()})
    offset = 1 if offsets == {1} else 0
    lowest, highest = labels[0] - offset, labels[-1] - offset
    if lowest < 0 or highest >= len(names) or not offsets <= {offset}:
        from_one = (labels[0], labels[-1]) == (1, len(names))
        raise DataError(
            f"{path} does not fit the labels in the records.",
            expected=f"labels 0 to {len(names) - 1} for {len(names)} names, as the records name them",
            received=f"labels {labels[0]} to {labels[-1]}"
            + (", counted from 1" if from_one else ""),
            next_step=f"Correct {LABELS_FILE}: line n is the class of label n, from 0"
            + ("; a first line such as background stands for label 0." if from_one else "."),
        )
    return names, [number - offset for number in numbers]


@functools.lru_cache(maxsize=64)
def _offsets(path: Path, size: int, changed: int) -> array[int]:
    """Start and length of the data of each sound record. Kept while the file is."""
    offsets = array("Q")
    # A frame that is broken ends the list: `read_source` has told of it.
    with mapped(path) as view, contextlib.suppress(RecordError):
        for place in record_places(path, view):
            offsets.extend((place.start, place.length))
    return offsets
