"""Writing V1 checkpoints: one table with everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import UnsupportedError
from checkpoints.files import to_disk
from checkpoints.messages import SavedTensorSlices
from checkpoints.ordered_code import WHOLE, encode_slice_key
from checkpoints.slices import DATA_FIELD, META_KEY, VALUES_FIELD, VERSION
from checkpoints.slicing import Slicing
from checkpoints.table import TableWriter
from checkpoints.tensor_values import encode_string_values, encode_values
from checkpoints.tensors import (
    Array,
    Extents,
    Shape,
    add_extents,
    as_index,
    as_strings,
    extents_shape,
    set_shape,
)
from checkpoints.wire import encode_header

MAX_VALUE_BYTES = 2**31 - 1
"""What a protobuf message, and with it a variable in V1, may take."""


class Content(NamedTuple):
    """What the list at the file's beginning says of a variable."""

    name: str
    dtype: dtypes.DType
    shape: Shape


def write_slices(
    path: Path,
    contents: Sequence[Content],
    read: Callable[[str], Array],
    slicing: Slicing | None = None,
) -> None:
    """Writes a V1 checkpoint into one file, byte for byte as TensorFlow does.

    TensorFlow neither writes nor reads some dtypes in V1 (bfloat16, float8, 4 and 2 bits), and
    others it only reads (uint32, uint64); they are written as a TensorProto holds them.

    Args:
      path: the file, in a directory that is there; checkpoints/placing.py gives it its name.
      contents: all variables, in the order of the list; a Saver's is that of the names.
      read: gives the values of a variable by its name, once for each; a few are held at a time.
      slicing: which variables are written in slices.

    Raises:
      UnsupportedError: a variable is too large for a V1 checkpoint.
    """
    slices = {content.name: _slices(content, slicing) for content in contents}
    too_large = [
        content.name
        for content in contents
        # The first slice is the longest.
        if _num_bytes(content, slices[content.name][0]) > MAX_VALUE_BYTES
    ]
    if too_large:
        raise _too_large(path, too_large[0])
    with path.open("wb") as file:
        table = TableWriter(file)
        table.add(META_KEY, [_meta(contents, slices)])
        keys = {
            encode_slice_key(content.name.encode("utf-8"), extents): (content, extents)
            for content in contents
            for extents in slices[content.name]
        }
        array, name = np.empty(0), None
        for key in sorted(keys):
            content, extents = keys[key]
            # The slices of one variable stand one behind the other.
            if content.name != name:
                array, name = np.asarray(read(content.name)), content.name
            value = _value(content, extents, array)
            if sum(map(len, value)) > MAX_VALUE_BYTES:
                raise _too_large(path, content.name)
            table.add(key, value)
        table.finish()
        to_disk(file)


def _slices(content: Content, slicing: Slicing | None) -> list[Extents]:
    """The slices in which a variable is written; one that is all of it where it stays whole."""
    slices = slicing.extents(content.dtype, content.shape) if slicing is not None else []
    return slices or [((0, WHOLE),) * len(content.shape)]


def _meta(contents: Sequence[Content], slices: Mapping[str, list[Extents]]) -> bytes:
    message = SavedTensorSlices()
    message.meta.versions.producer = VERSION
    for content in contents:
        tensor = message.meta.tensor.add(name=content.name, type=content.dtype.number)
        set_shape(tensor.shape, content.shape)
        for extents in slices[content.name]:
            add_extents(tensor.slice.add(), extents)
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


def _value(content: Content, extents: Extents, whole: Array) -> list[bytes | memoryview]:
    """A SavedTensorSlices message with the values of a slice, in pieces that are not copied."""
    array = whole[as_index(extents)] if _is_part(extents) else whole
    if content.dtype.is_string:
        values = encode_string_values(as_strings(array, content.name))
    else:
        values = encode_values(array, content.dtype)
    begin = SavedTensorSlices()
    begin.data.name = content.name
    add_extents(begin.data.slice, extents)
    head = begin.data.SerializeToString(deterministic=True)
    head += encode_header(VALUES_FIELD, sum(map(len, values)))
    num_bytes = len(head) + sum(map(len, values))
    return [encode_header(DATA_FIELD, num_bytes) + head, *values]


def _num_bytes(content: Content, extents: Extents) -> int:
    """The size of the numbers in a slice; 0 for strings, whose size shows when they are read."""
    if content.dtype.is_string:
        return 0
    shape = extents_shape(extents) if _is_part(extents) else content.shape
    return math.prod(shape) * content.dtype.numpy.itemsize


def _is_part(extents: Extents) -> bool:
    return any(length != WHOLE for _, length in extents)


def _too_large(path: Path, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path}: variable {name} is too large for a V1 checkpoint.",
        expected=f"at most {MAX_VALUE_BYTES} bytes",
        next_step="Write a V2 checkpoint, which has no such limit, or slices: --partition N",
    )
