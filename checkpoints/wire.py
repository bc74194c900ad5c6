"""Protobuf's wire format: fields found and written without building a message.

A message of 100 MB is scanned for the place of its numbers instead of being parsed, and
numbers are decoded by numpy from where they lie.

Source:
  https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from checkpoints.errors import BrokenFileError

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
"""The wire types; groups (3 and 4) are as good as extinct and refused."""

MAX_VARINT_BYTES = 10
_CHUNK_BYTES = 1 << 22


class Field(NamedTuple):
    """One field of a message, found by `scan`.

    Attributes:
      number: the field's number.
      wire_type: VARINT, FIXED64, LENGTH_DELIMITED or FIXED32.
      start: where its value begins in the buffer (after a length).
      end: where its value ends.
      value: the value of a varint, unsigned; 0 for the others.
    """

    number: int
    wire_type: int
    start: int
    end: int
    value: int


def read_varint(buffer: bytes | memoryview, offset: int, end: int) -> tuple[int, int]:
    """Reads one varint.

    Args:
      buffer: the bytes.
      offset: where the varint begins.
      end: where the message ends; nothing is read from there on.

    Returns:
      The value, 0 to 2**64 - 1, and the offset behind it.

    Raises:
      BrokenFileError: it does not end before `end`, or is longer than 64 bits.
    """
    value = 0
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        if offset >= end:
            raise BrokenFileError(f"A number is cut off at byte {offset}.")
        byte = buffer[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, offset
    raise BrokenFileError(f"A number that ends at byte {offset} has more than 64 bits.")


def scan(buffer: bytes | memoryview, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message that lies in buffer[start:end], in the order they stand there.

    Raises:
      BrokenFileError: a field reaches beyond the message, or is of no known wire type.
    """
    limit = len(buffer) if end is None else end
    offset = start
    while offset < limit:
        tag, offset = read_varint(buffer, offset, limit)
        number, wire_type = tag >> 3, tag & 7
        value = 0
        if wire_type == LENGTH_DELIMITED:
            length, offset = read_varint(buffer, offset, limit)
            stop = offset + length
        elif wire_type == VARINT:
            value, stop = read_varint(buffer, offset, limit)
        elif wire_type == FIXED32:
            stop = offset + 4
        elif wire_type == FIXED64:
            stop = offset + 8
        else:
            raise BrokenFileError(f"Field {number} at byte {offset} has wire type {wire_type}.")
        if stop > limit or number == 0:
            raise BrokenFileError(
                f"Field {number} at byte {offset} does not fit its message.",
                expected=f"an end at or before byte {limit}",
                received=stop,
            )
        yield Field(number, wire_type, offset, stop, value)
        offset = stop


def encode_varint(value: int) -> bytes:
    """One varint; `value` is 0 to 2**64 - 1, or a negative 64-bit number as its two's complement."""
    if value < 0:
        value += 1 << 64
    encoded = bytearray()
    while value >= 0x80:
        encoded.append((value & 0x7F) | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_tag(number: int, wire_type: int) -> bytes:
    """What stands before a field's value."""
    return encode_varint(number << 3 | wire_type)


def encode_header(number: int, num_bytes: int) -> bytes:
    """Tag and length of a length-delimited field whose `num_bytes` bytes follow."""
    return encode_tag(number, LENGTH_DELIMITED) + encode_varint(num_bytes)


def count_varints(packed: bytes | memoryview) -> int:
    """How many varints a packed field holds."""
    return int(np.count_nonzero(_as_array(packed) < 0x80))


def decode_varints(
    packed: bytes | memoryview, dtype: npt.DTypeLike = np.uint64
) -> npt.NDArray[Any]:
    """All varints of a packed field.

    Args:
      packed: the varints, one behind the other.
      dtype: of the numbers: any integers; negative ones stand there as 64-bit two's complement.

    Returns:
      A 1-D array.

    Raises:
      BrokenFileError: the last one is cut off, one is longer than 64 bits, or a number lies
        outside the range of the dtype.
    """
    data = _as_array(packed)
    if data.size and data[-1] >= 0x80:
        raise BrokenFileError("The last of a row of packed numbers is cut off.")
    values = np.empty(count_varints(packed), dtype)
    done = start = 0
    # In chunks, since on the way a number takes many times the room of its byte.
    while start < data.size:
        ends = np.flatnonzero(data[start : start + _CHUNK_BYTES] < 0x80)
        if not ends.size:
            raise BrokenFileError("A packed number has more than 64 bits.")
        stop = start + int(ends[-1]) + 1
        chunk = _decode_chunk(data[start:stop], ends)
        converted = chunk.astype(dtype)
        if (converted.astype(np.int64).view(np.uint64) != chunk).any():
            raise BrokenFileError(f"A packed number lies outside the range of {values.dtype}.")
        values[done : done + ends.size] = converted
        done += ends.size
        start = stop
    return values


def _decode_chunk(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp]
) -> npt.NDArray[np.uint64]:
    """Varints that fill `data`, whose last bytes stand at `ends`."""
    if ends.size == data.size:
        return data.astype(np.uint64)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts + 1
    longest = int(lengths.max())
    too_long = longest > MAX_VARINT_BYTES or (
        longest == MAX_VARINT_BYTES and bool((data[ends[lengths == longest]] > 1).any())
    )
    if too_long:
        raise BrokenFileError("A packed number has more than 64 bits.")
    values = (data[starts] & 0x7F).astype(np.uint64)
    for index in range(1, longest):
        longer = np.flatnonzero(lengths > index)
        part = (data[starts[longer] + index] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * index)
    return values


def encode_varints(values: npt.NDArray[Any]) -> bytes:
    """The packed varints of a 1-D array of integers, negative ones as 64-bit two's complement."""
    rows = _CHUNK_BYTES // MAX_VARINT_BYTES
    return b"".join(
        _encode_chunk(values[start : start + rows].astype(np.int64).view(np.uint64))
        for start in range(0, values.size, rows)
    )


def _encode_chunk(values: npt.NDArray[np.uint64]) -> bytes:
    if int(values.max()) < 0x80:
        return values.astype(np.uint8).tobytes()
    shifts = np.arange(0, 7 * MAX_VARINT_BYTES, 7, dtype=np.uint64)
    rest = values[:, np.newaxis] >> shifts
    more = rest >= 0x80
    encoded = (rest & np.uint64(0x7F)).astype(np.uint8)
    encoded[more] |= 0x80
    used = np.empty(more.shape, bool)
    used[:, 0] = True
    used[:, 1:] = more[:, :-1]
    return encoded[used].tobytes()


def _as_array(packed: bytes | memoryview) -> npt.NDArray[np.uint8]:
    # numpy's frombuffer refuses buffers of no bytes.
    return np.frombuffer(packed, np.uint8) if len(packed) else np.empty(0, np.uint8)
