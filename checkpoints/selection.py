"""Which variables of a checkpoint are taken, under which names and in which dtype; done lazily."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import NotFoundError, PlanError, UsageError, counted, listed, near_names
from checkpoints.mapping import SavedVariables, refuse_unreadable
from checkpoints.names import Role, averaged_names
from checkpoints.progress import SILENT, Progress
from checkpoints.renaming import parse_renaming
from checkpoints.tensors import Array, Variable, describe

Weights: TypeAlias = Literal["auto", "raw", "ema"]
Part: TypeAlias = Literal["slots", "ema", "step"]

PARTS: Mapping[str, Role] = {"slots": "slot", "ema": "ema", "step": "step"}
"""What may be dropped -> the role of such variables."""

DTYPES = ("float16", "bfloat16", "float32")
"""What float variables may become."""

_FLOATS = re.compile(r"b?float\d.*")


@dataclass(frozen=True)
class Selection:
    """What is taken of a checkpoint. It is done in the order of the attributes, dtype last.

    Attributes:
      weights: "ema" gives a variable x the values of x/ExponentialMovingAverage, which is then
        not there under its own name; "raw" leaves both as they are, and so does "auto", which
        says so where there are averages.
      drop: "slots" (the optimiser's variables), "ema" (averages), "step".
      include: regular expressions; only variables whose names one of them matches somewhere.
      exclude: regular expressions; no variables whose names one of them matches somewhere.
      rename: substitutions as in sed, 's|OLD|NEW|', one after the other.
      dtype: what all float variables become, batch-norm averages too; None leaves them.
    """

    weights: Weights = "auto"
    drop: Sequence[str] = ()
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    rename: Sequence[str] = ()
    dtype: str | None = None

    @property
    def changes(self) -> bool:
        """Whether anything but the choice of weights was asked for."""
        return bool(self.drop or self.include or self.exclude or self.rename or self.dtype)


class SelectedVariables(SavedVariables):
    """Variables of a checkpoint, some of them, renamed or cast; each is read when asked for.

    Attributes:
      overflows: name -> how many values became infinite when they were cast, of the variables
        read so far.
    """

    def __init__(
        self,
        saved: SavedVariables,
        sources: Mapping[str, str],
        variables: Mapping[str, Variable],
        is_averaged: bool,
    ) -> None:
        """Made by `select`.

        Args:
          saved: where values come from.
          sources: name here -> name there.
          variables: name, dtype and shape, by name here.
          is_averaged: whether averages stand for their variables.
        """
        self._saved = saved
        self._sources = sources
        self._is_averaged = is_averaged
        self.variables = variables
        self.label = saved.label
        self.metadata = saved.metadata
        self.overflows: dict[str, int] = {}

    def __getitem__(self, name: str) -> Array:
        array = self._saved[self._sources.get(name, name)]
        wanted = self.variables[name].dtype
        if array.dtype == wanted:
            return array
        with np.errstate(all="ignore"):
            cast = array.astype(wanted)
        overflows = int(np.count_nonzero(np.isinf(cast) & np.isfinite(array)))
        if overflows:
            self.overflows[name] = overflows
        cast.flags.writeable = False
        return cast

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian; uncopied where possible."""
        source = self._sources.get(name, name)
        if self._saved.variables[source].dtype == self.variables[name].dtype:
            return self._saved.bytes_of(source)
        return super().bytes_of(name)

    def role(self, name: str) -> Role:
        """What a variable is for, where it comes from; of an average under its variable's name, that."""
        source = self._sources[name]
        if self._is_averaged and self._saved.role(source) == "ema":
            source = source.rpartition("/")[0]
        return self._saved.role(source)

    def source_of(self, name: str) -> str:
        """The name of a variable where it comes from."""
        return self._sources[name]


def select(
    saved: SavedVariables, selection: Selection | None = None, *, progress: Progress = SILENT
) -> SelectedVariables:
    """Variables of a checkpoint, selected, renamed and cast; nothing is read yet.

    Args:
      saved: an open checkpoint.
      selection: what is wanted; left out, everything.
      progress: told of every effect.

    Raises:
      UsageError: a regular expression, substitution, dtype or part is none.
      UnsupportedError: what is taken cannot be read as a variable.
      NotFoundError: an expression or substitution matches no variable, or none is left.
      PlanError: there are no averages to take, they do not fit their variables, or two
        variables would get the same name.
    """
    selection = selection or Selection()
    taken = _with_weights(saved, selection.weights, progress)
    taken = _dropped(saved, taken, selection.drop, progress)
    taken = _filtered(saved, taken, selection, progress)
    taken = _renamed(taken, selection.rename, progress)
    if not taken and saved.variables:
        raise NotFoundError(
            f"{saved.label}: none of {counted(len(saved), 'variable')} is left.",
            next_step="Take fewer away, or include more.",
        )
    variables = {
        name: replace(saved.variables[source], name=name) for name, source in taken.items()
    }
    if selection.dtype is not None:
        variables = _cast(variables, selection.dtype, progress)
    return SelectedVariables(saved, taken, variables, selection.weights == "ema")


def _with_weights(saved: SavedVariables, weights: Weights, progress: Progress) -> dict[str, str]:
    """Name -> name of the variable whose values it gets."""
    taken = {name: name for name in saved.variables}
    averages = averaged_names(saved.variables)
    if weights == "auto" and averages:
        progress.say(
            f"Weights: raw, as they were trained; there are averages of"
            f" {counted(len(averages), 'variable')} too (--weights ema takes these instead)."
        )
    if weights != "ema":
        return taken
    if not averages:
        raise PlanError(
            f"{saved.label} holds no averages of its weights.",
            expected="variables x/ExponentialMovingAverage",
            received=f"{counted(len(saved), 'variable')} of other names",
            next_step="--weights raw",
        )
    problems = _unfit_averages(saved.variables, averages)
    if problems:
        raise PlanError(
            f"{saved.label}: averages do not fit their variables:\n{listed(problems)}",
            next_step="--weights raw",
        )
    for name, average in averages.items():
        taken[name] = average
    # What is kept with an average (a zero-debiased one has two helpers) belongs to it.
    for name in saved.variables:
        if saved.role(name) == "ema":
            del taken[name]
    without = [name for name in taken if name not in averages and saved.role(name) == "model"]
    rest = f"; {len(without)} have none and keep their own values" if without else ""
    progress.say(f"Weights: ema, the averages of {counted(len(averages), 'variable')}{rest}.")
    return taken


def _unfit_averages(variables: Mapping[str, Variable], averages: Mapping[str, str]) -> list[str]:
    return [
        f"{average}: {_dtype_and_shape(variables[average])}, where {name} is"
        f" {_dtype_and_shape(variables[name])}"
        for name, average in averages.items()
        if name in variables
        and _dtype_and_shape(variables[name]) != _dtype_and_shape(variables[average])
    ]


def _dtype_and_shape(variable: Variable) -> str:
    return f"{variable.dtype_name} {list(variable.shape)}"


def _dropped(
    saved: SavedVariables, taken: dict[str, str], parts: Sequence[str], progress: Progress
) -> dict[str, str]:
    for part in parts:
        if part not in PARTS:
            near = near_names(part, list(PARTS))
            raise UsageError(
                f"--drop {part}: there is no such part.",
                expected=", ".join(PARTS),
                received=part,
                next_step=f"--drop {near[0] if near else ','.join(PARTS)}",
            )
    for part in dict.fromkeys(parts):
        gone = [
            name for name in taken if name in saved.variables and saved.role(name) == PARTS[part]
        ]
        for name in gone:
            del taken[name]
        progress.say(f"Dropped: {counted(len(gone), 'variable')} ({part}).")
    return taken


def _filtered(
    saved: SavedVariables, taken: dict[str, str], selection: Selection, progress: Progress
) -> dict[str, str]:
    # What matches a variable that was dropped is no slip of the pen.
    names = dict.fromkeys([*saved.variables, *taken, *saved.unreadable])
    include = [_matcher("--include", text, names) for text in selection.include]
    exclude = [_matcher("--exclude", text, names) for text in selection.exclude]

    def is_wanted(name: str) -> bool:
        is_included = not include or any(matches(name) for matches in include)
        return is_included and not any(matches(name) for matches in exclude)

    refuse_unreadable(saved, filter(is_wanted, saved.unreadable))
    if not include and not exclude:
        return taken
    kept = {name: source for name, source in taken.items() if is_wanted(name)}
    progress.say(f"Taken: {len(kept)} of {counted(len(taken), 'variable')}.")
    return kept


def _matcher(
    option: str, text: str, names: Collection[str]
) -> Callable[[str], re.Match[str] | None]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{option} {text!r} is no regular expression: {error}.",
            expected="a regular expression that is found in a name",
            received=text,
            next_step=f"Put a backslash before what is meant as it is: {option} '{re.escape(text)}'",
        ) from error
    if not any(map(pattern.search, names)):
        raise _matches_nothing(f"{option} {text!r}", text, names)
    return pattern.search


def _matches_nothing(what: str, text: str, names: Collection[str]) -> NotFoundError:
    scopes = {name[: found.start()] for name in names for found in re.finditer("/", name)}
    near = near_names(text.strip("^$/"), [*names, *sorted(scopes)])
    return NotFoundError(
        f"{what} matches none of {counted(len(names), 'variable')}.",
        expected="a regular expression that is found in a name",
        received=text,
        next_step=f"Did you mean {', '.join(near)}?" if near else "slimtune inspect lists them.",
    )


def _renamed(taken: dict[str, str], texts: Sequence[str], progress: Progress) -> dict[str, str]:
    # New name -> name before any substitution.
    before = {name: name for name in taken}
    for text in texts:
        renaming = parse_renaming(text)
        after: dict[str, list[str]] = {}
        for name, first in before.items():
            after.setdefault(renaming.apply(name), []).append(first)
        if not any(map(renaming.pattern.search, before)):
            raise _matches_nothing(f"--rename {text!r}", renaming.pattern.pattern, before)
        problems = [
            f"{name!r}: {' and '.join(firsts)}"
            for name, firsts in after.items()
            if len(firsts) > 1 or not name
        ]
        if problems:
            raise PlanError(
                f"--rename {text!r} gives several variables one name, or one none:\n"
                f"{listed(problems)}",
                next_step="Make OLD match fewer names, or leave some out (--exclude REGEX).",
            )
        before = {name: firsts[0] for name, firsts in after.items()}
    if texts:
        changed = sum(name != first for name, first in before.items())
        progress.say(f"Renamed: {changed} of {counted(len(before), 'variable')}.")
    return {name: taken[first] for name, first in before.items()}


def _cast(variables: dict[str, Variable], dtype: str, progress: Progress) -> dict[str, Variable]:
    if dtype not in DTYPES:
        raise UsageError(
            f"--dtype {dtype}: variables do not become that.",
            expected=", ".join(DTYPES),
            received=dtype,
            next_step=f"--dtype {DTYPES[0]}; integers and strings stay as they are.",
        )
    wanted = dtypes.of_name(dtype)
    cast = {
        name: describe(name, wanted, variable.shape)
        for name, variable in variables.items()
        if _FLOATS.fullmatch(variable.dtype_name) and variable.dtype_name != dtype
    }
    rest = sum(not _FLOATS.fullmatch(variable.dtype_name) for variable in variables.values())
    progress.say(
        f"Cast to {dtype}: {counted(len(cast), 'float variable')}, batch-norm averages too;"
        f" {rest} of other dtypes stay as they are."
    )
    return variables | cast
