"""Whether the files of a checkpoint are whole: `checkpoints.verify`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints import api
from checkpoints.bundle import Bundle, Entry, data_path
from checkpoints.errors import LISTED_PROBLEMS, CheckpointError, SlimtuneError
from checkpoints.family import Family, resolve
from checkpoints.family_files import DATA_FILE, names_in, shards_of, size_of
from checkpoints.mapped import Pages
from checkpoints.progress import SILENT, Progress
from checkpoints.tensors import Array

_NO_CHECKSUMS = ("A safetensors file has no checksums: header and sizes were compared.",)


class Problem(NamedTuple):
    """One finding.

    Attributes:
      kind: "index" (names and places cannot be read), "missing-file", "cut-file" (values lie
        behind its end), "checksum" (bytes were changed), "values" (bytes contradict what the
        index says of them).
      path: the file.
      name: the variable that cannot be read, or None.
      detail: what is wrong.
    """

    kind: str
    path: str
    name: str | None
    detail: str


@dataclass(frozen=True)
class VerifyResult:
    """What a verification found.

    Attributes:
      path: what was verified: of a checkpoint the prefix.
      kind: what it is, as inspect has it.
      problems: the findings, in the order of the variables.
      num_variables: how many variables there are.
      num_bytes: the size of the files.
      notes: what could not be compared, a line each.
    """

    path: Path
    kind: str
    problems: tuple[Problem, ...]
    num_variables: int
    num_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "ok": self.is_ok,
            "problems": [problem._asdict() for problem in self.problems],
            "variables": self.num_variables,
            "bytes": self.num_bytes,
            "notes": list(self.notes),
        }


def verify(path: str | os.PathLike[str], *, progress: Progress = SILENT) -> VerifyResult:
    """Reads all of a checkpoint and compares it with its own sizes, places and checksums.

    Every variable is looked at by itself, so that one that is damaged does not hide others.

    Args:
      path: the checkpoint in any spelling.
      progress: told how far it is.

    Raises:
      NotFoundError: there is no such checkpoint.
      UnsupportedError: the file is no checkpoint.
    """
    try:
        family = resolve(path)
    except CheckpointError as error:
        return _incomplete(Path(path), error)
    problems: list[Problem] = []
    num_variables = 0
    notes: tuple[str, ...] = _NO_CHECKSUMS if family.kind == "safetensors" else ()
    try:
        names, problem_of, num_shards, unreadable = _checks(family)
    except CheckpointError as error:
        problems.append(Problem("index", _file_named(family, error), None, _one_line(error)))
    else:
        num_variables = len(names)
        notes += unreadable
        with progress.task(f"Verifying {family.prefix.name}", num_variables, "variables") as task:
            for name in names:
                problem = problem_of(name)
                problems += [] if problem is None else [problem]
                task.advance()
        known = {problem.path for problem in problems}
        problems += [
            problem for problem in _missing(family, num_shards) if problem.path not in known
        ]
    return VerifyResult(
        family.prefix,
        family.kind,
        tuple(problems),
        num_variables,
        sum(size_of(file) or 0 for file in family.files),
        notes,
    )


def _incomplete(path: Path, error: CheckpointError) -> VerifyResult:
    """Files of a checkpoint are missing, so that the others cannot be read either."""
    start = path.name.partition(".data-")[0].removesuffix(".index").removesuffix(".meta")
    is_v2 = any(
        DATA_FILE.fullmatch(name) and name.startswith(start) for name in names_in(path.parent)
    )
    kind = "checkpoint-v2" if is_v2 else "checkpoint-v1"
    problem = Problem("missing-file", str(path), None, _one_line(error))
    return VerifyResult(path, kind, (problem,), 0, 0)


def _checks(
    family: Family,
) -> tuple[list[str], Callable[[str], Problem | None], int, tuple[str, ...]]:
    """The names of the variables, what looks at one of them, how many .data files there should be,
    and what of the file is no variable.

    Raises:
      CheckpointError: the index is broken.
    """
    pages = Pages()
    if family.kind == "checkpoint-v2":
        bundle = Bundle(family.prefix)
        sizes: dict[Path, int | None] = {}

        def look_at(name: str) -> Problem | None:
            try:
                places = bundle.places(name)
            except CheckpointError as error:
                return Problem("index", _file_named(family, error), name, _one_line(error))
            for place in places:
                path = data_path(family.prefix, place.shard, bundle.num_shards)
                if path not in sizes:
                    sizes[path] = size_of(path)
                problem = _misplaced(name, place, path, sizes[path])
                if problem is not None:
                    return problem
            return _unreadable(family, name, lambda: bundle.read(name), pages)

        return list(bundle.variables), look_at, bundle.num_shards, ()
    saved = api.open(family)

    def read(name: str) -> Problem | None:
        return _unreadable(family, name, lambda: saved[name], pages)

    return list(saved), read, 0, tuple(error.message for error in saved.unreadable.values())


def _missing(family: Family, num_shards: int) -> Iterator[Problem]:
    """The .data files that are not there; an index may declare more than anyone wants listed."""
    found = shards_of(family.prefix, DATA_FILE).get(num_shards, [])
    there = {path.name for path in found if path.is_file()}
    names = (data_path(family.prefix, shard, num_shards) for shard in range(num_shards))
    missing = (path for path in names if path.name not in there)
    for path in islice(missing, LISTED_PROBLEMS):
        yield Problem("missing-file", str(path), None, f"{path.name} is not there.")
    if num_shards - len(there) > LISTED_PROBLEMS:
        detail = f"Of {num_shards} .data files {len(there)} are there."
        yield Problem("missing-file", str(family.files[0]), None, detail)


def _misplaced(name: str, place: Entry, path: Path, size: int | None) -> Problem | None:
    """What is wrong with where an entry says its values lie; None where nothing is."""
    end = place.offset + place.size
    if not place.size:
        return None
    if size is None:
        return Problem("missing-file", str(path), name, f"{path.name} is not there.")
    if end > size:
        where = f"bytes {place.offset} to {end}"
        return Problem("cut-file", str(path), name, f"{where} of a file that has {size} bytes.")
    return None


def _unreadable(
    family: Family, name: str, read: Callable[[], Array], pages: Pages
) -> Problem | None:
    try:
        pages.passed(read().nbytes)
    except CheckpointError as error:
        kind = "checksum" if "checksum" in error.message else "values"
        return Problem(kind, _file_named(family, error), name, _one_line(error))
    return None


def _file_named(family: Family, error: CheckpointError) -> str:
    """The file that a message begins with; messages of all forms do."""
    named = [str(file) for file in family.files if error.message.startswith(f"{file}:")]
    return named[0] if named else str(family.files[0])


def _one_line(error: SlimtuneError) -> str:
    parts = (error.message, error.expected, error.received)
    words = ("", "expected ", "received ")
    return " ".join(
        f"{word}{' '.join(part.split())}" for word, part in zip(words, parts, strict=True) if part
    )
