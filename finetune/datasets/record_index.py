"""Where each picture of a split lies in its shards, and what its label is.

The pictures themselves are not read: of a record only the bytes around its fields are.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkpoints import wire
from checkpoints.errors import BrokenFileError, DataError
from finetune.datasets.dataset import Dataset, Split
from finetune.datasets.records import (
    check_count,
    checked_data,
    describe_place,
    mapped,
    record_places,
)

IMAGE = b"image/encoded"
LABEL = b"image/class/label"
LABELS = b"image/class/labels"
FILENAME = b"image/filename"
BOX_SIDES = tuple(b"image/object/bbox/" + side for side in (b"ymin", b"xmin", b"ymax", b"xmax"))
"""In the order in which TensorFlow takes the sides of a box."""
_LISTS = (*BOX_SIDES, LABELS)

_CACHED_SHARDS = 4096
_COLUMNS = 8
_NO_BOXES = np.empty((0, 4), np.float32)


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """The records of a split, in the order of its shards. Arrays are [count], int64.

    Attributes:
      paths: the shards.
      shards: each record's place in `paths`.
      offsets: of its first framing byte in the shard, in bytes.
      starts: of its data.
      lengths: of its data.
      picture_starts: of the encoded picture in the shard.
      picture_lengths: of the encoded picture.
      labels: the class's number, the split's label offset taken off.
      name_starts: of image/filename in the shard.
      name_lengths: of image/filename; 0 where the record has none.
      box_ends: where the record's boxes end in `boxes`; they begin where the last record's end.
      label_ends: where the numbers of all classes of the record end in `all_labels`, likewise.
      boxes: [boxes, 4] float32, ymin, xmin, ymax, xmax in fractions of height and width.
      all_labels: int64 [labels], of the records that have image/class/labels, the offset taken off.
    """

    paths: tuple[Path, ...]
    shards: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    picture_starts: npt.NDArray[np.int64]
    picture_lengths: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    name_starts: npt.NDArray[np.int64]
    name_lengths: npt.NDArray[np.int64]
    box_ends: npt.NDArray[np.int64]
    label_ends: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float32]
    all_labels: npt.NDArray[np.int64]

    def boxes_of(self, position: int) -> npt.NDArray[np.float32]:
        """The record's boxes, [n, 4]; n is 0 where it has none."""
        start = self.box_ends[position - 1] if position else 0
        return self.boxes[start : self.box_ends[position]]

    def indicators(self, classes: int) -> npt.NDArray[np.int64]:
        """Which classes each picture shows: 0 or 1, int64 [count, classes].

        A record without image/class/labels shows the class of image/class/label.

        Raises:
          DataError: a label is not below `classes`.
        """
        found = np.diff(self.label_ends, prepend=0)
        rows = np.repeat(np.arange(len(self)), found)
        alone = np.flatnonzero(found == 0)
        rows, labels = (
            np.concatenate([rows, alone]),
            np.concatenate([self.all_labels, self.labels[alone]]),
        )
        wrong = np.flatnonzero((labels < 0) | (labels >= classes))
        if len(wrong):
            raise DataError(
                f"{self.describe(int(rows[wrong[0]]))}: {LABELS.decode()} does not name a class.",
                expected=f"0 to {classes - 1} for {classes} classes",
                received=int(labels[wrong[0]]),
                next_step="Build the dataset again with slimtune data build.",
            )
        shown = np.zeros((len(self), classes), np.int64)
        shown[rows, labels] = 1
        return shown

    def __len__(self) -> int:
        return len(self.labels)

    def number(self, position: int) -> int:
        """The record's number inside its shard."""
        return position - int(np.searchsorted(self.shards, self.shards[position]))

    def picture(self, position: int) -> bytes:
        """The encoded picture as it lies in the shard; no checksum is compared."""
        start = int(self.picture_starts[position])
        with mapped(self.paths[int(self.shards[position])]) as view:
            return bytes(view[start : start + int(self.picture_lengths[position])])

    def describe(self, position: int) -> str:
        """The record by file, number and offset, for messages."""
        path = self.paths[int(self.shards[position])]
        return describe_place(path, self.number(position), int(self.offsets[position]))


def labels_to_learn(dataset: Dataset, index: RecordIndex) -> npt.NDArray[np.int64]:
    """What training makes of a split's labels: the class of each picture, int64 [count].

    Of a dataset whose pictures may have several classes: 0 or 1 a class, int64 [count, classes].
    """
    return index.indicators(len(dataset.classes)) if dataset.multi_label else index.labels


def read_index(split: Split) -> RecordIndex:
    """Finds every record of a split.

    Raises:
      DataError: a shard is cut or damaged, holds another number of records than it should, or
        a record has no picture or no label; names file, record and offset.
    """
    shards = [
        _index_shard(
            shard.path, shard.count, (status := shard.path.stat()).st_size, status.st_mtime_ns
        )
        for shard in split.shards
    ]
    count = sum(len(shard.columns) for shard in shards)
    columns = np.empty((_COLUMNS + 3, count), np.int64)
    start = num_boxes = num_labels = 0
    for number, shard in enumerate(shards):
        place = slice(start, start + len(shard.columns))
        columns[0, place] = number
        columns[1:-2, place] = shard.columns.T
        columns[-2, place] = num_boxes + shard.box_ends
        columns[-1, place] = num_labels + shard.label_ends
        start, num_boxes = place.stop, num_boxes + len(shard.boxes)
        num_labels += len(shard.all_labels)
    boxes = np.concatenate([_NO_BOXES, *(shard.boxes for shard in shards)])
    all_labels = np.concatenate([np.empty(0, np.int64), *(shard.all_labels for shard in shards)])
    paths = tuple(shard.path for shard in split.shards)
    index = RecordIndex(paths, *[*columns, boxes, all_labels - split.label_offset])
    return replace(index, labels=index.labels - split.label_offset)


class _Shard(NamedTuple):
    """A file's records: columns offset to name_lengths of a RecordIndex, [count, 8], and lists."""

    columns: npt.NDArray[np.int64]
    box_ends: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float32]
    label_ends: npt.NDArray[np.int64]
    all_labels: npt.NDArray[np.int64]


@functools.lru_cache(maxsize=_CACHED_SHARDS)
def _index_shard(path: Path, count: int, size: int, changed: int) -> _Shard:
    """The records of one file. Kept while the file is."""
    # Not lists of numbers, which take five times the memory.
    rows, box_ends, sides = array("q"), array("q"), array("f")
    label_ends, all_labels = array("q"), array("q")
    with mapped(path) as view, memoryview(view) as bytes_view:
        for place in record_places(path, view):
            try:
                found = _find_fields(bytes_view, place.start, place.start + place.length)
            except BrokenFileError as err:
                # Damage is told by the checksum before the record is blamed for what is in it.
                checked_data(path, view, place)
                raise DataError(
                    f"{describe_place(path, place.number, place.offset)} is no "
                    f"tf.train.Example: {err.message}",
                    next_step="Build the dataset again with slimtune data build.",
                ) from err
            missing = [key.decode() for key in (IMAGE, LABEL) if key not in found]
            if missing:
                checked_data(path, view, place)
                raise DataError(
                    f"{describe_place(path, place.number, place.offset)} lacks "
                    f"{' and '.join(missing)}.",
                    expected="image/encoded (bytes) and image/class/label (int64)",
                    received=", ".join(_feature_names(bytes_view, place.start, place.length))
                    or "no features",
                    next_step="Build the dataset from the pictures with slimtune data build.",
                )
            rows.extend(
                (
                    place.offset,
                    place.start,
                    place.length,
                    *found[IMAGE],
                    found[LABEL][0],
                    *found.get(FILENAME, (0, 0)),
                )
            )
            if not found.keys().isdisjoint(BOX_SIDES):
                boxes = _read_boxes(bytes_view, found, f"{path}: record {place.number}")
                sides.extend(boxes.ravel().tolist())
            box_ends.append(len(sides) // 4)
            if LABELS in found:
                all_labels.extend(_read_numbers(bytes_view, *found[LABELS]))
            label_ends.append(len(all_labels))
        check_count(path, len(box_ends), size, count)
    return _Shard(
        np.array(rows, np.int64).reshape(-1, _COLUMNS),
        np.array(box_ends, np.int64),
        np.array(sides, np.float32).reshape(-1, 4),
        np.array(label_ends, np.int64),
        np.array(all_labels, np.int64),
    )


def _read_boxes(
    view: memoryview, found: Mapping[bytes, tuple[int, int]], record: str
) -> npt.NDArray[np.float32]:
    """The boxes of a record, [n, 4]; `found` has the places of the lists of their sides."""
    lists = [_read_floats(view, *found.get(side, (0, 0))) for side in BOX_SIDES]
    counts = [len(numbers) for numbers in lists]
    if len(set(counts)) > 1:
        raise DataError(
            f"{record} has boxes with sides missing.",
            expected="as many numbers in each of " + ", ".join(s.decode() for s in BOX_SIDES),
            received=counts,
            next_step="Build the dataset again with slimtune data build.",
        )
    boxes = np.stack(lists, 1)
    whole = (boxes >= 0).all(1) & (boxes <= 1).all(1) & (boxes[:, :2] < boxes[:, 2:]).all(1)
    if not whole.all():
        raise DataError(
            f"{record} has a box that lies not inside its picture.",
            expected="ymin below ymax and xmin below xmax, in fractions from 0 to 1",
            received=dict(
                zip(("ymin", "xmin", "ymax", "xmax"), boxes[~whole][0].tolist(), strict=True)
            ),
            next_step="Build the dataset again with slimtune data build.",
        )
    return boxes


def _read_floats(view: memoryview, start: int, end: int) -> npt.NDArray[np.float32]:
    """The numbers of a Feature's float_list, packed or one by one."""
    values = [
        np.frombuffer(view[value.start : value.end], "<f4")
        for kind in wire.scan(view, start, end)
        if kind.number == 2
        for value in wire.scan(view, kind.start, kind.end)
        if value.wire_type == wire.FIXED32 or (value.end - value.start) % 4 == 0
    ]
    return np.concatenate([*values, np.empty(0, np.float32)]).astype(np.float32)


def _read_numbers(view: memoryview, start: int, end: int) -> Iterator[int]:
    """The numbers of a Feature's int64_list, packed or one by one."""
    for kind in wire.scan(view, start, end):
        if kind.number != 3:
            continue
        for value in wire.scan(view, kind.start, kind.end):
            if value.wire_type == wire.VARINT:
                yield _signed(value.value)
                continue
            place = value.start
            while place < value.end:
                number, place = wire.read_varint(view, place, value.end)
                yield _signed(number)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _find_fields(view: memoryview, start: int, end: int) -> dict[bytes, tuple[int, int]]:
    """Places (start, length) of picture and file name, and (label, 0), of one Example.

    Of all labels, and of the four sides of boxes, the places (start, end) of the Features.

    The field numbers are those of tf.train.Example: features = 1; feature = 1, a map with
    key = 1 and value = 2; bytes_list = 1 and int64_list = 3, each with value = 1.
    """
    found: dict[bytes, tuple[int, int]] = {}
    for features in wire.scan(view, start, end):
        if features.number != 1:
            continue
        for entry in wire.scan(view, features.start, features.end):
            key = b""
            value = None
            for part in wire.scan(view, entry.start, entry.end):
                if part.number == 1:
                    key = bytes(view[part.start : part.end])
                elif part.number == 2:
                    value = part
            if value is None:
                continue
            if key in _LISTS:
                found[key] = value.start, value.end
            elif key == LABEL:
                number = next(_read_numbers(view, value.start, value.end), None)
                if number is not None:
                    found[key] = number, 0
            elif key in (IMAGE, FILENAME):
                place = _first_bytes(view, value.start, value.end)
                if place is not None:
                    found[key] = place
    return found


def _first_bytes(view: memoryview, start: int, end: int) -> tuple[int, int] | None:
    """Where the first value of a Feature's bytes_list lies: start and length."""
    for kind in wire.scan(view, start, end):
        if kind.number == 1:
            for value in wire.scan(view, kind.start, kind.end):
                return value.start, value.end - value.start
    return None


def _feature_names(view: memoryview, start: int, length: int) -> list[str]:
    names = [
        bytes(view[part.start : part.end]).decode("utf-8", "replace")
        for features in wire.scan(view, start, start + length)
        for entry in wire.scan(view, features.start, features.end)
        for part in wire.scan(view, entry.start, entry.end)
        if part.number == 1
    ]
    return sorted(names)
