"""Objects of cloud storage, through the file systems of Apache Beam.

Beam reaches gs:// with its extra gcp, s3:// with aws, azfs:// with azure; other file systems may
be registered with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from checkpoints.errors import NotFoundError, OutputError, UnsupportedError, UsageError
from exporters.runtimes.extras import is_installed
from finetune.beam import load_beam
from finetune.cloud.paths import CloudPath

_REASON_LENGTH = 300
_EXTRAS = {"gs": "gcp", "s3": "aws", "azfs": "azure"}
_NEEDS = {"s3": "boto3", "azfs": "azure"}
"""Schemes that Beam registers without what it opens them with."""


class CloudFile(NamedTuple):
    """One object.

    Attributes:
      name: its path below the one that was listed.
      size: in bytes.
      changed: when it was last written, in seconds since 1970.
    """

    name: str
    size: int
    changed: float


def list_files(folder: CloudPath) -> list[CloudFile]:
    """Every object below a path, by name.

    Raises:
      NotFoundError: there is none, or the storage does not answer.
      UsageError: the path has characters that Beam takes for patterns.
    """
    if set("*?[") & set(str(folder)):
        raise UsageError(
            f"{folder} has characters that stand for patterns of names.",
            expected="a path without *, ? and [",
            next_step="Give the folder another name.",
        )
    with _reading(folder):
        [found] = _filesystem(folder).match([f"{folder}/**"])
    start = len(f"{folder}/")
    files = [
        CloudFile(file.path[start:], file.size_in_bytes, file.last_updated_in_seconds)
        for file in found.metadata_list
        # Some programs make an object for a folder itself.
        if not file.path.endswith("/")
    ]
    if not files:
        raise nothing_in(folder)
    return sorted(files)


def nothing_in(folder: CloudPath) -> NotFoundError:
    """What to say of a path below which nothing lies."""
    return NotFoundError(
        f"{folder} holds nothing.", next_step="Name a bucket and folder that hold something."
    )


def unreadable(path: CloudPath, reason: str) -> NotFoundError:
    """What to say of a path that a storage gives nothing of, and why."""
    return NotFoundError(
        f"{path} cannot be read.",
        received=reason[:_REASON_LENGTH],
        next_step="Check the path, and that this machine may read there.",
    )


def exists(path: CloudPath) -> bool:
    """Whether there is such an object."""
    with _reading(path):
        return bool(_filesystem(path).exists(str(path)))


def open_file(path: CloudPath) -> IO[bytes]:
    """Opens an object to be read; it can be sought in.

    Raises:
      NotFoundError: it is not there, or the storage does not answer.
    """
    with _reading(path):
        opened: IO[bytes] = _filesystem(path).open(str(path), **_as_it_is())
        return opened


@contextmanager
def new_file(path: CloudPath) -> Iterator[IO[bytes]]:
    """Opens an object to be written. It is there when the block ends, whole.

    Raises:
      OutputError: it cannot be written.
    """
    with _writing(path), _filesystem(path).create(str(path), **_as_it_is()) as file:
        yield file


def move(files: Sequence[tuple[CloudPath, CloudPath]]) -> None:
    """Gives objects of one storage other names.

    Raises:
      OutputError: it cannot.
    """
    if files:
        with _writing(files[0][1]):
            filesystem = _filesystem(files[0][1])
            filesystem.rename([str(old) for old, _ in files], [str(new) for _, new in files])


def remove(files: Sequence[CloudPath]) -> None:
    """Removes objects of one storage.

    Raises:
      OutputError: it cannot.
    """
    if files:
        with _writing(files[0]):
            _filesystem(files[0]).delete([str(file) for file in files])


def _as_it_is() -> dict[str, Any]:
    """No file is unpacked for its name."""
    from apache_beam.io.filesystem import CompressionTypes

    return {"compression_type": CompressionTypes.UNCOMPRESSED}


def _filesystem(path: CloudPath) -> Any:
    load_beam()
    from apache_beam.io.filesystems import FileSystems

    needed = _NEEDS.get(path.scheme)
    try:
        found = FileSystems.get_filesystem(str(path))
    except ValueError as err:
        raise _not_opened(path) from err
    if needed and not is_installed(needed):
        raise _not_opened(path)
    return found


def _not_opened(path: CloudPath) -> UnsupportedError:
    extra = _EXTRAS.get(path.scheme)
    return UnsupportedError(
        f"Apache Beam has nothing here that opens {path.scheme}:// paths.",
        expected=", ".join(f"{scheme}://" for scheme in _EXTRAS),
        received=str(path),
        next_step="Name a path of these, or copy the files to a disk."
        if extra is None
        else f"pip install 'apache-beam[{extra}]'",
    )


@contextmanager
def _reading(path: CloudPath) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as err:
        raise unreadable(path, _first_line(err)) from err


@contextmanager
def _writing(path: CloudPath) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except (OSError, ValueError) as err:
        reason = OSError(None, _first_line(err))
        raise OutputError(
            f"{path} cannot be written.",
            reason,
            next_step="Check the path, and that this machine may write there.",
        ) from err


def _first_line(err: Exception) -> str:
    lines = str(err).strip().splitlines()
    return lines[0][:_REASON_LENGTH] if lines else type(err).__name__
