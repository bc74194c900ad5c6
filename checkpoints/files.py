"""Writing without half-written results: beside the place, then renamed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from checkpoints.errors import OutputExistsError


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raises OutputExistsError where `path` is already there and may not be replaced."""
    if not overwrite and (path.exists() or path.is_symlink()):
        raise OutputExistsError(
            f"{path} is already there.",
            next_step="Add --overwrite to replace it, or name another output.",
        )


def temporary_beside(path: Path) -> Path:
    """A name in the same directory that nobody uses; renaming to `path` is then atomic."""
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
