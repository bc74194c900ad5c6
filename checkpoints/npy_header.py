"""The header of a .npy file: a Python literal that says dtype, order and shape.

Layout:
  the magic bytes, the version (two bytes), the length of the literal (uint16, from version 2 on
  uint32, little-endian), the literal.

Source:
  numpy.lib.format. Its own reader is not used: what is no header makes it raise errors of many
  kinds.
"""

from __future__ import annotations

import ast
import re
import struct
import warnings
from typing import Any

import numpy as np

from checkpoints.errors import BrokenFileError, UnsupportedError
from checkpoints.tensors import MAX_RANK, Shape, is_addressable

HEAD_BYTES = 1 << 13
"""So much of a file holds any header that is read."""

_MAGIC = b"\x93NUMPY"
# The version -> how the length of the header is kept; what numpy writes for plain dtypes.
_LENGTHS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
_HEADER_KEYS = ("descr", "fortran_order", "shape")
# More than 32 dimensions of 20 digits and a field's name take.
_MOST_BYTES = 1 << 12
_DESCR = re.compile(r"[<>|=]?(\?|[biufcSUVO]\d{0,9}|[mM]8(\[\d*\w+\])?)")


def read_npy_header(head: bytes) -> tuple[int, np.dtype[Any], bool, Shape]:
    """Where the values begin, their dtype, whether they are in Fortran's order, the shape.

    Args:
      head: the beginning of a .npy file, HEAD_BYTES of it where it is longer.

    Raises:
      BrokenFileError: it is no header, or one of what no file holds.
      UnsupportedError: it is of a version that numpy only writes for names of fields.
    """
    version = tuple(head[len(_MAGIC) : len(_MAGIC) + 2])
    if not head.startswith(_MAGIC) or len(version) < 2:
        raise BrokenFileError("its .npy header cannot be read")
    if version not in _LENGTHS:
        raise UnsupportedError(f"its .npy version {version[0]}.{version[1]} is not read")
    length = _LENGTHS[version]
    start = len(_MAGIC) + 2 + length.size
    (size,) = length.unpack(head[start - length.size : start].ljust(length.size, b"\0"))
    text = head[start : start + size].decode("latin-1")
    if not 0 < size <= min(len(head) - start, _MOST_BYTES):
        raise BrokenFileError("its .npy header cannot be read", received=f"{size} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Python 2 wrote whole numbers with an L.
            header = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", text.strip()))
            descr, is_fortran, shape = (header[key] for key in _HEADER_KEYS)
            dtype = _dtype_of(descr)
    except (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError) as error:
        raise BrokenFileError("its .npy header cannot be read", received=text) from error
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise BrokenFileError("its .npy header cannot be read", received=text)
    if len(shape) > MAX_RANK or any(size < 0 for size in shape):
        raise BrokenFileError(f"its shape {list(shape)} is impossible")
    if not is_addressable(shape, dtype.itemsize) or not dtype.itemsize:
        raise BrokenFileError(f"it cannot hold {dtype} {list(shape)}")
    return start + size, dtype, bool(is_fortran), shape


def _dtype_of(descr: Any) -> np.dtype[Any]:
    """The dtype of a header: a plain one, or one with fields that are."""
    fields = [("", descr)] if isinstance(descr, str) else descr
    if not all(_DESCR.fullmatch(field[1]) for field in fields):
        raise ValueError(f"{descr!r} is no dtype")
    dtype: np.dtype[Any] = np.dtype(descr)
    return dtype
