"""Writing V2 checkpoints: one pass over the values, and a family that is never half there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from checkpoints.bundle import HEADER_KEY, VERSION, data_path, index_path
from checkpoints.checksum import crc32c, mask
from checkpoints.files import temporary_beside
from checkpoints.messages import BundleEntryProto, BundleHeaderProto
from checkpoints.string_block import encode_strings
from checkpoints.table import TableWriter
from checkpoints.tensors import Array, as_strings, dtype_of, little_endian_bytes


def write_bundle(prefix: Path, variables: Iterable[tuple[str, Array]], old: Sequence[Path]) -> None:
    """Writes PREFIX.index and PREFIX.data-00000-of-00001, byte for byte as TensorFlow does.

    The values are written as they come, so one at a time is in memory. TensorFlow's Saver hands
    them over in the order of their names.

    Args:
      prefix: the path without the endings.
      variables: names and values, in the order in which the values are to lie in the file.
      old: the files of the checkpoint that this one replaces, in the order in which they may
        go. They go when the new ones are on the disk and before these take their names, the
        index last, so that at any moment there is the old checkpoint, the new one or none.

    Raises:
      UnsupportedError: TensorFlow has no dtype for a value.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data, index = data_path(prefix, 0, 1), index_path(prefix)
    partial_data, partial_index = temporary_beside(data), temporary_beside(index)
    try:
        with partial_data.open("wb") as file:
            entries = _write_values(file, variables)
            to_disk(file)
        with partial_index.open("wb") as file:
            _write_index(file, entries)
            to_disk(file)
        for path in old:
            path.unlink(missing_ok=True)
        partial_data.replace(data)
        partial_index.replace(index)
    finally:
        partial_data.unlink(missing_ok=True)
        partial_index.unlink(missing_ok=True)


def _write_values(file: IO[bytes], variables: Iterable[tuple[str, Array]]) -> dict[bytes, bytes]:
    """Writes the values; gives the entries of the index by key."""
    entries: dict[bytes, bytes] = {}
    offset = 0
    for name, value in variables:
        key = name.encode("utf-8")
        array = np.asarray(value)
        dtype = dtype_of(array, name)
        pieces: list[bytes] | list[memoryview]
        if dtype.is_string:
            pieces, crc = encode_strings(as_strings(array, name))
        else:
            pieces = [little_endian_bytes(array)]
            crc = crc32c(pieces[0])
        size = 0
        for piece in pieces:
            file.write(piece)
            size += len(piece)
        entry = BundleEntryProto(dtype=dtype.number, offset=offset, size=size, crc32c=mask(crc))
        # A scalar's shape has no dimensions and yet has to be there.
        entry.shape.SetInParent()
        for dimension in array.shape:
            entry.shape.dim.add(size=dimension)
        entries[key] = entry.SerializeToString(deterministic=True)
        offset += size
    return entries


def _write_index(file: IO[bytes], entries: dict[bytes, bytes]) -> None:
    header = BundleHeaderProto(num_shards=1)
    header.version.producer = VERSION
    table = TableWriter(file)
    table.add(HEADER_KEY, [header.SerializeToString(deterministic=True)])
    for key in sorted(entries):
        table.add(key, [entries[key]])
    table.finish()


def to_disk(file: IO[bytes]) -> None:
    """Waits until the operating system has put on the disk what was written."""
    file.flush()
    os.fsync(file.fileno())
