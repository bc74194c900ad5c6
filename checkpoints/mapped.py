"""Files seen as memory, so that only what is looked at is read."""

from __future__ import annotations

import mmap
from pathlib import Path


def map_file(path: Path) -> memoryview:
    """A read-only view of a whole file.

    The map lives as long as the view, or anything made from it, does; nothing has to be
    closed. A file that is replaced by renaming stays readable through the old view.

    Raises:
      OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
