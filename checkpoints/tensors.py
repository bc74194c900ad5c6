"""What a checkpoint says of a tensor, and how the slices of a partitioned one fit together."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from checkpoints import dtypes
from checkpoints.errors import BrokenFileError, UnsupportedError
from checkpoints.messages import TensorShapeProto, TensorSliceProto
from checkpoints.ordered_code import WHOLE

Array: TypeAlias = npt.NDArray[np.generic]
Shape: TypeAlias = tuple[int, ...]
Extents: TypeAlias = tuple[tuple[int, int], ...]
"""Start and length in every dimension."""

MAX_RANK = 32
"""What every supported numpy can hold."""
_MAX_BYTES = 2**63 - 1
_WIDEST = 16
"""Bytes of a complex128, the widest value that there is."""


@dataclass(frozen=True)
class Variable:
    """One variable, as the checkpoint's metadata has it.

    Attributes:
      name: its full name, as in "InceptionV3/Logits/weights".
      dtype: numpy's dtype of its values; object for strings, whose values are bytes.
      dtype_name: TensorFlow's name of the dtype, as in "float32" or "string".
      shape: its dimensions; of a partitioned variable those of the whole.
    """

    name: str
    dtype: np.dtype[np.generic]
    dtype_name: str
    shape: Shape

    @property
    def num_elements(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)


def read_shape(proto: TensorShapeProto) -> Shape:
    """The dimensions that a TensorShapeProto holds.

    Raises:
      BrokenFileError: one is negative, or they are more than there are addresses for.
      UnsupportedError: there are more than MAX_RANK.
    """
    shape = tuple(dimension.size for dimension in proto.dim)
    if len(shape) > MAX_RANK:
        raise UnsupportedError(f"A tensor has {len(shape)} dimensions.", expected="at most 32")
    if proto.unknown_rank or any(size < 0 for size in shape):
        raise BrokenFileError(
            "The shape is not known.", expected="no negative dimension", received=list(shape)
        )
    if not is_addressable(shape):
        raise BrokenFileError("The shape is too large.", received=list(shape))
    return shape


def is_addressable(shape: Shape, itemsize: int = _WIDEST) -> bool:
    """Whether an array of a shape can be, whether or not there is memory for it.

    Zeros are left out: (2**62, 0) holds nothing, and yet numpy refuses it.
    """
    return math.prod(size for size in shape if size) * itemsize <= _MAX_BYTES


def read_extents(proto: TensorSliceProto, shape: Shape) -> tuple[Extents, Extents]:
    """The extents of a slice: as written (with WHOLE), and in numbers.

    Raises:
      BrokenFileError: they do not lie inside `shape`.
    """
    written: Extents = tuple(
        (extent.start, extent.length if extent.HasField("length") else WHOLE)
        for extent in proto.extent
    )
    numbers = tuple(
        (0, size) if length == WHOLE else (start, length)
        for (start, length), size in zip(written, shape, strict=False)
    )
    inside = len(written) == len(shape) and all(
        start >= 0 and 0 <= length <= size - start
        for (start, length), size in zip(numbers, shape, strict=True)
    )
    if not inside:
        raise BrokenFileError(
            "A slice does not lie inside its variable.",
            expected=f"extents inside {list(shape)}",
            received=[list(extent) for extent in written],
        )
    return written, numbers


def set_shape(proto: TensorShapeProto, shape: Shape) -> None:
    """Puts dimensions into an empty TensorShapeProto."""
    # A scalar's shape has no dimensions and yet has to be there.
    proto.SetInParent()
    for size in shape:
        proto.dim.add(size=size)


def add_extents(proto: TensorSliceProto, extents: Extents) -> None:
    """Puts extents into an empty TensorSliceProto; of a whole dimension nothing is written."""
    proto.SetInParent()
    for start, length in extents:
        extent = proto.extent.add()
        if length != WHOLE:
            extent.start, extent.length = start, length


def extents_shape(extents: Extents) -> Shape:
    """The shape of a slice."""
    return tuple(length for _, length in extents)


def check_tiling(shape: Shape, slices: Sequence[Extents]) -> None:
    """Refuses slices that do not fill `shape`, each element once.

    Raises:
      BrokenFileError: elements are missing or there twice.
    """
    declared = sum(math.prod(extents_shape(extents)) for extents in slices)
    if declared != math.prod(shape):
        raise BrokenFileError(
            "The slices do not fill the variable.",
            expected=f"{math.prod(shape)} elements",
            received=f"{declared} elements in {len(slices)} slices",
        )
    if not _tile_one_axis(shape, slices) and not _tile(shape, slices):
        raise BrokenFileError("The slices of the variable overlap and leave gaps.")


def _tile_one_axis(shape: Shape, slices: Sequence[Extents]) -> bool:
    """Whether the slices lie one behind the other along one axis, as partitioners make them."""
    for axis, size in enumerate(shape):
        end = 0
        for extents in sorted(slices, key=lambda extents: extents[axis]):
            others = all(
                extent == (0, whole)
                for other, (extent, whole) in enumerate(zip(extents, shape, strict=True))
                if other != axis
            )
            if not others or extents[axis][0] != end:
                break
            end += extents[axis][1]
        else:
            if end == size:
                return True
    return False


def _tile(shape: Shape, slices: Sequence[Extents]) -> bool:
    """Whether every element lies in a slice; one byte an element."""
    covered = np.zeros(shape, bool)
    for extents in slices:
        covered[as_index(extents)] = True
    return bool(covered.all())


def as_index(extents: Extents) -> tuple[slice, ...]:
    """The extents as an index into the whole array."""
    return tuple(slice(start, start + length) for start, length in extents)


def little_endian_bytes(array: Array) -> memoryview:
    """The values of a numeric array in C order, little-endian; copied only where they are not so."""
    flat = np.asarray(array, order="C").reshape(-1)
    if flat.dtype.byteorder == ">" or (sys.byteorder == "big" and flat.dtype.byteorder == "="):
        flat = swap_bytes(flat.view(np.uint8), flat.dtype)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")


def swap_bytes(data: npt.NDArray[np.uint8], dtype: np.dtype[np.generic]) -> npt.NDArray[np.uint8]:
    """A copy of the bytes of values of `dtype` in the other byte order, as a 1-D uint8 array."""
    # Through unsigned integers, since numpy cannot swap the dtypes of ml_dtypes.
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return data.view(f"u{size}").byteswap().view(np.uint8)


def from_little_endian(
    data: memoryview, dtype: np.dtype[np.generic], shape: Shape, big_endian: bool = False
) -> Array:
    """An array over bytes of a file: a read-only view where their place and order allow it."""
    if not len(data):
        return np.empty(shape, dtype)
    raw = np.frombuffer(data, np.uint8)
    if big_endian != (sys.byteorder == "big"):
        raw = swap_bytes(raw, dtype)
    array = raw.view(dtype)
    if not array.flags.aligned:
        # Compiled code that meets such an array reads wrongly or stops on some processors.
        array = array.copy()
    array.flags.writeable = False
    return array.reshape(shape)


def as_array(value: npt.ArrayLike, name: str) -> Array:
    """What is to be written under a name, as an array.

    Raises:
      UnsupportedError: it is none, or has more dimensions than MAX_RANK; names the variable.
    """
    try:
        array: Array = np.asarray(value)
    except ValueError as error:
        raise UnsupportedError(
            f"Variable {name} cannot be written: it is no array.",
            expected="an array, or rows of the same length",
            received=error,
        ) from error
    if array.ndim > MAX_RANK:
        raise UnsupportedError(
            f"Variable {name} cannot be written: it has too many dimensions.",
            expected=f"at most {MAX_RANK}",
            received=f"{array.ndim} dimensions",
            next_step="Reshape it.",
        )
    return array


def dtype_of(array: Array, name: str) -> dtypes.DType:
    """The dtype under which an array is written.

    Raises:
      UnsupportedError: TensorFlow has none for it; names the variable.
    """
    try:
        return dtypes.of_numpy(array.dtype)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"Variable {name} cannot be written: {error.message}",
            expected=error.expected,
            received=error.received,
        ) from error


def as_strings(array: Array, name: str) -> list[bytes]:
    """The values of a string variable in C order.

    Raises:
      UnsupportedError: one is neither bytes nor text.
    """
    values = []
    for value in array.reshape(-1).tolist():
        if isinstance(value, str):
            value = value.encode("utf-8")
        if not isinstance(value, bytes):
            raise UnsupportedError(
                f"Variable {name} holds objects that are no strings.",
                expected="bytes or text, or an array of numbers",
                received=type(value).__name__,
            )
        values.append(value)
    return values


def from_strings(values: list[bytes], shape: Shape) -> Array:
    """An object array of bytes; exact where a plain np.array call would make guesses."""
    array = np.empty(len(values), object)
    array[:] = values
    array.flags.writeable = False
    return array.reshape(shape)


def describe(name: str, dtype: dtypes.DType, shape: Shape) -> Variable:
    """The public record of a variable."""
    return Variable(name, dtype.numpy, dtype.name, shape)


def lower_first(message: str) -> str:
    """A message as the second half of a sentence."""
    return message[:1].lower() + message[1:]
