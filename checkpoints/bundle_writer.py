"""Writing V2 checkpoints: one pass over the values, and a family that is never half there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from checkpoints.bundle import HEADER_KEY, VERSION, data_path, index_path
from checkpoints.checksum import crc32c, mask
from checkpoints.dtypes import DType
from checkpoints.files import temporary_beside
from checkpoints.messages import BundleEntryProto, BundleHeaderProto
from checkpoints.ordered_code import encode_slice_key
from checkpoints.slicing import Slicing
from checkpoints.string_block import encode_strings
from checkpoints.table import TableWriter
from checkpoints.tensors import (
    Array,
    Extents,
    Shape,
    add_extents,
    as_index,
    as_strings,
    dtype_of,
    little_endian_bytes,
    set_shape,
)


def write_bundle(
    prefix: Path,
    variables: Iterable[tuple[str, Array]],
    old: Sequence[Path],
    slicing: Slicing | None = None,
) -> None:
    """Writes PREFIX.index and PREFIX.data-00000-of-00001, byte for byte as TensorFlow does.

    The values are written as they come, so one at a time is in memory. TensorFlow's Saver hands
    them over in the order of their names.

    Args:
      prefix: the path without the endings.
      variables: names and values, in the order in which the values are to lie in the file.
      old: the files of the checkpoint that this one replaces, in the order in which they may
        go. They go when the new ones are on the disk and before these take their names, the
        index last, so that at any moment there is the old checkpoint, the new one or none.
      slicing: which variables are written in slices.

    Raises:
      UnsupportedError: TensorFlow has no dtype for a value.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data, index = data_path(prefix, 0, 1), index_path(prefix)
    partial_data, partial_index = temporary_beside(data), temporary_beside(index)
    try:
        with partial_data.open("wb") as file:
            entries = _write_values(file, variables, slicing)
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


def _write_values(
    file: IO[bytes], variables: Iterable[tuple[str, Array]], slicing: Slicing | None
) -> dict[bytes, bytes]:
    """Writes the values; gives the entries of the index by key."""
    entries: dict[bytes, bytes] = {}
    offset = 0
    for name, value in variables:
        key = name.encode("utf-8")
        array = np.asarray(value)
        dtype = dtype_of(array, name)
        slices = slicing.extents(dtype, array.shape) if slicing is not None else []
        pieces = {encode_slice_key(key, extents): array[as_index(extents)] for extents in slices}
        for piece_key, piece in (pieces or {key: array}).items():
            entry, size = _write_tensor(file, name, piece, dtype)
            entry.offset = offset
            entries[piece_key] = entry.SerializeToString(deterministic=True)
            offset += size
        if slices:
            entries[key] = _whole_entry(dtype, array.shape, slices)
    return entries


def _write_tensor(
    file: IO[bytes], name: str, array: Array, dtype: DType
) -> tuple[BundleEntryProto, int]:
    """Writes the values of a variable or a slice; gives its entry, without a place, and the size."""
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
    entry = BundleEntryProto(dtype=dtype.number, size=size, crc32c=mask(crc))
    set_shape(entry.shape, array.shape)
    return entry, size


def _whole_entry(dtype: DType, shape: Shape, slices: Sequence[Extents]) -> bytes:
    """The entry of a variable whose slices have entries of their own."""
    entry = BundleEntryProto(dtype=dtype.number)
    set_shape(entry.shape, shape)
    for extents in slices:
        add_extents(entry.slices.add(), extents)
    serialized: bytes = entry.SerializeToString(deterministic=True)
    return serialized


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
