"""Touches every byte of arrays, cheaply, and gives a number that tells whether two readers saw the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def word_sum(arrays: Iterable[Any]) -> int:
    """The sum of the arrays' bytes read as 64-bit words, modulo 2^64; the order does not count.

    Args:
      arrays: numpy arrays of any shape and of a dtype of fixed size; the bytes that fill no
        whole word are added one by one.
    """
    import numpy as np

    total = 0
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = data.size // 8 * 8
        total += int(data[:whole].view(np.uint64).sum(dtype=np.uint64))
        total += int(data[whole:].sum(dtype=np.uint64))
    return total % 2**64


def read_with_slimtune(checkpoint: str) -> Callable[[], int]:
    """The step: opens the checkpoint, reads all variables, returns the sum of their words."""
    import checkpoints

    def step() -> int:
        with checkpoints.open(checkpoint) as saved:
            return word_sum(saved.values())

    return step
