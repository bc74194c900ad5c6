"""Files seen as memory, so that only what is looked at is read."""

from __future__ import annotations

import mmap
import weakref
from pathlib import Path

from checkpoints.errors import NotFoundError
from checkpoints.files import reading

_RELEASED_BYTES = 1 << 24
_MAPS: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def map_file(path: Path) -> memoryview:
    """A read-only view of a whole file.

    The map lives as long as the view, or anything made from it, does; nothing has to be
    closed. A file that is replaced by renaming stays readable through the old view.

    Raises:
      NotFoundError: there is no such file, or it went after it was found.
      OSError: the file cannot be opened.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{path} is not there.",
            next_step="If something is writing or removing it just now, run the command again.",
        ) from error
    with reading(path), file:
        if file.seek(0, 2) == 0:
            return memoryview(b"")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPS.add(mapped)
    return memoryview(mapped)


class Pages:
    """Keeps the memory flat of work that goes once through large mapped files.

    What was looked at of a file counts as the process's memory until it is given back. Views
    stay valid; what is looked at again is read again.
    """

    def __init__(self) -> None:
        self._num_bytes = 0

    def passed(self, num_bytes: int) -> None:
        """Says that so many bytes were read and are not needed any more."""
        self._num_bytes += num_bytes
        # Windows has no such call, and takes the memory back when it is short.
        if self._num_bytes >= _RELEASED_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._num_bytes = 0
            for mapped in list(_MAPS):
                mapped.madvise(mmap.MADV_DONTNEED)
