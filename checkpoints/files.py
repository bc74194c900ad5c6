"""Writing without half-written results: beside the place, then renamed."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from checkpoints.errors import OutputExistsError, UsageError


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raises OutputExistsError where `path` is already there and may not be replaced."""
    if not overwrite and (path.exists() or path.is_symlink()):
        raise OutputExistsError(
            f"{path} is already there.",
            next_step="Add --overwrite to replace it, or name another output.",
        )


def refuse_foreign_files(directory: Path, own: str, what: str) -> None:
    """Raises OutputExistsError where a directory that is to be replaced holds other files.

    Args:
      directory: what --overwrite would remove; may be absent.
      own: regular expression that the paths of files that may be removed match in full,
        relative to the directory, parts joined by `/`.
      what: what they are, for the message: "drawn pictures".
    """
    if not directory.exists():
        return
    files = [f.relative_to(directory).as_posix() for f in directory.rglob("*") if not f.is_dir()]
    foreign = [name for name in files if not re.fullmatch(own, name, re.DOTALL)]
    if foreign or not directory.is_dir():
        raise OutputExistsError(
            f"{directory} holds other files than {what}; --overwrite would remove them.",
            expected=f"{what} only, or a new directory",
            received=", ".join(sorted(foreign)[:5]) or "a file",
            next_step="Name another directory, or remove this one yourself.",
        )


def temporary_beside(path: Path) -> Path:
    """A name in the same directory that nobody uses; renaming to `path` is then atomic.

    Raises:
      UsageError: the path is the root of the file system.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - `.` and `..` go, links stay
    if not path.name:
        raise UsageError(f"{path} is no place for an output.", next_step="Name another path.")
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the name `path` when the block ends without an error.

    After a failure or a kill `path` is the old file or the new one, never a part of one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = temporary_beside(path)
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text atomically."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Writes JSON atomically: UTF-8, two blanks of indentation, names as they are."""
    import json

    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def atomic_directory(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yields an empty directory that takes the name `path` when the block ends without an error.

    An old directory is moved aside first and removed last: after a kill `path` is the old
    one, the new one or absent, never a mixture.
    """
    refuse_existing(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = temporary_beside(path)
    partial.mkdir()
    try:
        yield partial
        aside = temporary_beside(path)
        if path.is_dir() and not path.is_symlink():
            path.rename(aside)
        partial.replace(path)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


_TEMPORARY = re.compile(r"\.([^/]+)\.[0-9a-f]{8}\.partial")


def without_temporary_names(path: str) -> str:
    """A path as a person knows it: names of `temporary_beside` become what they stand for."""
    return _TEMPORARY.sub(r"\1", path)
