"""Where slimtune keeps what it can get again, and one process at a time in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from checkpoints.progress import Progress

CACHE_VARIABLE = "SLIMTUNE_CACHE"
"""The environment variable that names the directory."""


def cache_directory() -> Path:
    """The directory, which may not exist yet.

    SLIMTUNE_CACHE, else slimtune/ in XDG_CACHE_HOME, else ~/.cache/slimtune; a directory for
    temporary files where the user has no home.
    """
    import tempfile

    own = os.environ.get(CACHE_VARIABLE)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if own:
        return Path(os.path.expanduser(own))  # noqa: PTH111 - leaves "~" alone without a home
    if Path(shared).is_absolute():
        return Path(shared) / "slimtune"
    try:
        return Path.home() / ".cache" / "slimtune"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"slimtune-{os.getuid()}"


@contextmanager
def locked(path: Path, progress: Progress) -> Iterator[None]:
    """Holds a lock that one process at a time can have; the system frees it after a kill.

    Args:
      path: a file that is made for it and removed afterwards.
      progress: told when there is somebody to wait for.
    """
    try:
        import fcntl
    except ImportError:  # Windows has none; two processes may then both fetch
        yield
        return
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"Another process holds {path}; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            break  # some network file systems have no locks; then it is as on Windows
        if is_at(path, file):
            break
        # Whoever had it before us has removed the file: this is no longer the lock.
        file.close()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether the open file is still the one with this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
