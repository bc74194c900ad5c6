"""Figures about a variable's values, taken in pieces so that memory stays flat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints.tensors import Array

_PIECE_ELEMENTS = 1 << 20
# Of this square the sum over any file stays below 2**1024.
_LARGEST_EXPONENT = 400

_INITIAL = {"moving_mean": 0.0, "moving_variance": 1.0}
_ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"


@dataclass(frozen=True)
class Statistics:
    """Figures about the values of one variable; of complex values about their magnitudes.

    Attributes:
      minimum: the smallest finite value, or None where there is none.
      maximum: the largest finite value, or None.
      mean: of the finite values, or None.
      standard_deviation: of the finite values (the root of the mean square deviation), or None.
      nan_count: how many values are not a number.
      infinite_count: how many values are plus or minus infinity.
    """

    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    standard_deviation: float | None
    nan_count: int
    infinite_count: int


def statistics_of(array: Array) -> Statistics | None:
    """Figures about an array of numbers; None for strings."""
    if array.dtype == object:
        return None
    flat = _as_numbers(array).reshape(-1)
    smallest: list[float | int] = []
    largest: list[float | int] = []
    count = nan_count = infinite_count = 0
    for piece in _pieces(flat):
        finite = piece[np.isfinite(piece)]
        nan_count += int(np.count_nonzero(np.isnan(piece)))
        infinite_count += int(np.count_nonzero(np.isinf(piece)))
        if finite.size:
            # As Python's numbers of the dtype's kind: an int64 does not fit a float64 exactly.
            smallest.append(finite.min().item())
            largest.append(finite.max().item())
            count += finite.size
    if not count:
        return Statistics(None, None, None, None, nan_count, infinite_count)
    unit = _unit(max(map(abs, (*smallest, *largest))))
    mean = sum(float(piece.sum()) for piece in _finite_pieces(flat, unit)) / count
    squares = math.fsum(
        float(np.square(piece - mean).sum()) for piece in _finite_pieces(flat, unit)
    )
    deviation = math.sqrt(squares / count)
    return Statistics(
        min(smallest), max(largest), mean * unit, deviation * unit, nan_count, infinite_count
    )


def _unit(largest: float) -> float:
    """What values are divided by so that their sum and squares are floats: a power of two, mostly 1."""
    _, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - 1) if abs(exponent) > _LARGEST_EXPONENT else 1.0


def _finite_pieces(flat: npt.NDArray[Any], unit: float) -> Iterator[npt.NDArray[np.float64]]:
    for piece in _pieces(flat):
        finite = piece[np.isfinite(piece)].astype(np.float64)
        yield finite if unit == 1.0 else finite / unit


def is_average(name: str) -> bool:
    """Whether a variable's name is one of a batch norm's moving averages."""
    return name.removesuffix(_ATTRIBUTE).rpartition("/")[2] in _INITIAL


def untouched_batch_norms(figures: Mapping[str, Statistics]) -> tuple[list[str], int]:
    """Batch norms whose averages never moved from where they began: mean 0, variance 1.

    Args:
      figures: of the variables, by name; those of other kinds are passed over.

    Returns:
      The scopes of these batch norms, and of how many the averages are there.
    """
    untouched: dict[str, bool] = {}
    for name, found in figures.items():
        scope, _, last = name.removesuffix(_ATTRIBUTE).rpartition("/")
        if last in _INITIAL:
            begin = found.minimum == found.maximum == _INITIAL[last]
            is_whole = not found.nan_count and not found.infinite_count
            untouched[scope] = untouched.get(scope, True) and begin and is_whole
    return [scope for scope, is_untouched in untouched.items() if is_untouched], len(untouched)


def _as_numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values themselves; those of a quantised dtype are the one field of a structure."""
    return array if array.dtype.names is None else array[array.dtype.names[0]]


def _pieces(flat: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Pieces of a 1-D array in a dtype that numpy calculates with."""
    for start in range(0, flat.size, _PIECE_ELEMENTS):
        piece = flat[start : start + _PIECE_ELEMENTS]
        if piece.dtype.kind == "c":
            yield np.abs(piece)
        elif piece.dtype.kind in "iuf" and piece.dtype.itemsize > 1:
            yield piece
        elif piece.dtype.kind in "biu":
            yield piece.astype(np.int64)
        else:
            yield piece.astype(np.float32)
