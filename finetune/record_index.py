"""Where each picture of a split lies in its shards, and what its label is.

The pictures themselves are not read: of a record only the bytes around its fields are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checkpoints import wire
from checkpoints.errors import BrokenFileError, DataError
from finetune.dataset import Split
from finetune.records import check_count, checked_data, mapped, record_places

IMAGE = b"image/encoded"
LABEL = b"image/class/label"
FILENAME = b"image/filename"

_CACHED_SHARDS = 4096


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

    def __len__(self) -> int:
        return len(self.labels)

    def number(self, position: int) -> int:
        """The record's number inside its shard."""
        return position - int(np.searchsorted(self.shards, self.shards[position]))

    def describe(self, position: int) -> str:
        """The record by file, number and offset, for messages."""
        path = self.paths[int(self.shards[position])]
        return f"{path}: record {self.number(position)} (offset {self.offsets[position]})"


def read_index(split: Split) -> RecordIndex:
    """Finds every record of a split.

    Raises:
      DataError: a shard is cut or damaged, holds another number of records than it should, or
        a record has no picture or no label; names file, record and offset.
    """
    rows: list[npt.NDArray[np.int64]] = []
    for number, shard in enumerate(split.shards):
        status = shard.path.stat()
        found = _index_shard(shard.path, shard.count, status.st_size, status.st_mtime_ns)
        numbered = np.empty((len(found), found.shape[1] + 1), np.int64)
        numbered[:, 0] = number
        numbered[:, 1:] = found
        rows.append(numbered)
    columns = np.concatenate(rows) if rows else np.empty((0, 9), np.int64)
    index = RecordIndex(
        tuple(shard.path for shard in split.shards),
        *(np.ascontiguousarray(column) for column in columns.T),
    )
    return replace(index, labels=index.labels - split.label_offset)


@functools.lru_cache(maxsize=_CACHED_SHARDS)
def _index_shard(path: Path, count: int, size: int, changed: int) -> npt.NDArray[np.int64]:
    """One row a record: offset, start, length, picture, label, name. Kept while the file is."""
    rows: list[tuple[int, ...]] = []
    with mapped(path) as view, memoryview(view) as bytes_view:
        for place in record_places(path, view):
            try:
                found = _find_fields(bytes_view, place.start, place.start + place.length)
            except BrokenFileError as err:
                # Damage is told by the checksum before the record is blamed for what is in it.
                checked_data(path, view, place)
                raise DataError(
                    f"{path}: record {place.number} (offset {place.offset}) is no "
                    f"tf.train.Example: {err.message}",
                    next_step="Build the dataset again with slimtune data build.",
                ) from err
            missing = [key.decode() for key in (IMAGE, LABEL) if key not in found]
            if missing:
                checked_data(path, view, place)
                raise DataError(
                    f"{path}: record {place.number} (offset {place.offset}) lacks "
                    f"{' and '.join(missing)}.",
                    expected="image/encoded (bytes) and image/class/label (int64)",
                    received=", ".join(_feature_names(bytes_view, place.start, place.length))
                    or "no features",
                    next_step="Build the dataset from the pictures with slimtune data build.",
                )
            rows.append(
                (
                    place.offset,
                    place.start,
                    place.length,
                    *found[IMAGE],
                    found[LABEL][0],
                    *found.get(FILENAME, (0, 0)),
                )
            )
        check_count(path, len(rows), size, count)
    return np.array(rows, np.int64).reshape(-1, 8)


def _find_fields(view: memoryview, start: int, end: int) -> dict[bytes, tuple[int, int]]:
    """Places (start, length) of picture and file name, and (label, 0), of one Example.

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
            if value is None or key not in (IMAGE, LABEL, FILENAME):
                continue
            place = _first_value(view, value.start, value.end, key == LABEL)
            if place is not None:
                found[key] = place
    return found


def _first_value(view: memoryview, start: int, end: int, is_number: bool) -> tuple[int, int] | None:
    """The first value of a Feature: (start, length) of bytes, or (value, 0) of an int64."""
    for kind in wire.scan(view, start, end):
        if kind.number != (3 if is_number else 1):
            continue
        for value in wire.scan(view, kind.start, kind.end):
            if not is_number:
                return value.start, value.end - value.start
            if value.wire_type == wire.VARINT:
                number = value.value
            elif value.start < value.end:
                number, _ = wire.read_varint(view, value.start, value.end)
            else:
                continue
            return (number - (1 << 64) if number >> 63 else number), 0
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
