"""The variables that go into a graph: any mapping from names to arrays, an open checkpoint best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from checkpoints import dtypes
from checkpoints.tensors import as_strings, little_endian_bytes

Array = npt.NDArray[Any]
Values = Mapping[str, Array]

_CHUNK_BYTES = 1 << 20


class Header(NamedTuple):
    """What is known of a variable before its values are read.

    Attributes:
      dtype: its dtype.
      shape: its shape.
    """

    dtype: dtypes.DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


def header_of(values: Values, name: str) -> Header:
    """Dtype and shape of a variable; an open checkpoint knows them without reading values."""
    variables = getattr(values, "variables", None)
    if variables is not None:
        variable = variables[name]
        return Header(dtypes.of_name(variable.dtype_name), tuple(variable.shape))
    array = values[name]
    return Header(dtypes.of_numpy(array.dtype), tuple(array.shape))


def bytes_of(values: Values, name: str) -> memoryview:
    """The values of a variable of numbers: C order, little-endian, uncopied where possible."""
    direct = getattr(values, "bytes_of", None)
    if direct is not None:
        view: memoryview = direct(name)
        return view
    return little_endian_bytes(values[name])


def strings_of(values: Values, name: str) -> list[bytes]:
    """The values of a variable of strings, in C order."""
    return as_strings(values[name], name)


def first_difference(ours: memoryview, theirs: memoryview) -> int | None:
    """Where two rows of bytes of one length differ first; None where they are the same."""
    for start in range(0, len(ours), _CHUNK_BYTES):
        left = np.frombuffer(ours[start : start + _CHUNK_BYTES], np.uint8)
        right = np.frombuffer(theirs[start : start + _CHUNK_BYTES], np.uint8)
        if not np.array_equal(left, right):
            return start + int(np.flatnonzero(left != right)[0])
    return None
