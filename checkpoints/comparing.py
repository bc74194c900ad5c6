"""Two checkpoints compared: `checkpoints.diff`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from checkpoints import api
from checkpoints.differences import Figures, compare_arrays, compare_strings
from checkpoints.errors import CheckpointError, UsageError
from checkpoints.family import Family
from checkpoints.mapped import Pages
from checkpoints.mapping import SavedVariables, as_key
from checkpoints.progress import SILENT, Progress
from checkpoints.tensors import Variable, as_strings
from checkpoints.verified import same_bytes

Verdict: TypeAlias = Literal["values", "nan", "swapped", "unreadable"]
Openable: TypeAlias = str | os.PathLike[str] | Family | SavedVariables


@dataclass(frozen=True)
class HeaderDifference:
    """A variable that is there twice with another dtype or shape.

    Attributes:
      name: of the variable.
      a: dtype and shape in A.
      b: dtype and shape in B.
      figures: how far the values differ where the shapes are the same and both hold numbers.
    """

    name: str
    a: Variable
    b: Variable
    figures: Figures | None = None

    def as_json(self) -> dict[str, Any]:
        """The object in the list `different_headers`."""
        figures = {} if self.figures is None else self.figures.as_json()
        return {
            "name": self.name,
            "dtype": [self.a.dtype_name, self.b.dtype_name],
            "shape": [list(self.a.shape), list(self.b.shape)],
            **figures,
        }


@dataclass(frozen=True)
class ValueDifference:
    """A variable that is there twice with other values.

    Attributes:
      name: of the variable.
      verdict: "nan" where NaNs stand at other places, "swapped" where it and another variable
        exchanged their values, "unreadable" where A or B is damaged, else "values".
      figures: how far the values differ; None where they cannot be read.
      swapped_with: the variable whose values in A it has in B, and the other way round.
      detail: why it cannot be read.
    """

    name: str
    verdict: Verdict
    figures: Figures | None = None
    swapped_with: str | None = None
    detail: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The object in the list `different_values`."""
        figures = {} if self.figures is None else self.figures.as_json()
        more = {"swapped_with": self.swapped_with, "detail": self.detail}
        found = {key: value for key, value in more.items() if value is not None}
        return {"name": self.name, "verdict": self.verdict, **figures, **found}


@dataclass(frozen=True)
class Difference:
    """What differs between two checkpoints A and B.

    Attributes:
      a: the path of A.
      b: the path of B.
      only_in_a: variables that B lacks.
      only_in_b: variables that A lacks.
      headers: variables with other dtypes or shapes.
      values: variables with other values.
      num_same: how many variables are the same.
    """

    a: str
    b: str
    only_in_a: tuple[Variable, ...]
    only_in_b: tuple[Variable, ...]
    headers: tuple[HeaderDifference, ...]
    values: tuple[ValueDifference, ...]
    num_same: int

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.only_in_a or self.only_in_b or self.headers or self.values)

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.is_equal,
            "same": self.num_same,
            "only_in_a": [_as_json(variable) for variable in self.only_in_a],
            "only_in_b": [_as_json(variable) for variable in self.only_in_b],
            "different_headers": [difference.as_json() for difference in self.headers],
            "different_values": [difference.as_json() for difference in self.values],
        }


def refuse_tolerances(rtol: float, atol: float) -> None:
    """Raises UsageError where a tolerance is negative or no number."""
    if not (rtol >= 0 and atol >= 0):
        raise UsageError(
            "A tolerance is a number from 0 on.",
            received=f"rtol {rtol}, atol {atol}",
            next_step="--rtol 1e-5 --atol 1e-8, or leave them out for what is the same to the bit.",
        )


def diff(
    a: Openable,
    b: Openable,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Progress = SILENT,
) -> Difference:
    """Compares two checkpoints in any forms, variable by variable; memory stays flat.

    Two numbers are the same where |a - b| <= atol + rtol * |b|, as numpy.isclose has it; a NaN
    is the same as a NaN, 0 as -0, an infinity as itself.

    Args:
      a: a checkpoint in any spelling, or an open one.
      b: another.
      rtol: relative tolerance.
      atol: absolute tolerance.
      progress: told how far it is.

    Raises:
      NotFoundError: a checkpoint is not there.
      UnsupportedError: a file is no checkpoint.
      CheckpointError: an index is broken. (Broken values are differences.)
      UsageError: a tolerance is negative or no number.
    """
    refuse_tolerances(rtol, atol)
    with _opened(a) as first, _opened(b) as second:
        common = [name for name in first.variables if name in second.variables]
        headers: list[HeaderDifference] = []
        values: list[ValueDifference] = []
        pages = Pages()
        with progress.task("Comparing", len(common), "variables") as task:
            for name in sorted(common, key=as_key):
                ours, theirs = first.variables[name], second.variables[name]
                if (ours.dtype_name, ours.shape) != (theirs.dtype_name, theirs.shape):
                    figures = _header_figures(first, second, name, rtol, atol)
                    headers.append(HeaderDifference(name, ours, theirs, figures))
                else:
                    found = _value_difference(first, second, name, rtol, atol, pages)
                    values += [] if found is None else [found]
                pages.passed(2 * ours.num_elements * ours.dtype.itemsize)
                task.advance()
        num_same = len(common) - len(headers) - len(values)
        values = _with_swaps(first, second, values)
        values += [
            ValueDifference(name, "unreadable", detail=error.message)
            for name, error in {**second.unreadable, **first.unreadable}.items()
        ]
        return Difference(
            first.label,
            second.label,
            _missing(first, second),
            _missing(second, first),
            tuple(headers),
            tuple(values),
            num_same,
        )


def _opened(given: Openable) -> AbstractContextManager[SavedVariables]:
    if isinstance(given, SavedVariables):
        return nullcontext(given)
    opened: AbstractContextManager[SavedVariables] = api.open(given)
    return opened


def _missing(there: SavedVariables, elsewhere: SavedVariables) -> tuple[Variable, ...]:
    known = {*elsewhere.variables, *elsewhere.unreadable}
    names = (name for name in there.variables if name not in known)
    return tuple(there.variables[name] for name in sorted(names, key=as_key))


def _value_difference(
    first: SavedVariables,
    second: SavedVariables,
    name: str,
    rtol: float,
    atol: float,
    pages: Pages,
) -> ValueDifference | None:
    """How two variables of one dtype and shape differ; None where they do not."""
    try:
        if first.variables[name].dtype_name == "string":
            figures = compare_strings(as_strings(first[name], name), as_strings(second[name], name))
        elif same_bytes(first.bytes_of(name), second.bytes_of(name), pages):
            return None
        else:
            figures = compare_arrays(first[name], second[name], rtol, atol)
    except CheckpointError as error:
        return ValueDifference(name, "unreadable", detail=error.message)
    if not figures.num_different:
        return None
    return ValueDifference(name, "nan" if figures.num_nan else "values", figures)


def _header_figures(
    first: SavedVariables, second: SavedVariables, name: str, rtol: float, atol: float
) -> Figures | None:
    ours, theirs = first.variables[name], second.variables[name]
    if ours.shape != theirs.shape or "string" in (ours.dtype_name, theirs.dtype_name):
        return None
    try:
        return compare_arrays(first[name], second[name], rtol, atol)
    except CheckpointError:
        return None


def _with_swaps(
    first: SavedVariables, second: SavedVariables, values: list[ValueDifference]
) -> list[ValueDifference]:
    """Finds pairs of variables that exchanged their values."""
    shapes: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for difference in values:
        variable = first.variables[difference.name]
        if difference.verdict != "unreadable":
            shapes.setdefault((variable.dtype_name, variable.shape), []).append(variable.name)
    partners: dict[str, str] = {}
    for names in shapes.values():
        if len(names) > 1:
            partners.update(_exchanged(_digests(first, names), _digests(second, names)))
    return [
        replace(difference, verdict="swapped", swapped_with=partners[difference.name])
        if difference.name in partners
        else difference
        for difference in values
    ]


def _exchanged(ours: dict[str, bytes], theirs: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Both ways: x, y where y's values in A are x's in B, and x's in A are y's in B."""
    by_digest: dict[bytes, list[str]] = {}
    for name, digest in ours.items():
        by_digest.setdefault(digest, []).append(name)
    taken: set[str] = set()
    for name, digest in ours.items():
        for other in by_digest.get(theirs[name], ()):
            if theirs[other] == digest and name not in taken and other not in taken:
                taken |= {name, other}
                yield name, other
                yield other, name


def _digests(saved: SavedVariables, names: Iterable[str]) -> dict[str, bytes]:
    digests = {}
    for name in names:
        hashed = hashlib.blake2b(digest_size=16)
        if saved.variables[name].dtype_name == "string":
            for value in as_strings(saved[name], name):
                hashed.update(len(value).to_bytes(8, "little") + value)
        else:
            hashed.update(saved.bytes_of(name))
        digests[name] = hashed.digest()
    return digests


def _as_json(variable: Variable) -> dict[str, Any]:
    return {"name": variable.name, "dtype": variable.dtype_name, "shape": list(variable.shape)}
