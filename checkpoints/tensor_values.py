"""The numbers and strings of a TensorProto that has nothing else, as V1 checkpoints keep them.

Each dtype has its own repeated field. Floating-point fields hold little-endian numbers, complex
ones the real and the imaginary part of each; integer fields hold varints, negative numbers as
64-bit two's complement; half_val holds the 16 bits of a half or bfloat16.

Source:
  TensorFlow's tensorflow/core/framework/tensor.proto.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import BrokenFileError
from checkpoints.tensors import Array, Shape, from_little_endian, little_endian_bytes
from checkpoints.wire import (
    FIXED32,
    FIXED64,
    LENGTH_DELIMITED,
    VARINT,
    count_varints,
    decode_varints,
    encode_header,
    encode_varints,
    scan,
)

_STRING_FIELD = 8


class _Coding(NamedTuple):
    """How a dtype's values are kept.

    Attributes:
      field: the number of the field in TensorProto.
      wire_type: of one value by itself: FIXED32, FIXED64, VARINT; LENGTH_DELIMITED for bytes.
      bits: the integer dtype that a varint's bits stand for, or "" for floating-point fields.
    """

    field: int
    wire_type: int
    bits: str = ""


_CODINGS = {
    "float32": _Coding(5, FIXED32),
    "float64": _Coding(6, FIXED64),
    "complex64": _Coding(9, FIXED32),
    "complex128": _Coding(12, FIXED64),
    "int64": _Coding(10, VARINT, "int64"),
    "bool": _Coding(11, VARINT, "uint8"),
    "float16": _Coding(13, VARINT, "uint16"),
    "bfloat16": _Coding(13, VARINT, "uint16"),
    "uint32": _Coding(16, VARINT, "uint32"),
    "uint64": _Coding(17, VARINT, "uint64"),
    **{
        name: _Coding(7, VARINT, bits)
        for name, bits in {
            "int32": "int32",
            "uint8": "uint8",
            "int16": "int16",
            "int8": "int8",
            "uint16": "uint16",
            "qint8": "int8",
            "quint8": "uint8",
            "qint32": "int32",
            "qint16": "int16",
            "quint16": "uint16",
            "int4": "int8",
            "uint4": "uint8",
            "int2": "int8",
            "uint2": "uint8",
        }.items()
    },
    **{
        name: _Coding(18, LENGTH_DELIMITED)
        for name in (
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e4m3b11fnuz",
            "float8_e5m2fnuz",
            "float4_e2m1fn",
        )
    },
}
# These are a byte each in memory, of which not all bits count.
_SMALL = {"int4", "uint4", "int2", "uint2"}


def raw_values(proto: memoryview, dtype: dtypes.DType, shape: Shape) -> memoryview | None:
    """The little-endian bytes of the numbers as they lie in the message.

    Returns:
      None where the message does not hold them in one piece or holds varints.

    Raises:
      BrokenFileError: the message is broken or holds another number of values.
    """
    coding = _CODINGS[dtype.name]
    if coding.wire_type == VARINT:
        return None
    pieces = _pieces(proto, coding)
    _check_count(sum(map(len, pieces)), math.prod(shape) * dtype.numpy.itemsize, "bytes")
    return pieces[0] if len(pieces) == 1 else None


def read_values(proto: memoryview, dtype: dtypes.DType, shape: Shape) -> Array:
    """The numbers of a message, as a read-only array; a view of the message where it can be.

    Raises:
      BrokenFileError: the message is broken, or holds another number of values, or one that the
        dtype does not have.
    """
    coding = _CODINGS[dtype.name]
    pieces = _pieces(proto, coding)
    data = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
    if coding.wire_type != VARINT:
        _check_count(len(data), math.prod(shape) * dtype.numpy.itemsize, "bytes")
        return from_little_endian(data, dtype.numpy, shape)
    _check_count(count_varints(data), math.prod(shape), "values")
    values = decode_varints(data, coding.bits)
    array = values.astype(dtype.numpy) if dtype.name in _SMALL else values.view(dtype.numpy)
    array.flags.writeable = False
    return array.reshape(shape)


def read_string_values(proto: memoryview, shape: Shape) -> list[bytes]:
    """The strings of a message, in C order.

    Raises:
      BrokenFileError: the message is broken or holds another number of strings.
    """
    values = [
        bytes(proto[field.start : field.end])
        for field in scan(proto)
        if field.number == _STRING_FIELD and field.wire_type == LENGTH_DELIMITED
    ]
    _check_count(len(values), math.prod(shape), "strings")
    return values


def encode_values(array: Array, dtype: dtypes.DType) -> list[bytes | memoryview]:
    """A message that holds the numbers of an array and nothing else, in pieces."""
    if not array.size:
        return []
    coding = _CODINGS[dtype.name]
    values: bytes | memoryview
    if coding.wire_type == VARINT:
        if dtype.name in _SMALL:
            numbers = array.astype(coding.bits).reshape(-1)
        else:
            numbers = np.asarray(array, dtype.numpy, order="C").reshape(-1).view(coding.bits)
        values = encode_varints(numbers)
    else:
        values = little_endian_bytes(array)
    return [encode_header(coding.field, len(values)), values]


def encode_string_values(values: list[bytes]) -> list[bytes | memoryview]:
    """A message that holds strings and nothing else, in pieces."""
    pieces: list[bytes | memoryview] = []
    for value in values:
        pieces += [encode_header(_STRING_FIELD, len(value)), value]
    return pieces


def _pieces(proto: memoryview, coding: _Coding) -> list[memoryview]:
    """The bytes of one field, packed or value by value."""
    pieces = []
    for field in scan(proto):
        if field.number == coding.field:
            if field.wire_type not in (coding.wire_type, LENGTH_DELIMITED):
                raise BrokenFileError(f"The values have wire type {field.wire_type}.")
            pieces.append(proto[field.start : field.end])
    return pieces


def _check_count(found: int, expected: int, unit: str) -> None:
    if found != expected:
        raise BrokenFileError(
            "The number of values does not fit the shape.",
            expected=f"{expected} {unit}",
            received=f"{found} {unit}",
        )
