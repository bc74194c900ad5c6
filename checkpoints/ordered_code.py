"""Keys whose byte order is the order of what they hold: a tensor's name and a slice of it.

A key is the number 0, the name, the rank, then start and length of every dimension; a
dimension that is taken whole has start 0 and length -1.

Source:
  TensorFlow's tensorflow/core/lib/strings/ordered_code.h and saved_tensor_slice_util.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from checkpoints.errors import BrokenFileError

WHOLE = -1
"""The length that means "all of this dimension"."""

_ZERO, _FULL, _TERMINATOR = b"\x00", b"\xff", b"\x00\x01"
_ESCAPES = {_ZERO: b"\x00\xff", _FULL: b"\xff\x00"}


def encode_slice_key(name: bytes, extents: Sequence[tuple[int, int]]) -> bytes:
    """The key of one slice of a tensor.

    Args:
      name: the tensor's name.
      extents: start and length in every dimension; (0, WHOLE) for all of it.
    """
    parts = [encode_number(0), encode_bytes(name), encode_number(len(extents))]
    for start, length in extents:
        parts += [encode_signed(start), encode_signed(length)]
    return b"".join(parts)


def decode_slice_key(key: bytes) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The name and the extents that a key holds.

    Raises:
      BrokenFileError: it is no such key.
    """
    zero, offset = decode_number(key, 0)
    name, offset = decode_bytes(key, offset)
    rank, offset = decode_number(key, offset)
    extents = []
    for _ in range(min(rank, len(key))):
        start, offset = decode_signed(key, offset)
        length, offset = decode_signed(key, offset)
        extents.append((start, length))
    if zero != 0 or len(extents) != rank or offset != len(key):
        raise BrokenFileError(f"{key!r} is no key of a tensor's slice.")
    return name, tuple(extents)


def encode_number(value: int) -> bytes:
    """A number from 0 on: how many bytes, then these, the highest first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def decode_number(key: bytes, offset: int) -> tuple[int, int]:
    """The number at `offset`, and the offset behind it."""
    size = key[offset] if offset < len(key) else len(key)
    end = offset + 1 + size
    if size > 8 or end > len(key):
        raise BrokenFileError(f"A number in the key {key!r} is cut off at byte {offset}.")
    return int.from_bytes(key[offset + 1 : end], "big"), end


def encode_bytes(value: bytes) -> bytes:
    """Bytes, 0x00 and 0xff escaped, ended by 0x00 0x01."""
    escaped = re.sub(rb"[\x00\xff]", lambda found: _ESCAPES[found[0]], value)
    return escaped + _TERMINATOR


def decode_bytes(key: bytes, offset: int) -> tuple[bytes, int]:
    """The bytes at `offset`, and the offset behind them."""
    value = bytearray()
    while offset < len(key):
        byte = key[offset : offset + 1]
        if byte not in (_ZERO, _FULL):
            value += byte
            offset += 1
            continue
        pair = key[offset : offset + 2]
        offset += 2
        if pair == _TERMINATOR:
            return bytes(value), offset
        if pair != _ESCAPES[byte]:
            break
        value += byte
    raise BrokenFileError(f"The name in the key {key!r} does not end.")


def encode_signed(value: int) -> bytes:
    """A 64-bit number, 7 bits a byte; leading bits say the sign and how many bytes follow."""
    magnitude = ~value if value < 0 else value
    size = magnitude.bit_length() // 7 + 1
    # `size` leading ones, a zero, then the number; a negative one is that with all bits turned.
    header = ((1 << size) - 1) << (7 * size)
    bits = magnitude | header
    if value < 0:
        bits ^= (1 << (8 * size)) - 1
    return bits.to_bytes(size, "big")


def decode_signed(key: bytes, offset: int) -> tuple[int, int]:
    """The signed number at `offset`, and the offset behind it."""
    first_two = int.from_bytes(key[offset : offset + 2].ljust(2, _ZERO), "big")
    negative = not first_two & 0x8000
    if negative:
        first_two ^= 0xFFFF
    size = 16 - (first_two ^ 0xFFFF).bit_length()
    end = offset + size
    if not 1 <= size <= 10 or end > len(key):
        raise BrokenFileError(f"A number in the key {key!r} is cut off at byte {offset}.")
    bits = int.from_bytes(key[offset:end], "big")
    if negative:
        bits ^= (1 << (8 * size)) - 1
    value = bits & ((1 << (7 * size)) - 1)
    return (~value if negative else value), end
