"""Writing without half-written results: beside the place, then renamed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from checkpoints.errors import AccessError, InputError, OutputError, OutputExistsError, UsageError
from checkpoints.temporary_names import (
    remove_leftovers,
    temporary_name,
    without_temporary_names,
)


def refuse_existing(path: Path, overwrite: bool, *, is_directory: bool = False) -> None:
    """Raises OutputExistsError where an output has no place, whatever `overwrite` says, or may not
    replace what is there.

    Only a regular file is ever replaced by a file, and only a directory by a directory; of a
    symbolic link to one the link is replaced, and what it leads to stays as it is.

    Args:
      path: the output.
      overwrite: whether what is there may be replaced.
      is_directory: whether a directory is to be written.
    """
    mode = _mode(path)
    if mode is None and not path.is_symlink():
        return
    is_right = stat.S_ISDIR if is_directory else stat.S_ISREG
    if mode is not None and not is_right(mode):
        raise OutputExistsError(
            f"{path} is {_kind(mode)} and is not replaced.",
            expected="a directory, or a new name" if is_directory else "a file, or a new name",
            received=_kind(mode),
            next_step="Name a file in it, or another output."
            if stat.S_ISDIR(mode)
            else "Name another output.",
        )
    if not overwrite:
        raise OutputExistsError(
            f"{path} is already there.",
            next_step="Add --overwrite to replace it, or name another output.",
        )


def _mode(path: Path) -> int | None:
    """What a path is, links followed; None where nothing is, or a link leads nowhere."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def kind_of_file(path: Path) -> str | None:
    """What a path is that is neither a file nor a directory, with its article; else None."""
    mode = _mode(path)
    if mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return _kind(mode)


def broken_link(path: Path) -> str | None:
    """Where a symbolic link leads that leads to nothing; None for what is there or is no link."""
    if not path.is_symlink() or path.exists():
        return None
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link that leads in a circle"
    return f"a link to {os.path.realpath(path)}, which is not there"


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def is_same_place(first: Path, second: Path) -> bool:
    """Whether two paths lead to one place, links followed; there need not be anything there."""
    return os.path.realpath(first) == os.path.realpath(second)


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

    What a process that was killed left of an earlier output of that name is removed.

    Raises:
      UsageError: the path is the root of the file system.
    """
    if path.name in ("", ".."):
        path = Path(os.path.abspath(path))  # noqa: PTH100 - links stay
    if not path.name:
        raise UsageError(f"{path} is no place for an output.", next_step="Name another path.")
    remove_leftovers(path)
    return path.with_name(temporary_name(path.name))


@contextmanager
def directory_beside(path: Path) -> Iterator[Path]:
    """A new directory beside an output, which is removed at the end.

    What is written in it under the output's own name, messages call by the output's path.

    Raises:
      OutputError: the operating system refuses to write there.
    """
    make_parent(path)
    with writing(path):
        directory = temporary_beside(path)
        directory.mkdir()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def placing(path: Path) -> Iterator[None]:
    """Lets one writer at a time give outputs in a directory their names: look, then rename.

    The lock is on the directory that `path` lies in; the system frees it after a kill.
    """
    try:
        import fcntl

        directory = os.open(path.parent, os.O_RDONLY)
    except (ImportError, OSError):  # Windows has none, and some may only be written
        yield
        return
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the operating system says of the output `path` into an error that names it.

    Raises:
      OutputError: there is no room, no permission, or something else in the way.
    """
    try:
        yield
    except AccessError:
        raise
    except OSError as error:
        if not _concerns(error, path):
            raise
        raise _not_written(path, error) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the operating system says of reading `path` into an error that names it.

    Errors of opening, which name their file, stay as they are.

    Raises:
      InputError: the bytes cannot be read.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or isinstance(error, AccessError):
            raise
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}.",
            error,
            expected="a file whose bytes can be read",
            next_step="Check that it is an ordinary file and its disk sound, or copy it again.",
        ) from error


def make_parent(path: Path) -> None:
    """Makes the directories that an output is to lie in.

    Raises:
      OutputError: they cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        reason = os.strerror(errno.ENOTDIR)
        raise _not_written(path, NotADirectoryError(errno.ENOTDIR, reason)) from error
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path} cannot be written: {error.strerror or error}.",
        error,
        expected="a place that exists, has room and can be written",
        next_step="Check that the place exists, is what it should be, has room and can be written;"
        " or name another output.",
    )


def _concerns(error: OSError, path: Path) -> bool:
    """Whether an error is of the output, and not of a file that is read meanwhile."""
    if error.filename is None:
        # Of writing and closing, which name no file.
        return error.errno not in (None, errno.EPIPE)
    place = os.path.abspath(os.fsdecode(error.filename))  # noqa: PTH100 - links stay
    return without_temporary_names(place).startswith(os.path.abspath(path))  # noqa: PTH100


@contextmanager
def atomic_file(path: Path, *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the name `path` when the block ends without an error.

    After a failure or a kill `path` is the old file or the new one, never a part of one.

    Args:
      path: the output; of a symbolic link to a file the link is replaced.
      overwrite: whether a file that is there is replaced, also one that came meanwhile.

    Raises:
      OutputExistsError: what is there may not be replaced.
      OutputError: the file cannot be written.
    """
    refuse_existing(path, overwrite)
    make_parent(path)
    with writing(path):
        partial = temporary_beside(path)
        try:
            with partial.open("wb") as file:
                yield file
                to_disk(file)
            with placing(path):
                refuse_existing(path, overwrite)
                partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def to_disk(file: IO[bytes]) -> None:
    """Waits until the operating system has put on the disk what was written."""
    file.flush()
    os.fsync(file.fileno())


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
    refuse_existing(path, overwrite, is_directory=True)
    with directory_beside(path) as partial:
        yield partial
        with placing(path):
            refuse_existing(path, overwrite, is_directory=True)
            aside = temporary_beside(path)
            if path.is_dir() or path.is_symlink():
                path.rename(aside)
            partial.replace(path)
        if aside.is_symlink():
            aside.unlink()
        shutil.rmtree(aside, ignore_errors=True)
