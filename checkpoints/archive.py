"""Files out of a tar or tar.gz that came from outside: one checkpoint, or as chosen."""

from __future__ import annotations

import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from checkpoints.errors import BrokenFileError, listed

LARGEST_CONTENT = 4 << 30
"""Bytes an archive may hold unpacked; the largest published one holds 0.6 GB."""

MOST_MEMBERS = 1000
"""Members an archive may hold; the published ones hold at most ten."""

LARGEST_READ = 1 << 20
"""Bytes read at once. tarfile reads a long name or a pax header at once; no honest one is larger."""

CHECKPOINT_SUFFIX = r"(|\.index|\.meta|\.data-\d{5}-of-\d{5})"
"""What follows a checkpoint's name in the names of its files; nothing for V1."""


def unpack_checkpoint(archive: Path, member: str, into: Path) -> list[str]:
    """Unpacks the files of one checkpoint; other members are checked and left.

    Members may stand in a folder and may start with "./". Every member must be a plain file
    or a folder, with a relative name that stays inside, and no name may come twice. The whole
    archive is read, so that gzip's checksum is compared too.

    Args:
      archive: tar or tar.gz.
      member: name of the checkpoint: of its one file (V1) or its prefix (V2).
      into: a directory of the caller's own; what stands in it after an error is of no use.

    Returns:
      Names of the files written, without folders, sorted.

    Raises:
      BrokenFileError: not an archive, cut, damaged, larger than LARGEST_CONTENT, with members
        that are refused, or without the checkpoint.
    """
    wanted = re.compile(re.escape(member) + CHECKPOINT_SUFFIX)
    seen: set[str] = set()

    def place(name: str) -> str | None:
        seen.add(name)
        file_name = name.rpartition("/")[2]
        return file_name if wanted.fullmatch(file_name) else None

    written = unpack_members(archive, into, place)
    for file_name in written:
        with (into / file_name).open("rb") as file:
            os.fsync(file.fileno())
    if not is_complete(written, member):
        raise BrokenFileError(
            f"{archive} does not hold the checkpoint {member!r}.",
            expected=f"{member}, or {member}.index with its {member}.data-...",
            received=", ".join(repr(name) for name in sorted(seen)[:10]) or "an empty archive",
        )
    return written


def unpack_members(
    archive: Path,
    into: Path,
    place: Callable[[str], str | None],
    most_members: int = MOST_MEMBERS,
) -> list[str]:
    """Unpacks the files of an archive that are wanted; the others are checked and left.

    Every member must be a plain file or a folder, with a relative name that stays inside, and
    no name may come twice. The whole archive is read, so that gzip's checksum is compared too.

    Args:
      archive: tar or tar.gz.
      into: a directory of the caller's own; what stands in it after an error is of no use.
      place: given the name of a plain file in the archive, without a leading "./": where it
        goes, relative to `into`, or None.
      most_members: how many the archive may hold.

    Returns:
      Where the files are, relative to `into`, sorted.

    Raises:
      BrokenFileError: not an archive, cut, damaged, larger than LARGEST_CONTENT, or with
        members that are refused.
    """
    problems: list[str] = []
    seen: set[str] = set()
    written: set[str] = set()
    with _opened(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for count, info in enumerate(tar, start=1):
            if count > most_members:
                raise stream.error(f"holds more than {most_members} members")
            name = info.name.removeprefix("./")
            problem = _problem(info, name, seen)
            if problem is not None:
                problems.append(f"{info.name!r} {problem}")
            elif info.isfile():
                stream.expect(info.size)
                seen.add(name)
                target = place(name)
                if target in written:
                    problems.append(f"{info.name!r} stands in another folder too")
                elif target is not None:
                    try:
                        stream.copy(info.size, into / target)
                    except (FileExistsError, NotADirectoryError):
                        problems.append(f"{info.name!r} lies below a file or is a folder's name")
                    written.add(target)
        stream.drain()
        if problems:
            raise stream.error(f"holds what is not unpacked:\n{listed(problems)}")
    return sorted(written)


def is_complete(names: Iterable[str], member: str) -> bool:
    """Whether file names make a checkpoint: the V1 file, or an index and every shard."""
    names = set(names)
    shards = [name for name in names if name.startswith(f"{member}.data-")]
    counts = {int(name.rpartition("-")[2]) for name in shards}
    return member in names or (f"{member}.index" in names and counts == {len(shards)})


def _problem(info: tarfile.TarInfo, name: str, seen: set[str]) -> str | None:
    """Why a member is refused."""
    if info.issym() or info.islnk():
        return f"is a link (to {info.linkname!r})"
    if info.issparse() or info.size < 0 or not (info.isfile() or info.isdir()):
        return "is neither a plain file nor a folder"
    if name.startswith("/") or "\\" in name or re.match(r"[A-Za-z]:", name):
        return "has an absolute name"
    if ".." in name.split("/"):
        return "leads outside"
    if name in seen:
        return "comes twice"
    return None


@contextmanager
def _opened(archive: Path) -> Iterator[_Stream]:
    """The archive's bytes, decompressed; what is wrong with them becomes a BrokenFileError."""
    import gzip

    with archive.open("rb") as file:
        beginning = file.read(512)
        file.seek(0)
        compressed = beginning.startswith(b"\x1f\x8b")
        if not compressed and not beginning[257:].startswith(b"ustar"):
            raise _no_archive(archive, beginning)
        stream = _Stream(archive, gzip.GzipFile(fileobj=file) if compressed else file)
        try:
            yield stream
        except (EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
            raise stream.error(f"is cut or damaged ({error})") from error


class _Stream(io.RawIOBase):
    """What tarfile reads: forward only, counted, and never much at once."""

    def __init__(self, archive: Path, file: io.BufferedIOBase) -> None:
        super().__init__()
        self._archive = archive
        self._file = file
        self._position = 0

    def error(self, what: str) -> BrokenFileError:
        """An error about the archive."""
        return BrokenFileError(f"{self._archive} {what}.")

    def expect(self, size: int) -> None:
        """Refuses `size` more bytes where they would be too many, before they are read."""
        if self._position + size > LARGEST_CONTENT:
            raise self.error(f"unpacks to more than {LARGEST_CONTENT / 1e9:.1f} GB")

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes."""
        if not 0 <= size <= LARGEST_READ:
            raise self.error(f"has a header of {size} bytes")
        data = self._file.read(size)
        self.expect(len(data))
        self._position += len(data)
        return data

    def tell(self) -> int:
        """Bytes read."""
        return self._position

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Reads on to `position`."""
        if whence != io.SEEK_SET or position < self._position:
            raise self.error("leads backwards")
        self._pass_on(position - self._position, None)
        return position

    def copy(self, size: int, target: Path) -> None:
        """Writes the next `size` bytes to a new file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            self._pass_on(size, file)

    def drain(self) -> None:
        """Reads to the end, which is where gzip keeps its checksum."""
        while self.read(LARGEST_READ):
            pass

    def _pass_on(self, size: int, file: IO[bytes] | None) -> None:
        while size > 0:
            data = self.read(min(size, LARGEST_READ))
            if not data:
                raise EOFError("it ends too early")
            if file is not None:
                file.write(data)
            size -= len(data)


def _no_archive(archive: Path, beginning: bytes) -> BrokenFileError:
    text = " ".join(beginning.decode("utf-8", "replace").lstrip("\ufeff").split())
    if re.match(r"<(!doctype|html|head|\?xml)", text, re.IGNORECASE):
        received = f"a web page (a login page or a notice?): {text[:80]!r}"
    elif beginning:
        received = f"a file that begins with {beginning[:16]!r}"
    else:
        received = "an empty file"
    return BrokenFileError(
        f"{archive} is not an archive.", expected="a tar or tar.gz file", received=received
    )
