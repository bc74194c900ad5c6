"""One trainer at a time in a run directory.

The system's own lock on a file says who is there, so that it ends with its process however that
ends; what the file says is for people.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from checkpoints.cache import is_at
from checkpoints.errors import RunError
from checkpoints.files import make_parent, writing
from checkpoints.progress import Progress
from checkpoints.temporary_names import is_alive

LOCK = "train.lock"

_LATEST = 1e15
"""Seconds since 1970 beyond which no clock goes; NaN is not below it either."""

_MOST_PROCESSES = 1 << 31
"""No system numbers a process so high."""


@dataclass(frozen=True)
class _Owner:
    """What the lock file says."""

    process: int
    host: str
    since: float

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    @property
    def age(self) -> str:
        """How long ago it took the lock."""
        minutes, seconds = divmod(max(0, int(time.time() - self.since)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


@contextmanager
def run_lock(directory: Path, progress: Progress) -> Iterator[None]:
    """Holds the run directory, which is made where it is absent, for one process.

    Args:
      directory: of the run; removed again where it was made here and stays empty.
      progress: told where the lock of a process that ended is taken over.

    Raises:
      RunError: another process trains there; says which, and since when.
      OutputError: the directory cannot be made or written.
    """
    made = not directory.exists()
    make_parent(directory)
    path = directory / LOCK
    with writing(directory):
        directory.mkdir(exist_ok=True)
        file = _acquire(path)
    try:
        left = _read(path)
        if left:
            progress.say(f"Took over the lock of {left}, which was killed or crashed.")
        _write(file)
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()
        if made and not any(directory.iterdir()):
            directory.rmdir()


def _acquire(path: Path) -> IO[bytes]:
    """The lock file, open and held."""
    try:
        import fcntl
    except ImportError:  # Windows has none: what the file says has to do
        _refuse_living(path)
        return path.open("r+b" if path.exists() else "w+b")
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise _in_use(path) from error
        except OSError:
            # Some network file systems have no locks.
            _refuse_living(path)
            return file
        if is_at(path, file):
            return file
        file.close()  # whoever held it has removed it meanwhile


def _refuse_living(path: Path) -> None:
    """Without the system's locks: refuses where the process named in the file may still run."""
    owner = _read(path)
    if owner is None:
        return
    if owner.host != socket.gethostname() or is_alive(owner.process):
        raise _in_use(path)


def _in_use(path: Path) -> RunError:
    owner = _read(path)
    return RunError(
        f"{path.parent} is in use: {owner or 'another process'} trains there.",
        expected="one trainer at a time in a run directory",
        received=f"the lock {path.name}" + (f", {owner.age} old" if owner else ""),
        next_step="Wait for it, end it, or name another --run.",
    )


def _read(path: Path) -> _Owner | None:
    """Whom the file names; None where it is not what `_write` writes."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        owner = _Owner(found["process"], found["host"], found["since"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_number = isinstance(owner.since, (int, float)) and abs(owner.since) < _LATEST
    is_process = type(owner.process) is int and 0 < owner.process < _MOST_PROCESSES
    return owner if is_number and is_process and isinstance(owner.host, str) else None


def _write(file: IO[bytes]) -> None:
    owner = _Owner(os.getpid(), socket.gethostname(), time.time())
    file.seek(0)
    file.truncate()
    file.write(json.dumps(asdict(owner)).encode("utf-8"))
    file.flush()
