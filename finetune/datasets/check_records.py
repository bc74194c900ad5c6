"""What is wrong with the records of a dataset, or of TFRecord files that are none yet."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from checkpoints.checksum import sha256_of
from checkpoints.errors import DataError, NotFoundError
from checkpoints.progress import Progress
from finetune.datasets.cleaning import content_digest
from finetune.datasets.dataset import DATASET_FILE, read_dataset
from finetune.datasets.findings import FEW, CheckResult, Problem, in_one_line, sort_change
from finetune.datasets.labels import LABELS_FILE, check_labels_file
from finetune.datasets.picture_formats import PictureError, is_decoded_by_tensorflow
from finetune.datasets.pictures import clean_bytes
from finetune.datasets.records import (
    HEADER,
    RecordError,
    RecordPlace,
    checked_data,
    describe_place,
    mapped,
    parse_example,
    record_places,
)
from finetune.datasets.sources import Box
from finetune.datasets.sources.names import natural_order
from finetune.datasets.sources.record_layouts import read_layout
from finetune.datasets.sources.records import describe_one_label, find_files, shown_label

IMAGE = ("image/encoded", bytes)
LABEL = ("image/class/label", int)
BOX_SIDES = ("ymin", "xmin", "ymax", "xmax")
_Label = int | bytes | None
"""None where a record has none that can be read."""

_Features = dict[str, "list[bytes] | list[int] | list[float]"]


class _Contents:
    """Which record has which content, in 40 bytes each, so that a million take no more than 40 MB."""

    _row = struct.Struct("<16sQQQ")

    def __init__(self) -> None:
        self._rows = bytearray()
        self._origins: list[tuple[Path, str, int | bytes]] = []
        self._numbers: dict[tuple[Path, str, int | bytes], int] = {}

    def add(
        self, path: Path, place: RecordPlace, split: str, label: int | bytes, data: bytes
    ) -> None:
        """Notes a record's picture."""
        origin = path, split, label
        number = self._numbers.setdefault(origin, len(self._origins))
        if number == len(self._origins):
            self._origins.append(origin)
        self._rows += self._row.pack(content_digest(data), number, place.number, place.offset)

    def duplicates(self) -> Iterator[tuple[str, str, str]]:
        """Records whose picture was met before: what is the same, and both places.

        "duplicate": the label or split is another; "repeated-record": the same record twice;
        "repeated": the same picture with the same label, of another file.
        """
        size = self._row.size

        def digest(start: int) -> bytes:
            return bytes(self._rows[start : start + 16])

        order = sorted(range(0, len(self._rows), size), key=digest)
        groups = (list(starts) for _, starts in groupby(order, digest))
        for first, *others in sorted(starts for starts in groups if len(starts) > 1):
            known, place = self._described(first)
            for other in others:
                found, where = self._described(other)
                if found != known:
                    yield "duplicate", where, place
                else:
                    same = self._names_a_file(other) and self._data(first) == self._data(other)
                    yield "repeated-record" if same else "repeated", where, place

    def _described(self, start: int) -> tuple[tuple[str, int | bytes], str]:
        _, origin, number, offset = self._row.unpack_from(self._rows, start)
        path, split, label = self._origins[origin]
        return (split, label), describe_place(path, number, offset)

    def _data(self, start: int) -> bytes:
        """The bytes of a record, without its frame."""
        _, origin, _, offset = self._row.unpack_from(self._rows, start)
        with self._origins[origin][0].open("rb") as file:
            file.seek(offset)
            length, _ = HEADER.unpack(file.read(HEADER.size))
            return file.read(length)

    def _names_a_file(self, start: int) -> bool:
        return bool(parse_example(self._data(start)).get("image/filename"))


def check_dataset(path: Path, progress: Progress) -> CheckResult:
    """Every record of a dataset; or of one file, a shard or not.

    Args:
      path: dataset directory, its dataset.json, or a TFRecord file.
      progress: gets a task in records.
    """
    result = CheckResult(path, "dataset")
    alone = path.is_file() and path.name != DATASET_FILE
    try:
        dataset = read_dataset(path)
    except RecordError as error:
        result.problems.append(Problem("damaged-record", str(path), in_one_line(error)))
        return result
    except (DataError, NotFoundError) as error:
        if alone:
            return check_record_files(path, [path], progress)
        if path.is_dir() and not (path / DATASET_FILE).exists():
            # No dataset as it stands, but data build may make one of the records.
            result = check_record_files(path, find_files(path), progress)
        result.problems.insert(0, Problem("layout", str(path), in_one_line(error)))
        return result
    shards = [(name, shard) for name, split in dataset.splits.items() for shard in split.shards]
    if alone:
        shards = [(name, shard) for name, shard in shards if shard.path.name == path.name]
        if not shards:
            return check_record_files(path, [path], progress)
    result.classes = dataset.classes
    if dataset.counts and not alone:
        try:
            check_labels_file(dataset.path, dataset.classes)
        except DataError as error:
            detail = f"{in_one_line(error)} Expected: {error.expected}; received: {error.received}"
            result.problems.append(Problem("labels-file", str(dataset.path / LABELS_FILE), detail))
    if dataset.label_offset:
        detail = f"labels count from {dataset.label_offset}, as the records' class names say"
        result.notes.append(Problem("label-offset", str(path), detail))
    check = _RecordCheck(result, dataset.label_offset)
    labels: dict[str, list[_Label]] = defaultdict(list)
    with progress.task("Checking records", sum(s.count for _, s in shards), "records") as task:
        for name, shard in shards:
            found = []
            for label in check.labels_of(name, shard.path):
                found.append(label)
                task.advance()
            labels[name].extend(found)
            if len(found) != shard.count:
                detail = f"{len(found)} sound records, expected {shard.count}"
                result.problems.append(Problem("count", str(shard.path), detail))
            elif shard.sha256 and sha256_of(shard.path) != shard.sha256:
                detail = f"its SHA-256 is not the one in {DATASET_FILE}: it is another file"
                result.problems.append(Problem("changed-shard", str(shard.path), detail))
    check.finish()
    result.num_pictures = sum(len(found) for found in labels.values())
    for name, found in labels.items():
        if len(dataset.classes) > 1:
            _check_variety(result, dataset.path, found, f" in the split {name}")
    return result


def check_record_files(path: Path, files: Sequence[Path], progress: Progress) -> CheckResult:
    """Every record of TFRecord files that are no dataset, in any layout that is read.

    Args:
      path: what was asked for.
      files: the TFRecord files.
      progress: gets a task in records.
    """
    result = CheckResult(path, "records")
    check = _RecordCheck(result, None)
    found: list[_Label] = []
    with progress.task("Checking records", None, "records") as task:
        for file in files:
            for label in check.labels_of("", file):
                found.append(label)
                task.advance()
            if file.stat().st_size == 0:
                detail = "record 0 (offset 0): the file is empty"
                result.problems.append(Problem("damaged-record", str(file), detail))
    check.finish()
    result.num_pictures = len(found)
    known = {shown_label(label) for label in found if label is not None}
    result.classes = tuple(natural_order(known))
    _check_variety(result, path, found, "")
    return result


def _check_variety(result: CheckResult, path: Path, labels: Sequence[_Label], where: str) -> None:
    known = [label for label in labels if label is not None]
    if len(known) >= FEW and len(set(known)) == 1:
        detail = describe_one_label(len(known), known[0], where)
        result.problems.append(Problem("one-label", str(path), detail))


class _RecordCheck:
    """Looks at records and remembers which pictures it has seen.

    `offset` is the dataset's label offset; None outside datasets, where there are other layouts
    and no class names.
    """

    def __init__(self, result: CheckResult, offset: int | None) -> None:
        self._result = result
        self._offset = offset
        self._contents = _Contents()

    def labels_of(self, split: str, path: Path) -> Iterator[_Label]:
        """Yields the label of each sound record; stops where the file is broken."""
        with mapped(path) as view:
            try:
                for place in record_places(path, view):
                    where = describe_place(path, place.number, place.offset)
                    try:
                        features = parse_example(checked_data(path, view, place))
                    except DataError as error:
                        message = error.message
                        if where not in message:
                            message = f"{where}: {message}"
                        self._add("damaged-record", str(path), message)
                        continue
                    label, encoded = self._look_at(where, features)
                    if label is not None and encoded is not None:
                        self._contents.add(path, place, split, label, encoded)
                    yield label
            except DataError as error:
                self._add("damaged-record", str(path), in_one_line(error))

    def _add(self, kind: str, path: str, detail: str) -> None:
        self._result.problems.append(Problem(kind, path, detail))

    def finish(self) -> None:
        """What only all records together show."""
        for kind, where, place in self._contents.duplicates():
            found = Problem(kind, where, f"same content as {place}")
            (self._result.notes if kind == "repeated" else self._result.problems).append(found)

    def _look_at(self, where: str, features: _Features) -> tuple[_Label, bytes | None]:
        """The record's label and picture, as far as it has them."""
        if self._offset is None:
            try:
                recorded = read_layout(features)
            except DataError as error:
                self._add("missing-feature", where, error.message)
                return None, None
            encoded, label = recorded.encoded, recorded.label
            if isinstance(label, int) and label < 0:
                self._add("label", where, f"label {label}; labels count from 0")
        else:
            absent = [name for name in (IMAGE, LABEL) if _first(features, *name) is None]
            encoded, label = _first(features, *IMAGE), _first(features, *LABEL)
            for name, _ in (IMAGE, LABEL):
                if len(features.get(name, ())) > 1:
                    detail = f"has {len(features[name])} values in {name}; one is read"
                    self._add("label" if name == LABEL[0] else "missing-feature", where, detail)
            if absent:
                detail = "; ".join(_lacking(features, name, kind) for name, kind in absent)
                self._add("missing-feature", where, detail)
                return None if label is None else int(label), None
            self._check_label(where, label - self._offset, features)
        self._check_picture(where, encoded, features)
        self._check_boxes(where, features)
        return label, encoded

    def _check_label(self, where: str, label: int, features: _Features) -> None:
        wrong = [
            each
            for each in features.get("image/class/labels", ())
            if not isinstance(each, int) or not 0 <= each < len(self._result.classes)
        ]
        if wrong:
            self._add("label", where, f"image/class/labels has {wrong[0]!r}, which is no class")
        classes, offset = self._result.classes, self._offset or 0
        text = _first(features, "image/class/text", bytes)
        if not 0 <= label < len(classes):
            expected = f"{len(classes)} classes have labels {offset} to {len(classes) - 1 + offset}"
            self._add("label", where, f"label {label + offset}; {expected}")
        elif text and text != classes[label].encode("utf-8"):
            shown = text.decode("utf-8", "replace")
            detail = f"says class {shown!r}, but label {label + offset} is {classes[label]!r}"
            self._add("class-name", where, detail)

    def _check_boxes(self, where: str, features: _Features) -> None:
        sides = [
            [
                value
                for value in features.get(f"image/object/bbox/{s}", ())
                if isinstance(value, float)
            ]
            for s in BOX_SIDES
        ]
        if len({len(numbers) for numbers in sides}) > 1:
            counts = ", ".join(str(len(numbers)) for numbers in sides)
            self._add("box", where, f"has {counts} values of {', '.join(BOX_SIDES)}")
            return
        for ymin, xmin, ymax, xmax in zip(*sides, strict=True):
            if not Box(xmin, ymin, xmax, ymax).is_inside:
                box = f"ymin {ymin:g}, xmin {xmin:g}, ymax {ymax:g}, xmax {xmax:g}"
                self._add("box", where, f"has a box that lies not inside its picture: {box}")

    def _check_picture(self, where: str, encoded: bytes, features: _Features) -> None:
        try:
            picture = clean_bytes(where, encoded)
        except PictureError as error:
            self._add(error.kind, where, error.detail)
            return
        if self._offset is not None and not is_decoded_by_tensorflow(encoded):
            made = "; ".join(picture.changes)
            detail = f"is no JPEG, PNG, GIF, BMP or WebP, which TensorFlow decodes ({made})"
            self._add("format", where, detail)
            return
        for change in picture.changes:
            sort_change(self._result, where, change)
        said = _first(features, "image/format", bytes)
        if said and not picture.changes:
            stated = said.decode("utf-8", "replace").lower()
            if stated.replace("jpg", "jpeg") != picture.format:
                detail = f"image/format says {stated!r}, the bytes are {picture.format}"
                self._add("format", where, detail)
        height = _first(features, "image/height", int)
        width = _first(features, "image/width", int)
        size = (picture.height, picture.width)
        if height is not None and width is not None and (height, width) != size:
            detail = (
                f"image/height and image/width say {height} x {width}, "
                f"the picture has {picture.height} x {picture.width}"
            )
            self._add("size", where, detail)


def _lacking(features: _Features, name: str, kind: type) -> str:
    """What to say of a feature that is absent, empty or of another kind."""
    if name not in features:
        return f"has no {name}; it has {', '.join(sorted(features)) or 'no features'}"
    if not features[name]:
        return f"has no value in {name}"
    expected = {int: "a whole number (int64)", bytes: "bytes"}[kind]
    return f"has {ascii(features[name][0])[:40]} as {name}; {expected} is read"


def _first(features: _Features, name: str, kind: type) -> Any:
    """The first value of a feature, or None where it is absent or of another kind."""
    values = features.get(name) or []
    return values[0] if values and isinstance(values[0], kind) else None
