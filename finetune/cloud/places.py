"""Files on a disk or in cloud storage, whichever a place is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from checkpoints.errors import NotFoundError
from finetune.cloud import files
from finetune.cloud.paths import CloudPath, Place


@contextmanager
def new_file(place: Place) -> Iterator[IO[bytes]]:
    """Opens a file to be written. It is there when the block ends without an error, whole.

    Two that write the same file do not meet: it is what the later one wrote.
    """
    if isinstance(place, CloudPath):
        with files.new_file(place) as file:
            yield file
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def list_names(folder: Place) -> list[str]:
    """Names of the files in a folder, those that are whole; none where there is no folder."""
    if isinstance(folder, CloudPath):
        try:
            return [file.name for file in files.list_files(folder)]
        except NotFoundError:
            return []
    if not folder.is_dir():
        return []
    return [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]


def remove_below(folder: Path | CloudPath) -> None:
    """Removes all files of a folder."""
    if isinstance(folder, CloudPath):
        files.remove([folder / name for name in list_names(folder)])
        return
    for name in list_names(folder):
        (folder / name).unlink()
