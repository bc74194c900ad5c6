"""A copy on this disk of what lies in cloud storage.

Training reads single records out of shards, in another order every epoch, and does so from a disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from checkpoints.cache import cache_directory, locked
from checkpoints.errors import DataError, counted
from checkpoints.files import atomic_directory
from checkpoints.progress import Progress
from exporters.runtime import load_tensorflow, reason_of
from finetune.cloud import files
from finetune.cloud.files import CloudFile
from finetune.cloud.paths import CloudPath, is_cloud

_RECORD = ".copy.json"
_CHUNK = 8 << 20
_OF_TENSORFLOW = ("gs", "ram")
"""Schemes that TensorFlow opens; for all others it takes Apache Beam."""


def local_copy(path: str | Path, progress: Progress) -> Path:
    """The path on this disk: itself, or of one in cloud storage a copy in the cache.

    A copy is taken again as long as names, sizes and times in the storage are what they were.

    Args:
      path: as typed: a folder, or a path such as gs://bucket/flowers.
      progress: told what is copied where; gets a task in bytes.

    Raises:
      NotFoundError: nothing lies there, or it cannot be read.
      DataError: it has names that lead out of a folder.
      UnsupportedError: nothing that is installed opens such paths.
    """
    if not is_cloud(path):
        return Path(path)
    place = CloudPath(str(path))
    found, open_file = _in_tensorflow(place) if place.scheme in _OF_TENSORFLOW else _in_beam(place)
    _check_names(place, found)
    record = {"path": str(place), "files": [list(file) for file in found]}
    folder = cache_directory() / "copies" / hashlib.sha256(str(place).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / (place.name or "data")
    with locked(folder / "lock", progress):
        if _read_record(copy) == record:
            progress.say(f"{place}: the copy of it in {copy} is what lies there still.")
            return copy
        size = sum(file.size for file in found)
        what = f"{counted(len(found), 'file')}, {size / 1e6:,.1f} MB,"
        progress.say(f"{place} is read from a disk: copying {what} to {copy}.")
        with (
            atomic_directory(copy, overwrite=True) as partial,
            progress.task("Copying", size, "bytes") as task,
        ):
            for file in found:
                target = partial / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with open_file(file.name) as source, target.open("wb") as written:
                    while chunk := source.read(_CHUNK):
                        written.write(chunk)
                        task.advance(len(chunk))
                if target.stat().st_size != file.size:
                    raise DataError(
                        f"{place / file.name} was cut while it was copied.",
                        expected=f"{file.size} bytes",
                        received=f"{target.stat().st_size} bytes",
                        next_step="Try again when nobody writes there.",
                    )
            (partial / _RECORD).write_text(json.dumps(record), encoding="ascii")
    return copy


def _check_names(place: CloudPath, found: Sequence[CloudFile]) -> None:
    for file in found:
        if ".." in PurePosixPath(file.name).parts or "\0" in file.name:
            raise DataError(
                f"{place} holds {file.name!r}, which leads out of a folder.",
                next_step="Rename it there, or copy the files to a disk yourself.",
            )


def _read_record(copy: Path) -> Any:
    """What a copy was made of; None where there is none."""
    try:
        return json.loads((copy / _RECORD).read_text(encoding="ascii"))
    except (OSError, ValueError, RecursionError):
        return None


_Opener = Callable[[str], Any]


def _in_beam(place: CloudPath) -> tuple[list[CloudFile], _Opener]:
    return files.list_files(place), lambda name: files.open_file(place / name)


def _in_tensorflow(place: CloudPath) -> tuple[list[CloudFile], _Opener]:
    tf = load_tensorflow()
    gfile = tf.io.gfile

    @contextmanager
    def opened(name: str) -> Iterator[IO[bytes]]:
        with _explained(place, tf), gfile.GFile(f"{place}/{name}", "rb") as file:
            yield file

    found: list[CloudFile] = []
    with _explained(place, tf):
        for folder, _, names in gfile.walk(str(place)):
            for name in names:
                path = f"{folder.rstrip('/')}/{name}"
                status = gfile.stat(path)
                below = path.removeprefix(f"{place}/")
                found.append(CloudFile(below, status.length, status.mtime_nsec / 1e9))
    if not found:
        raise files.nothing_in(place)
    return sorted(found), opened


@contextmanager
def _explained(place: CloudPath, tf: Any) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as err:
        reason = reason_of(err.message) or type(err).__name__
        raise files.unreadable(place, reason) from err
