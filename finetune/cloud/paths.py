"""A path in cloud storage, used where a Path of the local disk may stand too."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import IO

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*", re.DOTALL)


class CloudPath:
    """A path such as gs://bucket/flowers; what it holds is read through Apache Beam.

    It has of pathlib.Path's words those that reading pictures needs. (A Path would make one `/`
    of the two.)
    """

    def __init__(self, url: str) -> None:
        """Takes the whole path, scheme and bucket in it."""
        self._scheme, _, path = url.partition("://")
        self._path = PurePosixPath(path)

    def __str__(self) -> str:
        return f"{self._scheme}://{self._path}"

    def __repr__(self) -> str:
        return f"CloudPath({str(self)!r})"

    def __truediv__(self, below: str) -> CloudPath:
        return CloudPath(f"{self}/{below}")

    @property
    def name(self) -> str:
        """What stands behind the last `/`."""
        return self._path.name

    @property
    def scheme(self) -> str:
        """What stands before `://`: gs, s3."""
        return self._scheme

    @property
    def parent(self) -> CloudPath:
        """The path that this one lies in."""
        return CloudPath(f"{self._scheme}://{self._path.parent}")

    def is_file(self) -> bool:
        """Whether there is such an object."""
        from finetune.cloud.files import exists

        return exists(self)

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Opens an object to be read."""
        from finetune.cloud.files import open_file

        return open_file(self)


Place = Path | CloudPath
"""Where pictures lie."""


def is_cloud(path: object) -> bool:
    """Whether a path has a scheme, as in gs://bucket/flowers."""
    return _URL.fullmatch(str(path)) is not None


def as_place(path: str | Path | CloudPath) -> Place:
    """A Path, or a CloudPath where a scheme stands before it."""
    if isinstance(path, CloudPath):
        return path
    return CloudPath(str(path)) if is_cloud(path) else Path(path)
