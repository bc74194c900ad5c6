"""Published checkpoints: fetched once, unpacked, found again.

A directory holds, for each of them, the archive under its published name, a note beside it
(".json": where it came from, its SHA-256 and the sizes of what was unpacked) and the files of
the checkpoint. An archive that somebody put there by hand is used like one that was fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from checkpoints.archive import CHECKPOINT_SUFFIX, is_complete, unpack_checkpoint
from checkpoints.cache import CACHE_VARIABLE, cache_directory, locked
from checkpoints.checksum import sha256_of
from checkpoints.errors import (
    BrokenFileError,
    DownloadError,
    NotFoundError,
    OutputExistsError,
    UsageError,
)
from checkpoints.fetch import (
    PATIENT,
    RetryPolicy,
    checked_url,
    discard,
    fetch,
    megabytes,
    shown_url,
)
from checkpoints.files import write_json, writing
from checkpoints.progress import SILENT, Progress
from checkpoints.published import PUBLISHED_AT, PublishedCheckpoint, get_checkpoint

MIRROR_VARIABLE = "SLIMTUNE_MIRROR"
"""An address that stands for PUBLISHED_AT, for machines that reach only a mirror."""


@dataclass(frozen=True)
class Downloaded:
    """A published checkpoint on this machine.

    Attributes:
      name: of the published checkpoint.
      path: of the checkpoint: its one file (V1) or its prefix (V2).
      files: all its files.
      status: downloaded; unpacked from an archive that was there; present; or bundled with
        slimtune.
      archive: the file that was unpacked, None where there is none.
      url: where it came from, None where that is not known.
      sha256: of what was fetched, in hexadecimal; None where that is not known.
      size: bytes of what was fetched, None where that is not known.
      resumed: bytes of it that a cut connection had left and that were not fetched again.
    """

    name: str
    path: Path
    files: tuple[Path, ...]
    status: Literal["downloaded", "unpacked", "present", "bundled"]
    archive: Path | None = None
    url: str | None = None
    sha256: str | None = None
    size: int | None = None
    resumed: int = 0


@dataclass(frozen=True)
class _Note:
    """What is known of an archive. `files` is empty until the checkpoint is in its place."""

    source: str
    sha256: str
    size: int
    files: dict[str, int]


def download(
    name: str,
    to: str | Path | None = None,
    url: str | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    policy: RetryPolicy = PATIENT,
) -> Downloaded:
    """Gets a published checkpoint, from where it is nearest.

    The checkpoint where it is there already; else its archive in the same directory; else the
    internet. Several processes may ask for the same one: the first fetches, the others wait.

    Args:
      name: of a published checkpoint.
      to: directory for archive and checkpoint; checkpoints/ in the cache directory if None.
      url: https or http address to take instead of the published one: a tar or tar.gz that
        holds the checkpoint under its published name, or the one file of a V1 checkpoint.
      overwrite: fetches again and replaces what is there.
      progress: gets the bytes, and a line for each thing worth knowing.
      policy: how patient to be with the network.

    Raises:
      NotFoundError: nothing is published under this name.
      DownloadError: it cannot be fetched, is not what was asked for, or not what it was the
        first time; the message says how to go on without a network.
      BrokenFileError: an archive that was there already cannot be used.
      OutputExistsError: what is there has been changed or came from another address.
      OutputError: the directory has no room, or something else is in the way.
    """
    record = get_checkpoint(name)
    if record.url is None:
        return _bundled(record, to, url)
    place = _Place(record, cache_directory() / "checkpoints" if to is None else Path(to))
    address = checked_url(
        url or _mirrored(record.url), f"A file of your own can be put at {place.archive}."
    )
    # Looked at first without the lock: a directory that is there may be one we cannot write to.
    found = None if overwrite else place.find(url)
    if found is None:
        place.make()
        with writing(place.directory), locked(place.directory / f".{name}.lock", progress):
            found = None if overwrite else place.find(url)
            if found is None:
                if place.archive.exists() and not overwrite:
                    progress.say(f"{name}: {place.archive} is there; it is unpacked.")
                    return place.use_archive(shown_url(url or record.url))
                progress.say(f"{name}: fetching {shown_url(address)} into {place.directory}.")
                return place.use_address(address, shown_url(url or record.url), progress, policy)
    came = f"; it came from {found.url}" if found.url else ""
    progress.say(f"{name} is already there: {found.path}{came}.")
    return found


class _Place:
    """A directory and what it holds of one published checkpoint."""

    def __init__(self, record: PublishedCheckpoint, directory: Path) -> None:
        self.record = record
        self.directory = directory
        self.archive = directory / str(record.url).rpartition("/")[2]
        self.checkpoint = directory / record.member
        self._note_path = self.archive.with_name(self.archive.name + ".json")

    def make(self) -> None:
        """Makes the directory."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            writable = os.access(self.directory, os.W_OK)
            reason = "it may not be written to"
        except OSError as error:
            writable, reason = False, str(error.strerror)
        if not writable:
            raise DownloadError(
                f"{self.record.name} cannot be put into {self.directory}: {reason}.",
                next_step=f"Name another directory with --to, or with {CACHE_VARIABLE}.",
            )

    def find(self, url: str | None) -> Downloaded | None:
        """The checkpoint, if it is there as it was unpacked."""
        note = self._read_note()
        files = family_files(self.checkpoint)
        complete = is_complete([file.name for file in files], self.record.member)
        if url is not None and (complete or self.archive.exists()):
            source = shown_url(url)
            if note is None or note.source != source:
                raise OutputExistsError(
                    f"{self.checkpoint if complete else self.archive} is already there and "
                    f"is not known to come from {source}.",
                    next_step="Add --overwrite to replace it, or name another directory.",
                )
        if note is None and complete:
            return self._downloaded("present", None, files)
        if note is None or not note.files or not complete:
            return None
        sizes = {file.name: file.stat().st_size for file in files}
        if sizes != note.files:
            raise OutputExistsError(
                f"{self.checkpoint} is not what was unpacked there.",
                expected=_listed_sizes(note.files),
                received=_listed_sizes(sizes),
                next_step=f"slimtune download {self.record.name} --to {self.directory} "
                "--overwrite replaces it.",
            )
        return self._downloaded("present", note, files)

    def use_archive(self, source: str) -> Downloaded:
        """Unpacks the archive that is there."""
        again = f"Remove {self.archive}, or add --overwrite to fetch {source}."
        note = _Note(source, sha256_of(self.archive), self.archive.stat().st_size, {})
        self._compare(note, again)
        try:
            with self._unpacking_directory() as unpacked:
                unpack_checkpoint(self.archive, self.record.member, unpacked)
                self._keep(unpacked, note, self.archive)
        except BrokenFileError as error:
            raise BrokenFileError(
                error.message, expected=error.expected, received=error.received, next_step=again
            ) from error
        return self._downloaded("unpacked", note)

    def use_address(
        self, address: str, source: str, progress: Progress, policy: RetryPolicy
    ) -> Downloaded:
        """Fetches the archive and unpacks it before it takes its name."""
        partial = self.archive.with_name(self.archive.name + ".partial")
        by_hand = (
            f"Fetch {source} by other means and put it at {self.archive}: it is used from there. "
            f"Or name another address with --url, or a mirror with {MIRROR_VARIABLE}."
        )
        fetched = fetch(
            address,
            partial,
            description=self.record.name,
            next_step=by_hand,
            progress=progress,
            policy=policy,
        )
        progress.say(f"{self.record.name}: unpacking {megabytes(fetched.size)}.")
        note = _Note(source, sha256_of(partial), fetched.size, {})
        try:
            self._compare(note, "")
            with self._unpacking_directory() as unpacked:
                if _is_checkpoint_file(partial):
                    partial.replace(unpacked / self.record.member)
                    self._keep(unpacked, note, None)
                else:
                    unpack_checkpoint(partial, self.record.member, unpacked)
                    self._keep(unpacked, note, partial)
        except DownloadError:
            discard(partial)
            raise
        except BrokenFileError as error:
            discard(partial)
            raise DownloadError(
                f"{self.record.name}: what came from {shown_url(address)} cannot be used: "
                f"{error.message}",
                expected=error.expected,
                received=error.received,
                next_step=by_hand,
            ) from error
        discard(partial)
        return replace(self._downloaded("downloaded", note), resumed=fetched.resumed)

    def _downloaded(
        self,
        status: Literal["downloaded", "unpacked", "present"],
        note: _Note | None,
        files: list[Path] | None = None,
    ) -> Downloaded:
        return Downloaded(
            name=self.record.name,
            path=self.checkpoint,
            files=tuple(family_files(self.checkpoint) if files is None else files),
            status=status,
            archive=self.archive if self.archive.exists() else None,
            url=None if note is None else note.source,
            sha256=None if note is None else note.sha256,
            size=None if note is None else note.size,
        )

    def _compare(self, new: _Note, otherwise: str) -> None:
        """Refuses another file than the one that came first from the same source."""
        old = self._read_note()
        if old is None or old.source != new.source or old.sha256 == new.sha256:
            return
        raise DownloadError(
            f"{self.record.name}: this is not the file that came from {new.source} before.",
            expected=f"SHA-256 {old.sha256}, {old.size} bytes (noted in {self._note_path})",
            received=f"SHA-256 {new.sha256}, {new.size} bytes",
            next_step=f"If the new file is right, remove {self._note_path} and try again. "
            f"{otherwise}".rstrip(),
        )

    @contextmanager
    def _unpacking_directory(self) -> Iterator[Path]:
        """An empty directory beside the others; one that a kill left is cleared away."""
        path = self.directory / f".{self.record.name}.unpacking"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _keep(self, unpacked: Path, note: _Note, archive: Path | None) -> None:
        """Puts everything into its place: after a kill the old, the new or no checkpoint.

        A checkpoint is there when its first file is, the index of V2 or the file of V1; so
        that one goes first and comes last.
        """
        self._write_note(note)
        if archive is None:
            self.archive.unlink(missing_ok=True)
        else:
            archive.replace(self.archive)
        member = self.record.member
        new = sorted(unpacked.iterdir(), key=lambda file: file.name in (member, f"{member}.index"))
        kept = member if new[-1].name == member else None
        old = [file for file in family_files(self.checkpoint) if file.name != kept]
        for file in sorted(old, key=lambda file: file.name != f"{member}.index"):
            file.unlink()
        sizes = {file.name: file.stat().st_size for file in new}
        for file in new:
            file.replace(self.directory / file.name)
        self._write_note(replace(note, files=sizes))

    def _write_note(self, note: _Note) -> None:
        write_json(self._note_path, asdict(note))

    def _read_note(self) -> _Note | None:
        try:
            return _Note(**json.loads(self._note_path.read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, RecursionError) as error:
            raise BrokenFileError(
                f"{self._note_path} is not a note of a download ({error}).",
                next_step="Remove it and try again.",
            ) from error


def family_files(checkpoint: Path) -> list[Path]:
    """The files beside `checkpoint` that belong to it by their names, sorted."""
    name = re.compile(re.escape(checkpoint.name) + CHECKPOINT_SUFFIX)
    if not checkpoint.parent.is_dir():
        return []
    files = (file for file in checkpoint.parent.iterdir() if name.fullmatch(file.name))
    return sorted(file for file in files if file.is_file())


def _bundled(record: PublishedCheckpoint, to: str | Path | None, url: str | None) -> Downloaded:
    path = Path(__file__).resolve().parent.parent / str(record.bundled)
    files = family_files(path)
    if not is_complete([file.name for file in files], path.name):
        raise NotFoundError(
            f"{path}, which ships with slimtune, is not there.",
            next_step="Install slimtune again.",
        )
    if to is not None or url is not None:
        raise UsageError(
            f"{record.name!r} ships with slimtune and is not downloaded: {path}.",
            next_step=f"Use --checkpoint {record.name}, or copy {path}.*",
        )
    return Downloaded(name=record.name, path=path, files=tuple(files), status="bundled")


def _mirrored(url: str) -> str:
    mirror = os.environ.get(MIRROR_VARIABLE, "").strip().rstrip("/")
    return mirror + url.removeprefix(PUBLISHED_AT) if mirror else url


def _is_checkpoint_file(path: Path) -> bool:
    """Whether the file is no archive but a V1 checkpoint itself."""
    from checkpoints.table import MAGIC

    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(MAGIC)))
        return file.read() == MAGIC


def _listed_sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} ({size} bytes)" for name, size in sorted(sizes.items()))
