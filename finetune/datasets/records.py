"""TFRecord files: the framing, its checksums, and the tf.train.Example messages inside.

A file is a row of records. Each is: length (uint64, little-endian), masked CRC-32C of those
eight bytes (uint32), the data, masked CRC-32C of the data (uint32). TensorFlow is not needed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from checkpoints.checksum import crc32c, mask
from checkpoints.errors import DataError, NotFoundError
from checkpoints.files import atomic_file, reading

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
FRAME_BYTES = HEADER.size + FOOTER.size

FeatureValue = bytes | str | int | float | Sequence[bytes] | Sequence[int] | Sequence[float]
"""What a feature may be given as; text is stored as UTF-8."""

_SIGNATURES = (
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"{", "JSON text"),
)


def frame(data: bytes) -> bytes:
    """One record as it stands in the file: length, checksum, data, checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        (
            length,
            FOOTER.pack(mask(crc32c(length))),
            data,
            FOOTER.pack(mask(crc32c(data))),
        )
    )


class RecordWriter:
    """Appends records to an open binary file and counts them.

    Attributes:
      count: records written so far.
      size: bytes written so far.
      digest: SHA-256 over them.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Writes to `file` from where it stands."""
        import hashlib  # takes its time, and those who only read need none

        self._file = file
        self.count = 0
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Appends one record."""
        framed = frame(data)
        self._file.write(framed)
        self.digest.update(framed)
        self.count += 1
        self.size += len(framed)


def write_records(path: str | Path, records: Iterable[bytes]) -> int:
    """Writes a TFRecord file atomically.

    Args:
      path: where it goes; an existing file is replaced when all is written.
      records: the data of each record.

    Returns:
      How many records were written.
    """
    with atomic_file(Path(path)) as file:
        writer = RecordWriter(file)
        for record in records:
            writer.write(record)
        return writer.count


class RecordError(DataError):
    """A TFRecord file is cut or damaged; the message names file, record and byte offset."""


@dataclass(frozen=True)
class RecordPlace:
    """Where a record lies in its file.

    Attributes:
      number: 0 for the first record.
      offset: of the record's first framing byte, in bytes.
      start: of its data.
      length: of its data.
    """

    number: int
    offset: int
    start: int
    length: int


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file without reading them all: a read-only memory map.

    An empty file, which cannot be mapped, is given as empty bytes.
    """
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                yield b""
                return
            with reading(path):
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with view:
                yield view
    except FileNotFoundError as err:
        raise NotFoundError(f"{path} is not there.") from err


def record_places(path: Path, view: mmap.mmap | bytes) -> Iterator[RecordPlace]:
    """Walks the frames of a mapped TFRecord file; checks lengths, not the data.

    Raises:
      RecordError: a frame is cut or its length's checksum is wrong; names file, record and offset.
    """
    offset = 0
    number = 0
    size = len(view)
    while offset < size:
        if size - offset < FRAME_BYTES:
            raise _broken(
                path,
                number,
                offset,
                "the file ends inside the record's frame",
                f"at least {FRAME_BYTES} bytes from offset {offset}",
                f"{size - offset} bytes",
            )
        length, checksum = HEADER.unpack_from(view, offset)
        if mask(crc32c(view[offset : offset + 8])) != checksum:
            raise _broken(
                path,
                number,
                offset,
                "the checksum of the record's length is wrong",
                "a TFRecord frame",
                _looks_like(view[:16]) if number == 0 else f"a length of {length}",
            )
        if length > size - offset - FRAME_BYTES:
            raise _broken(
                path,
                number,
                offset,
                "the file ends inside the record",
                f"{length} bytes of data and a checksum of 4",
                f"{size - offset - HEADER.size} bytes to the end of the file",
            )
        yield RecordPlace(number, offset, offset + HEADER.size, length)
        offset += FRAME_BYTES + length
        number += 1


def checked_data(path: Path, view: mmap.mmap | bytes, place: RecordPlace) -> bytes:
    """The data of one record, compared with its checksum.

    Raises:
      RecordError: the checksum is wrong; names file, record and offset.
    """
    end = place.start + place.length
    data = bytes(view[place.start : end])
    if mask(crc32c(data)) != FOOTER.unpack_from(view, end)[0]:
        raise _broken(
            path,
            place.number,
            place.offset,
            "the checksum of the record's data is wrong",
            "data as it was written",
            f"{place.length} bytes that differ from it",
        )
    return data


def read_records(path: str | Path, expected_count: int | None = None) -> Iterator[bytes]:
    """The data of each record of a TFRecord file, in order, every checksum compared.

    Args:
      path: the file; it is mapped, not read as a whole.
      expected_count: how many records there must be, or None where nobody knows.

    Raises:
      NotFoundError: the file is not there.
      RecordError: the file is empty, cut or damaged; names file, record number and byte offset.
    """
    path = Path(path)
    with mapped(path) as view:
        count = 0
        for place in record_places(path, view):
            yield checked_data(path, view, place)
            count += 1
        check_count(path, count, len(view), expected_count)


def check_count(path: Path, count: int, size: int, expected_count: int | None) -> None:
    """Compares the number of records found with the number that should be there.

    Raises:
      RecordError: they differ, or the file is empty and nobody said that it should be.
    """
    if expected_count is None:
        if count == 0:
            raise _broken(path, 0, 0, "the file is empty", "at least one record", "0 bytes")
    elif count != expected_count:
        raise RecordError(
            f"{path} ends after record {count - 1} (offset {size})."
            if count
            else f"{path}: record 0 (offset 0): the file is empty.",
            expected=f"{expected_count} records, as dataset.json says",
            received=f"{count} records",
            next_step="Build the dataset again with slimtune data build.",
        )


def count_records(path: Path) -> int:
    """How many records a TFRecord file holds, from the frames alone.

    Raises:
      RecordError: the file is empty, or a frame is cut or damaged.
    """
    path = Path(path)
    with mapped(path) as view:
        count = sum(1 for _ in record_places(path, view))
        check_count(path, count, len(view), None)
    return count


def describe_place(path: Path, number: int, offset: int) -> str:
    """A record by file, number and offset in bytes, for messages."""
    return f"{path}: record {number} (offset {offset})"


def _broken(
    path: Path, number: int, offset: int, what: str, expected: str, received: str
) -> RecordError:
    return RecordError(
        f"{describe_place(path, number, offset)}: {what}.",
        expected=expected,
        received=received,
        next_step="Build the dataset again with slimtune data build, or fetch the file again.",
    )


def _looks_like(head: bytes) -> str:
    for signature, description in _SIGNATURES:
        if head.startswith(signature):
            return f"{description}, by its first bytes"
    return f"bytes that begin with {head[:8].hex(' ')}"


def make_example(features: Mapping[str, FeatureValue]) -> bytes:
    """A serialised tf.train.Example.

    Args:
      features: name -> value or values; bytes and text become a bytes list (text as UTF-8),
        whole numbers (and truth values) an int64 list, other numbers a float list (float32).

    Returns:
      The message's bytes, the same for the same features.
    """
    from checkpoints import messages

    example = messages.Example()
    for name, given in features.items():
        feature = example.features.feature[name]
        values: list[Any] = (
            list(given)
            if isinstance(given, Iterable) and not isinstance(given, (bytes, str))
            else [given]
        )
        if all(isinstance(value, (bytes, str)) for value in values):
            feature.bytes_list.value.extend(
                value.encode("utf-8") if isinstance(value, str) else value for value in values
            )
        elif all(_is_whole(value) for value in values):
            feature.int64_list.value.extend(int(value) for value in values)
        else:
            feature.float_list.value.extend(float(value) for value in values)
    return bytes(example.SerializeToString(deterministic=True))


def _is_whole(value: object) -> bool:
    # numpy's whole numbers are not int, but they have __index__, which floats have not.
    return hasattr(value, "__index__")


def parse_example(record: bytes) -> dict[str, list[bytes] | list[int] | list[float]]:
    """The features of a serialised tf.train.Example, each as a list of its values.

    Raises:
      DataError: the bytes are no Example.
    """
    from google.protobuf.message import DecodeError

    from checkpoints import messages

    example = messages.Example()
    try:
        example.ParseFromString(bytes(record))
    except DecodeError as err:
        raise DataError(
            "A record is no tf.train.Example.",
            expected="a serialised tf.train.Example",
            received=_looks_like(bytes(record[:16])) if record else "0 bytes",
        ) from err
    features: dict[str, list[bytes] | list[int] | list[float]] = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        features[name] = list(getattr(feature, kind).value) if kind else []
    return features
