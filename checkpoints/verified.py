"""Writing a checkpoint that gets its name only once it was read again and found the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from checkpoints import api
from checkpoints.api import Checkpoint, Version
from checkpoints.errors import SlimtuneError, VerificationError, listed
from checkpoints.family import Family
from checkpoints.family_files import META, beside
from checkpoints.files import to_disk
from checkpoints.mapped import Pages
from checkpoints.mapping import SavedVariables
from checkpoints.placing import Place
from checkpoints.progress import SILENT, Progress
from checkpoints.slicing import Slicing
from checkpoints.tensors import as_strings
from checkpoints.writable import refuse_words

_PIECE_BYTES = 1 << 24


def write_verified(
    path: Path,
    variables: SavedVariables,
    *,
    version: Version | None = None,
    overwrite: bool = False,
    metadata: Mapping[str, str] | None = None,
    slicing: Slicing | None = None,
    meta: bytes | None = None,
    verify: bool = True,
    progress: Progress = SILENT,
) -> Family:
    """Writes variables, reads them again and compares every bit, then gives the checkpoint its name.

    Args:
      path: as in checkpoints.write.
      variables: what is written; read twice where it is verified.
      version: as in checkpoints.write.
      overwrite: whether a checkpoint that is there already is replaced; it stays where anything
        fails.
      metadata: as in checkpoints.write.
      slicing: as in checkpoints.write.
      meta: the graph that goes beside a V1 or V2 checkpoint, PREFIX.meta; None for none. One
        that belongs to a checkpoint that is replaced goes with it, which is said.
      verify: whether the written files are read again.
      progress: told of every variable.

    Raises:
      OutputExistsError: a checkpoint of that name is there and may not be replaced.
      UnsupportedError: the form cannot hold a variable.
      VerificationError: what was written is not the same; nothing is left of it.
    """
    version = version or api.version_of(path)
    place = Place(path, version, overwrite=overwrite)
    refuse_words(path, version, metadata, slicing)
    with place.beside() as prefix:
        written = api.write_files(
            prefix,
            variables,
            version,
            metadata=metadata,
            slicing=slicing,
            progress=progress,
        )
        if verify:
            _refuse_differences(variables, written, path, progress)
        if meta is not None:
            written = replace(written, meta=beside(written.prefix, META))
            _write_meta(beside(written.prefix, META), meta, verify)
        return place.take(written, progress)


def _write_meta(path: Path, data: bytes, verify: bool) -> None:
    with path.open("wb") as file:
        file.write(data)
        to_disk(file)
    if verify and path.read_bytes() != data:
        raise VerificationError(
            f"{path.name} does not hold what was written.",
            next_step="Nothing was written. Look after the disk.",
        )


def _refuse_differences(
    variables: SavedVariables, written: Family, path: Path, progress: Progress
) -> None:
    pages = Pages()
    with (
        api.open(written) as copy,
        progress.task(f"Verifying {path.name}", len(variables), "variables") as task,
    ):
        problems = [f"{name}: not in the source" for name in copy if name not in variables]
        for name in variables:
            problem = _difference(variables, copy, name, pages)
            problems += [] if problem is None else [f"{name}: {problem}"]
            task.advance()
    if problems:
        raise VerificationError(
            f"{path} would not hold the variables of {variables.label}:\n{listed(problems)}",
            next_step="Nothing was written. Please report it.",
        )


def _difference(variables: SavedVariables, copy: Checkpoint, name: str, pages: Pages) -> str | None:
    """What differs between a variable and its copy, to the last bit; None where nothing does."""
    if name not in copy:
        return "not there"
    ours, theirs = variables.variables[name], copy.variables[name]
    if (ours.dtype_name, ours.shape) != (theirs.dtype_name, theirs.shape):
        return f"{theirs.dtype_name} {list(theirs.shape)} for {ours.dtype_name} {list(ours.shape)}"
    try:
        if ours.dtype_name == "string":
            same = as_strings(variables[name], name) == as_strings(copy[name], name)
        else:
            same = same_bytes(variables.bytes_of(name), copy.bytes_of(name), pages)
    except SlimtuneError as error:
        return error.message
    return None if same else "differs"


def same_bytes(first: memoryview, second: memoryview, pages: Pages) -> bool:
    """Whether two rows of bytes are the same; both are looked at piece by piece."""
    if len(first) != len(second):
        return False
    for start in range(0, len(first), _PIECE_BYTES):
        ours = np.frombuffer(first[start : start + _PIECE_BYTES], np.uint8)
        theirs = np.frombuffer(second[start : start + _PIECE_BYTES], np.uint8)
        if not np.array_equal(ours, theirs):
            return False
        pages.passed(ours.size + theirs.size)
    return True
