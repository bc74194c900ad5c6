"""Writing V1 checkpoints: one table with everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from checkpoints import dtypes
from checkpoints.bundle_writer import to_disk
from checkpoints.errors import UnsupportedError
from checkpoints.files import temporary_beside
from checkpoints.messages import SavedTensorSlices
from checkpoints.ordered_code import WHOLE, encode_slice_key
from checkpoints.slices import DATA_FIELD, META_KEY, VALUES_FIELD, VERSION
from checkpoints.table import TableWriter
from checkpoints.tensor_values import encode_string_values, encode_values
from checkpoints.tensors import Array, Shape, as_strings
from checkpoints.wire import encode_header

MAX_VALUE_BYTES = 2**31 - 1
"""What a protobuf message, and with it a variable in V1, may take."""


class Content(NamedTuple):
    """What the list at the file's beginning says of a variable."""

    name: str
    dtype: dtypes.DType
    shape: Shape


def write_slices(
    path: Path, contents: Sequence[Content], read: Callable[[str], Array], old: Sequence[Path]
) -> None:
    """Writes a V1 checkpoint into one file, byte for byte as TensorFlow does.

    TensorFlow neither writes nor reads some dtypes in V1 (bfloat16, uint32, uint64, float8, 4
    and 2 bits); they are written as a TensorProto holds them.

    Args:
      path: the file.
      contents: all variables, in the order of the list; a Saver's is that of the names.
      read: gives the values of a variable by its name, once for each; a few are held at a time.
      old: the files of the checkpoint that this one replaces, in the order in which they may
        go. They go when the new file is on the disk and before it takes its name.

    Raises:
      UnsupportedError: a variable is too large for a V1 checkpoint.
    """
    too_large = [
        content.name
        for content in contents
        if not content.dtype.is_string
        and math.prod(content.shape) * content.dtype.numpy.itemsize > MAX_VALUE_BYTES
    ]
    if too_large:
        raise _too_large(path, too_large[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = temporary_beside(path)
    try:
        with partial.open("wb") as file:
            table = TableWriter(file)
            table.add(META_KEY, [_meta(contents)])
            by_key = {_whole_key(content): content for content in contents}
            for key in sorted(by_key):
                content = by_key[key]
                value = _value(content, np.asarray(read(content.name)))
                if sum(map(len, value)) > MAX_VALUE_BYTES:
                    raise _too_large(path, content.name)
                table.add(key, value)
            table.finish()
            to_disk(file)
        for old_path in old:
            old_path.unlink(missing_ok=True)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _meta(contents: Sequence[Content]) -> bytes:
    message = SavedTensorSlices()
    message.meta.versions.producer = VERSION
    for content in contents:
        tensor = message.meta.tensor.add(name=content.name, type=content.dtype.number)
        # A scalar's shape has no dimensions and yet has to be there.
        tensor.shape.SetInParent()
        extents = tensor.slice.add()
        for size in content.shape:
            tensor.shape.dim.add(size=size)
            extents.extent.add()
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


def _whole_key(content: Content) -> bytes:
    return encode_slice_key(content.name.encode("utf-8"), [(0, WHOLE)] * len(content.shape))


def _value(content: Content, array: Array) -> list[bytes | memoryview]:
    """A SavedTensorSlices message with the values, in pieces that are not copied."""
    if content.dtype.is_string:
        values = encode_string_values(as_strings(array, content.name))
    else:
        values = encode_values(array, content.dtype)
    begin = SavedTensorSlices()
    begin.data.name = content.name
    begin.data.slice.SetInParent()
    for _ in content.shape:
        begin.data.slice.extent.add()
    head = begin.data.SerializeToString(deterministic=True)
    head += encode_header(VALUES_FIELD, sum(map(len, values)))
    num_bytes = len(head) + sum(map(len, values))
    return [encode_header(DATA_FIELD, num_bytes) + head, *values]


def _too_large(path: Path, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path}: variable {name} is too large for a V1 checkpoint.",
        expected=f"at most {MAX_VALUE_BYTES} bytes",
        next_step="Write a V2 checkpoint, which has no such limit.",
    )
