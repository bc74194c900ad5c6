"""The mean of several checkpoints: `checkpoints.average`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import api
from checkpoints.api import Checkpoint, Version, version_of
from checkpoints.differences import compare_arrays
from checkpoints.errors import PlanError, UsageError, counted, listed
from checkpoints.files import is_same_place
from checkpoints.mapping import SavedVariables, as_key, refuse_unreadable
from checkpoints.placing import Place
from checkpoints.progress import SILENT, Progress
from checkpoints.slicing import Slicing
from checkpoints.steps import STEP, step_of, step_variables
from checkpoints.tensors import Array, as_strings
from checkpoints.verified import write_verified
from checkpoints.writable import refuse_words

_PIECE_ELEMENTS = 1 << 18
_TENSORFLOWS = ("v1", "v2")
_AVERAGED = re.compile(r"b?float\d.*|complex\d+")


@dataclass(frozen=True)
class Averaged:
    """A mean that was written.

    Attributes:
      path: what was written; of a checkpoint the prefix.
      version: its form.
      sources: the prefixes of the checkpoints it is the mean of.
      newest: the one that what is no float was taken from.
      num_averaged: how many variables are means.
      taken: the names of the variables that are no floats, differ, and are the newest's.
      not_finite: name -> how many values of the mean are NaN or infinite.
      step: the highest step, or None where none is known.
      num_bytes: the size of what was written.
      notes: what was done, a line each.
    """

    path: Path
    version: Version
    sources: tuple[Path, ...]
    newest: Path
    num_averaged: int
    taken: tuple[str, ...]
    not_finite: dict[str, int]
    step: int | None
    num_bytes: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "path": str(self.path),
            "form": self.version,
            "sources": [str(source) for source in self.sources],
            "newest": str(self.newest),
            "averaged": self.num_averaged,
            "taken": list(self.taken),
            "not_finite": self.not_finite,
            "step": self.step,
            "bytes": self.num_bytes,
            "notes": list(self.notes),
        }


class _Mean(SavedVariables):
    """The mean of checkpoints with the same variables; each is made when it is asked for.

    Attributes:
      taken: variables that are no floats and differ, of those read so far.
      not_finite: how many values of a mean are NaN or infinite, likewise.
    """

    def __init__(self, sources: Sequence[Checkpoint], newest: Checkpoint) -> None:
        self._sources = sources
        self._newest = newest
        self.variables = newest.variables
        self.label = f"the mean of {counted(len(sources), 'checkpoint')}"
        self.metadata = newest.metadata
        self._steps = set(step_variables(newest))
        self.taken: set[str] = set()
        self.not_finite: dict[str, int] = {}

    def __getitem__(self, name: str) -> Array:
        if self.is_averaged(name):
            return self._mean(name)
        values = [source[name] for source in self._sources]
        if name in self._steps:
            return max(values, key=int)
        newest = self._newest[name]
        if any(_differ(newest, value, name) for value in values):
            self.taken.add(name)
        return newest

    def is_averaged(self, name: str) -> bool:
        """Whether a variable holds numbers that have a mean."""
        return _AVERAGED.fullmatch(self.variables[name].dtype_name) is not None

    def _mean(self, name: str) -> Array:
        variable = self.variables[name]
        flat = [np.asarray(source[name], order="C").reshape(-1) for source in self._sources]
        mean = np.empty(variable.num_elements, variable.dtype)
        wide = np.complex128 if variable.dtype.kind == "c" else np.float64
        not_finite = 0
        for start in range(0, mean.size, _PIECE_ELEMENTS):
            part = slice(start, start + _PIECE_ELEMENTS)
            with np.errstate(all="ignore"):
                total = flat[0][part].astype(wide)
                for values in flat[1:]:
                    total += values[part].astype(wide)
                means = total / len(flat)
                # The sum of what is finite may be larger than 64 bits can say; its mean is not.
                over = np.flatnonzero(~np.isfinite(means))
                if over.size:
                    means[over] = sum(
                        values[part][over].astype(wide) / len(flat) for values in flat
                    )
                mean[part] = means.astype(variable.dtype)
            not_finite += int(np.count_nonzero(~np.isfinite(mean[part])))
        if not_finite:
            self.not_finite[name] = not_finite
        mean.flags.writeable = False
        return mean.reshape(variable.shape)


def average(
    sources: Sequence[str | os.PathLike[str]],
    destination: str | os.PathLike[str],
    *,
    version: Version | None = None,
    overwrite: bool = False,
    slicing: Slicing | None = None,
    meta: Callable[[Checkpoint, Version], bytes | None] | None = None,
    verify: bool = True,
    progress: Progress = SILENT,
) -> Averaged:
    """Writes the mean of several checkpoints of one net; one variable at a time is in memory.

    Float and complex variables (an optimiser's and moving averages too) are summed in 64 bits
    and become the mean. The step is the highest; other variables are those of the newest, the
    one of the highest step, or the last named where steps are the same or not known.

    Args:
      sources: two or more checkpoints in any spelling, of any forms.
      destination: as in checkpoints.write.
      version: as in checkpoints.write.
      overwrite: whether a checkpoint that is there already is replaced.
      slicing: as in checkpoints.write.
      meta: gives, of the first source and the form that is written, the graph to put beside a V1
        or V2 checkpoint (exporters.savers.travelling.carried_meta); left out, none is.
      verify: whether what was written is read again and compared.
      progress: told of every effect, and how far it is.

    Raises:
      UsageError: there is only one, or the destination is one of them.
      PlanError: they do not hold the same variables.
      OutputExistsError: a checkpoint is there and may not be replaced.
      VerificationError: what was written is not the mean; nothing is left of it.
    """
    is_one = isinstance(sources, str | bytes | os.PathLike)
    if is_one or len(sources) < 2:
        raise UsageError(
            "A mean takes two checkpoints or more.",
            expected="a list of paths",
            received=repr(sources) if is_one else len(sources),
            next_step="Name another checkpoint of the same net.",
        )
    path = Path(destination)
    version = version or version_of(path)
    with ExitStack() as stack:
        opened = [stack.enter_context(api.open(source)) for source in sources]
        _refuse_own_source(opened, path)
        refuse_words(path, version, None, slicing)
        Place(path, version, overwrite=overwrite)
        _refuse_different(opened)
        steps = [step_of(saved, saved.family) for saved in opened]
        order = [-1 if step is None else step for step in steps]
        newest = opened[max(range(len(opened)), key=lambda index: (order[index], index))]
        step = max((known for known in steps if known is not None), default=None)
        mean = _Mean(opened, newest)
        metadata = dict(newest.metadata) if version in ("npz", "safetensors") else {}
        if step is not None and version in ("npz", "safetensors"):
            metadata[STEP] = str(step)
        written = write_verified(
            path,
            mean,
            version=version,
            overwrite=overwrite,
            metadata=metadata,
            slicing=slicing,
            meta=meta(opened[0], version) if meta is not None and version in _TENSORFLOWS else None,
            verify=verify,
            progress=progress,
        )
        notes = _notes(mean, newest)
        for note in notes:
            progress.say(note)
        return Averaged(
            path=written.prefix,
            version=version,
            sources=tuple(saved.family.prefix for saved in opened),
            newest=newest.family.prefix,
            num_averaged=sum(map(mean.is_averaged, mean)),
            taken=tuple(sorted(mean.taken, key=as_key)),
            not_finite=mean.not_finite,
            step=step,
            num_bytes=written.num_bytes,
            notes=notes,
        )


def _refuse_own_source(opened: Sequence[Checkpoint], path: Path) -> None:
    for saved in opened:
        if is_same_place(saved.family.prefix, path):
            raise UsageError(
                f"{path} is one of the sources.",
                received=saved.family.prefix,
                next_step="Name another output.",
            )


def _refuse_different(opened: Sequence[Checkpoint]) -> None:
    for saved in opened:
        refuse_unreadable(saved)
    first = opened[0]
    problems = []
    for other in opened[1:]:
        problems += [f"{name}: not in {other.label}" for name in first if name not in other]
        problems += [f"{name}: not in {first.label}" for name in other if name not in first]
        for name in first:
            if name in other:
                ours, theirs = first.variables[name], other.variables[name]
                if (ours.dtype_name, ours.shape) != (theirs.dtype_name, theirs.shape):
                    problems.append(
                        f"{name}: {ours.dtype_name} {list(ours.shape)} and in {other.label}"
                        f" {theirs.dtype_name} {list(theirs.shape)}"
                    )
    if problems:
        raise PlanError(
            f"{first.label} and the others do not hold the same variables:\n{listed(problems)}",
            next_step="Leave out what differs first: slimtune convert SRC DST --exclude REGEX",
        )


def _differ(first: Array, second: Array, name: str) -> bool:
    if first.dtype == object:
        return as_strings(first, name) != as_strings(second, name)
    return compare_arrays(first, second).num_different > 0


def _notes(mean: _Mean, newest: Checkpoint) -> tuple[str, ...]:
    notes = []
    if mean.taken:
        names = sorted(mean.taken, key=as_key)
        notes.append(
            f"Of variables without a mean {len(names)} differ; they are those of"
            f" {newest.label}:\n{listed(names)}"
        )
    if mean.not_finite:
        lines = [f"{name}: {count}" for name, count in mean.not_finite.items()]
        notes.append(f"Values that are NaN or infinite in a source stay so:\n{listed(lines)}")
    return tuple(notes)
