"""Writes a V2 checkpoint with the same variables, and compares it with its source byte by byte."""

from __future__ import annotations

import math

import checkpoints
from checkpoints.api import Checkpoint
from checkpoints.errors import UnsupportedError, UsageError, VerificationError, listed
from checkpoints.family import Family
from checkpoints.progress import Progress
from exporters.conversion import Conversion, Request
from exporters.values import bytes_of, first_difference, header_of, strings_of
from exporters.verdict import NOT_VERIFIED, PROVED


def write(request: Request, progress: Progress) -> Conversion:
    """Copies every variable.

    Raises:
      OutputExistsError: a checkpoint is there and may not be replaced.
      UnsupportedError: the source is a graph.
      VerificationError: the written variables differ; what was written is removed.
    """
    family = request.source.family
    if family is None:
        raise UnsupportedError(
            f"{request.source.graph} holds a graph, and constants are not made variables again yet.",
            expected="a checkpoint, to write another from",
            received="a graph without a checkpoint",
        )
    if request.verify == "run":
        raise UsageError("A checkpoint cannot be run.", expected="--verify structure, auto or none")
    if family.prefix.resolve() == request.destination.resolve() and family.kind == "checkpoint-v2":
        raise UsageError(
            f"{request.destination} is the source itself.", next_step="Name another output."
        )
    with checkpoints.open(family) as saved:
        written = checkpoints.write(
            request.destination, saved, overwrite=request.overwrite, progress=progress
        )
        if request.verify != "none":
            _compare(saved, written)
        if family.meta is not None:
            progress.say(f"{family.meta.name} was not written: its Saver names the old files.")
        parameters = sum(math.prod(variable.shape) for variable in saved.variables.values())
    return Conversion(
        path=written.prefix,
        form="v2",
        graph=None,
        checkpoint=family.prefix,
        inputs=(),
        outputs=(),
        nodes=None,
        parameters=parameters,
        num_bytes=sum(file.stat().st_size for file in written.files),
        verification=NOT_VERIFIED if request.verify == "none" else PROVED,
    )


def _compare(saved: Checkpoint, written: Family) -> None:
    """Reads what was written; removes it where it differs."""
    with checkpoints.open(written) as copy:
        problems = [f"{name}: not there" for name in saved if name not in copy]
        problems += [f"{name}: not in the source" for name in copy if name not in saved]
        problems += [
            f"{name}: differs" for name in saved if name in copy and not _same(saved, copy, name)
        ]
    if problems:
        for file in written.files:
            file.unlink()
        raise VerificationError(
            f"{written.prefix} does not hold the variables of {saved.family.prefix}:\n"
            f"{listed(problems)}",
            next_step="Nothing was left in place. Please report it.",
        )


def _same(saved: Checkpoint, copy: Checkpoint, name: str) -> bool:
    header = header_of(saved, name)
    if header != header_of(copy, name):
        return False
    if header.dtype.is_string:
        return strings_of(saved, name) == strings_of(copy, name)
    return first_difference(bytes_of(saved, name), bytes_of(copy, name)) is None
