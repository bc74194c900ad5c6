"""How far two arrays differ, looked at piece by piece so that memory stays flat."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints.tensors import Array

_PIECE_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Figures:
    """How far two arrays of one shape differ.

    Attributes:
      num_elements: how many elements each has.
      num_different: how many pairs lie outside the tolerance.
      max_abs: the largest |a - b| of finite pairs, within the tolerance too; None where there
        is none, and of strings.
      max_rel: the largest |a - b| / |b| of finite pairs with b other than 0, likewise.
      num_nan: how many places hold NaN in one of the two only.
      num_infinite: how many places hold an infinity in one of the two only, or opposite ones.
      first: the index of the first pair outside the tolerance, counted in C order.
    """

    num_elements: int
    num_different: int
    max_abs: float | None = None
    max_rel: float | None = None
    num_nan: int = 0
    num_infinite: int = 0
    first: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The members of a JSON object."""
        return asdict(self)


def compare_strings(a: Sequence[bytes], b: Sequence[bytes]) -> Figures:
    """Counts where strings differ."""
    different = [index for index, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1]]
    return Figures(len(a), len(different), first=different[0] if different else None)


def compare_arrays(a: Array, b: Array, rtol: float = 0.0, atol: float = 0.0) -> Figures:
    """Compares numbers of one shape; the dtypes may differ.

    Two are the same where |a - b| <= atol + rtol * |b|; a NaN is the same as a NaN.
    """
    ours, theirs = _flat(a), _flat(b)
    num_different = num_nan = num_infinite = 0
    max_abs: float | None = None
    max_rel: float | None = None
    first: int | None = None
    for start in range(0, ours.size, _PIECE_ELEMENTS):
        x, y = _comparable(
            ours[start : start + _PIECE_ELEMENTS], theirs[start : start + _PIECE_ELEMENTS]
        )
        with np.errstate(all="ignore"):
            distance, size = _distance(x, y), np.abs(y).astype(np.float64)
            is_nan = np.isnan(x) ^ np.isnan(y)
            finite = np.isfinite(x) & np.isfinite(y)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            different = ~(same | (finite & (distance <= atol + rtol * size)))
            relative = _relative(x, y, distance)[finite & (size > 0)]
        num_nan += int(np.count_nonzero(is_nan))
        num_infinite += int(np.count_nonzero(~finite & ~is_nan & ~same))
        max_abs = _larger(max_abs, distance[finite])
        max_rel = _larger(max_rel, relative)
        if first is None and different.any():
            first = start + int(np.flatnonzero(different)[0])
        num_different += int(np.count_nonzero(different))
    return Figures(ours.size, num_different, max_abs, max_rel, num_nan, num_infinite, first)


def _flat(array: Array) -> npt.NDArray[Any]:
    """The numbers in C order; those of a quantised dtype are the one field of a structure."""
    numbers: npt.NDArray[Any] = array
    if numbers.dtype.names is not None:
        numbers = numbers[numbers.dtype.names[0]]
    return np.asarray(numbers, order="C").reshape(-1)


def _comparable(
    x: npt.NDArray[Any], y: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Both in one dtype that numpy calculates with and that holds either exactly, if there is one."""
    x, y = _as_numpys(x), _as_numpys(y)
    if x.dtype == y.dtype and x.dtype.kind in "iu":
        return x, y
    wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    return x.astype(wide), y.astype(wide)


def _as_numpys(piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if piece.dtype.kind == "b":
        return piece.astype(np.uint8)
    # Of ml_dtypes' dtypes float32 holds every value.
    return piece.astype(np.float32) if piece.dtype.isbuiltin != 1 else piece


def _distance(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """|x - y|; of integers exact until the last step, also across the whole range."""
    if x.dtype.kind not in "iu":
        distance: npt.NDArray[np.float64] = np.abs(x - y)
        return distance
    larger, smaller = np.maximum(x, y), np.minimum(x, y)
    exact: npt.NDArray[np.uint64] = larger.astype(np.uint64) - smaller.astype(np.uint64)
    return exact.astype(np.float64)


def _relative(
    x: npt.NDArray[Any], y: npt.NDArray[Any], distance: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """|x - y| / |y|, also where the distance is more than a float64 can say."""
    size = np.abs(y).astype(np.float64)
    relative: npt.NDArray[np.float64] = distance / size
    over = np.isinf(distance)
    relative[over] = np.abs(x[over] / 2 - y[over] / 2) / size[over] * 2
    return relative


def _larger(known: float | None, values: npt.NDArray[np.float64]) -> float | None:
    if not values.size:
        return known
    # They may lie farther apart than a float64 can say, and JSON has no infinity.
    largest = min(float(values.max()), sys.float_info.max)
    return largest if known is None else max(known, largest)
