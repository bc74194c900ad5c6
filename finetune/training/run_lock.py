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
from pathlib import Path
from typing import IO, Any

from checkpoints.cache import is_at
from checkpoints.errors import RunError
from checkpoints.progress import Progress
from checkpoints.temporary_names import is_alive

LOCK = "train.lock"


@contextmanager
def run_lock(directory: Path, progress: Progress) -> Iterator[None]:
    """Holds the run directory, which is made where it is absent, for one process.

    Args:
      directory: of the run; removed again where it was made here and stays empty.
      progress: told where the lock of a process that ended is taken over.

    Raises:
      RunError: another process trains there; says which, and since when.
    """
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / LOCK
    file = _acquire(path)
    try:
        left = _read(path)
        if left:
            progress.say(f"Took over the lock of {_named(left)}, which was killed or crashed.")
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
    if not owner:
        return
    if owner.get("host") != socket.gethostname():
        raise _in_use(path)
    try:
        lives = is_alive(int(owner.get("process", 0)))
    except (ValueError, OverflowError):
        return
    if lives:
        raise _in_use(path)


def _in_use(path: Path) -> RunError:
    owner = _read(path)
    who = _named(owner) if owner else "another process"
    return RunError(
        f"{path.parent} is in use: {who} trains there.",
        expected="one trainer at a time in a run directory",
        received=f"the lock {path.name}" + (f", {_age(owner)} old" if _age(owner) else ""),
        next_step="Wait for it, end it, or name another --run.",
    )


def _named(owner: dict[str, Any]) -> str:
    return f"process {owner.get('process', '?')} on {owner.get('host', '?')}"


def _age(owner: dict[str, Any]) -> str:
    since = owner.get("since")
    if not isinstance(since, (int, float)):
        return ""
    minutes, seconds = divmod(max(0, int(time.time() - since)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(file: IO[bytes]) -> None:
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    file.seek(0)
    file.truncate()
    file.write(json.dumps(owner).encode("utf-8"))
    file.flush()
