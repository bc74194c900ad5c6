"""CRC-32C as TensorFlow's files store it, and the SHA-256 of files.

Source:
  Castagnoli et al. 1993 (polynomial 0x1EDC6F41); the masking is LevelDB's, made so that the
  checksum of data that holds checksums is not weak.
"""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import numpy as np

_MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """The unmasked checksum of contiguous bytes, continued from `crc`; nothing is copied."""
    if not len(data):
        return crc
    # The C function takes arrays as they are and refuses a memoryview of a memory map.
    result: int = google_crc32c.extend(crc, np.frombuffer(data, np.uint8))
    return result


def mask(crc: int) -> int:
    """What a file stores for a checksum."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(stored: int) -> int:
    """The checksum that a file's stored value stands for."""
    rotated = (stored - _MASK_DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    import hashlib  # takes its time, and whatever reads a checkpoint loads this module

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
