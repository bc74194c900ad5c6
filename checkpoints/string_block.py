"""How a V2 checkpoint keeps a tensor of strings: lengths, their checksum, bytes.

All lengths stand first, as varints. Behind them stands the masked CRC-32C of the lengths taken
as uint32 each (uint64 where one does not fit), then all the bytes. The checksum of the whole
covers the lengths as integers, that first checksum, and the bytes.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from checkpoints.checksum import crc32c, mask
from checkpoints.errors import BrokenFileError
from checkpoints.wire import MAX_VARINT_BYTES, decode_varints, encode_varints

_LARGEST_UINT32 = 0xFFFFFFFF
_CHECKSUM_BYTES = 4


def encode_strings(values: list[bytes]) -> tuple[list[bytes], int]:
    """The pieces of the block, and the unmasked checksum of the whole."""
    lengths = np.array([len(value) for value in values], np.uint64)
    crc = crc32c(_as_integers(lengths, big_endian=False))
    stored = mask(crc).to_bytes(_CHECKSUM_BYTES, "little")
    crc = crc32c(stored, crc)
    for value in values:
        crc = crc32c(value, crc)
    return [encode_varints(lengths), stored, *values], crc


def decode_strings(
    data: memoryview, count: int, expected_crc: int | None, big_endian: bool
) -> list[bytes]:
    """The strings of a block.

    Args:
      data: the whole block; nothing at all where there are no strings.
      count: how many strings.
      expected_crc: the unmasked checksum of the whole, or None not to compare.
      big_endian: the byte order of the first checksum and of the lengths under it.

    Raises:
      BrokenFileError: lengths and block do not fit, or a checksum does not match.
    """
    if not len(data) and not count:
        return []
    # How many bytes the lengths take shows only when they are read.
    head = np.frombuffer(data[: count * MAX_VARINT_BYTES], np.uint8)
    ends = np.flatnonzero(head < 0x80)[:count]
    lengths_end = int(ends[-1]) + 1 if ends.size else 0
    lengths = decode_varints(data[:lengths_end])
    start = lengths_end + _CHECKSUM_BYTES
    sizes = lengths.tolist()
    if len(sizes) != count or start + sum(sizes) != len(data):
        raise BrokenFileError("The lengths of the strings do not add up.")
    if expected_crc is not None:
        crc = crc32c(_as_integers(lengths, big_endian))
        stored = bytes(data[lengths_end:start])
        fits = int.from_bytes(stored, "big" if big_endian else "little") == mask(crc)
        if not fits or crc32c(data[start:], crc32c(stored, crc)) != expected_crc:
            raise BrokenFileError("The checksum does not match the bytes.")
    places = itertools.accumulate(sizes, initial=start)
    return [bytes(data[place : place + size]) for place, size in zip(places, sizes, strict=False)]


def _as_integers(lengths: npt.NDArray[np.uint64], big_endian: bool) -> bytes:
    """The lengths as the checksum covers them."""
    order = ">" if big_endian else "<"
    if not lengths.size or int(lengths.max()) <= _LARGEST_UINT32:
        return lengths.astype(f"{order}u4").tobytes()
    return b"".join(
        length.astype(f"{order}u4" if length <= _LARGEST_UINT32 else f"{order}u8").tobytes()
        for length in lengths
    )
