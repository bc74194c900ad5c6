"""What the readers under test are called with, and which of their errors are right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.errors import SlimtuneError, VerificationError
from checkpoints.family import resolve
from checkpoints.progress import SILENT
from fuzzing.reader import Files
from scripts.inspecting.checkpoint import checkpoint_contents, checkpoint_text
from scripts.output import json_line, printable


@contextmanager
def refusals() -> Iterator[None]:
    """Lets errors of ours pass, but not one that says we wrote something wrong."""
    try:
        yield
    except VerificationError:
        raise
    except SlimtuneError as error:
        json_line(error.as_json())


def written(write: Callable[[Path], Any]) -> Files:
    """The files that something writes into a directory, in order."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        files = (file for file in sorted(Path(folder).rglob("*")) if file.is_file())
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def inspect_checkpoint(path: Path) -> None:
    """As `slimtune inspect --stats` does."""
    with refusals():
        contents = checkpoint_contents(resolve(path), None, True, SILENT)
        json_line(contents)
        printable(checkpoint_text(contents, True))


def verify_checkpoint(path: Path) -> None:
    """As `slimtune verify` does."""
    with refusals():
        json_line(checkpoints.verify(path).as_json())


def read_values(path: Path) -> None:
    """Every variable, where others are broken too."""
    with refusals(), checkpoints.open(path) as saved:
        for name in saved:
            with refusals():
                saved[name]


def checkpoint_reads(name: str) -> tuple[Callable[[Path], None], ...]:
    """The ways to read a checkpoint of a name."""

    def on(read: Callable[[Path], None]) -> Callable[[Path], None]:
        return lambda directory: read(directory / name)

    return on(inspect_checkpoint), on(read_values), on(verify_checkpoint), on(read_values)
