"""Writing V2 checkpoints: one pass over the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from checkpoints.bundle import HEADER_KEY, VERSION, data_path, index_path
from checkpoints.checksum import crc32c, mask
from checkpoints.dtypes import DType
from checkpoints.files import to_disk
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
    as_array,
    as_index,
    as_strings,
    dtype_of,
    little_endian_bytes,
    set_shape,
)


def write_bundle(
    prefix: Path,
    variables: Iterable[tuple[str, Array]],
    slicing: Slicing | None = None,
) -> None:
    """Writes PREFIX.index and PREFIX.data-00000-of-00001, byte for byte as TensorFlow does.

    The values are written as they come, so one at a time is in memory. TensorFlow's Saver hands
    them over in the order of their names.

    Args:
      prefix: the path without the endings, in a directory that is there. What stands under
        this name is not looked after: checkpoints/placing.py gives a checkpoint its name.
      variables: names and values, in the order in which the values are to lie in the file.
      slicing: which variables are written in slices.

    Raises:
      UnsupportedError: TensorFlow has no dtype for a value.
    """
    with data_path(prefix, 0, 1).open("wb") as file:
        entries = _write_values(file, variables, slicing)
        to_disk(file)
    with index_path(prefix).open("wb") as file:
        _write_index(file, entries)
        to_disk(file)


def _write_values(
    file: IO[bytes], variables: Iterable[tuple[str, Array]], slicing: Slicing | None
) -> dict[bytes, bytes]:
    """Writes the values; gives the entries of the index by key."""
    entries: dict[bytes, bytes] = {}
    offset = 0
    for name, value in variables:
        key = name.encode("utf-8")
        array = as_array(value, name)
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
