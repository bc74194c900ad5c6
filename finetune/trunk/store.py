"""Activations on disk: shards of records by picture and view, shared between runs.

A store is a directory of .npy files (docs/formats/features.md). Each is written beside its place
and renamed, so a shard is whole or absent; records say their own checksum. Files that are not
shards are left alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkpoints.cache import cache_directory
from checkpoints.checksum import crc32c
from checkpoints.family_files import size_of
from checkpoints.files import atomic_file, write_json
from checkpoints.progress import SILENT, Progress

LIMIT_VARIABLE = "SLIMTUNE_FEATURES_GB"
"""The environment variable that says how large all stores together may be."""

DEFAULT_LIMIT_GB = 20.0
FREE_SHARE = 0.5
"""Stores take at most this share of what is free on the disk."""

SHARD_BYTES = 64 << 20
"""A shard is written when so much has come together; a kill loses no more."""

SUFFIX = ".features.npy"
DESCRIPTION = "store.json"

Key: TypeAlias = tuple[bytes, int]
"""SHA-256 of a picture's encoded bytes, and the number of its view."""


def features_directory() -> Path:
    """Where all stores lie."""
    return cache_directory() / "features"


def limit_bytes(directory: Path) -> int:
    """How large all stores together may be, in bytes."""
    try:
        limit = float(os.environ.get(LIMIT_VARIABLE, ""))
    except ValueError:
        limit = DEFAULT_LIMIT_GB
    existing = next(place for place in (directory, *directory.parents) if place.is_dir())
    free = shutil.disk_usage(existing).free
    return int(min(limit * 1e9, _size_of(directory) + FREE_SHARE * free))


@dataclass(frozen=True)
class Record:
    """Where the activations of one picture lie."""

    shard: NDArray[Any]
    row: int


class FeatureStore:
    """The activations that one trunk gives for pictures that are prepared in one way.

    Attributes:
      directory: where its shards lie.
      shape: of one picture's activations.
      dtype: theirs: float32 or bfloat16.
    """

    def __init__(
        self,
        what: Mapping[str, Any],
        shape: tuple[int, ...],
        dtype: Any,
        directory: Path | None = None,
    ) -> None:
        """Names the store; nothing is read or written yet.

        Args:
          what: all that the activations depend on beside the picture, as JSON: the digest of
            the trunk, the preprocessing, the distortion.
          shape: of one picture's activations.
          dtype: numpy's dtype of them.
          directory: of all stores; None: in the cache.
        """
        self.what = dict(what)
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.root = features_directory() if directory is None else directory
        self.directory = self.root / _digest(self.what)[:32]
        self._records: dict[Key, Record] = {}

    @property
    def record_bytes(self) -> int:
        """What one picture's record takes on disk."""
        return self._record_dtype.itemsize

    @property
    def _record_dtype(self) -> np.dtype[Any]:
        # .npy files know no bfloat16; its bits go in as whole numbers.
        kept = np.dtype("<u2") if self.dtype.itemsize == 2 else np.dtype("<f4")
        return np.dtype(
            [
                ("picture", "u1", (32,)),
                ("view", "<u4"),
                ("checksum", "<u4"),
                ("activations", kept, self.shape),
            ]
        )

    def find(self, keys: Iterable[Key], progress: Progress = SILENT) -> list[Key]:
        """Opens what is stored of these pictures; gives those that are not, in order.

        Damaged shards and records count as absent, and are told of.
        """
        wanted = dict.fromkeys(keys)
        if self.directory.is_dir():
            with suppress(OSError):  # a cache that may only be read keeps the time it has
                os.utime(self.directory)
            for file in sorted(self.directory.glob(f"*{SUFFIX}")):
                self._open(file, wanted, progress)
        return [key for key in wanted if key not in self._records]

    def _open(self, file: Path, wanted: Mapping[Key, None], progress: Progress) -> None:
        try:
            shard = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError):
            shard = None
        if shard is None or shard.dtype != self._record_dtype or shard.ndim != 1:
            progress.say(f"{file} is no shard of stored features and is not used.")
            return
        pictures = np.ascontiguousarray(shard["picture"])
        views = np.ascontiguousarray(shard["view"])
        damaged = 0
        for row, (picture, view) in enumerate(zip(pictures, views, strict=True)):
            key = (picture.tobytes(), int(view))
            if key not in wanted or key in self._records:
                continue
            if crc32c(shard[row]["activations"].tobytes()) == int(shard[row]["checksum"]):
                self._records[key] = Record(shard, row)
            else:
                damaged += 1
        if damaged:
            progress.say(f"{file}: {damaged} records are damaged and are computed again.")

    def read(self, keys: Iterable[Key]) -> NDArray[np.float32]:
        """The activations of pictures that were found or written, float32 [pictures, ...]."""
        records = [self._records[key] for key in keys]
        rows = np.stack([record.shard[record.row]["activations"] for record in records])
        return rows.view(self.dtype).astype(np.float32)

    def write(self, keys: list[Key], activations: NDArray[Any]) -> None:
        """Writes a shard of pictures; afterwards they can be read.

        Args:
          keys: the pictures.
          activations: [pictures, ...], of the store's dtype.
        """
        shard = np.empty(len(keys), self._record_dtype)
        shard["picture"] = np.frombuffer(b"".join(key[0] for key in keys), np.uint8).reshape(-1, 32)
        shard["view"] = [key[1] for key in keys]
        shard["activations"] = activations.view(shard["activations"].dtype)
        shard["checksum"] = [crc32c(row.tobytes()) for row in shard["activations"]]
        if not (self.directory / DESCRIPTION).is_file():
            write_json(self.directory / DESCRIPTION, self.what)
        name = sha256(b"".join(key[0] + key[1].to_bytes(4, "little") for key in keys)).hexdigest()
        file = self.directory / f"{name[:32]}{SUFFIX}"
        with atomic_file(file) as opened:
            np.save(opened, shard, allow_pickle=False)
        written = np.load(file, mmap_mode="r", allow_pickle=False)
        self._records.update((key, Record(written, row)) for row, key in enumerate(keys))

    def make_room(self, records: int) -> int | None:
        """Removes the stores that were not used for longest, until so many records have room.

        Args:
          records: how many are to be written.

        Returns:
          How many bytes all stores will take; None where there would be no room even so.
        """
        needed = records * self.record_bytes
        limit = limit_bytes(self.root)
        own = _size_of(self.directory)
        if own + needed > limit:
            return None
        others = sorted(
            (place for place in _stores(self.root) if place != self.directory),
            key=_last_use,
        )
        total = own + needed + sum(map(_size_of, others))
        for place in others:
            if total <= limit:
                break
            total -= _size_of(place)
            _remove_shards(place)
        return total


def _digest(value: Any) -> str:
    import json

    return sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()


def _stores(root: Path) -> list[Path]:
    return [file.parent for file in root.glob(f"*/{DESCRIPTION}")] if root.is_dir() else []


def _last_use(directory: Path) -> float:
    try:
        return directory.stat().st_mtime
    except FileNotFoundError:  # another process has made room meanwhile
        return 0.0


def _size_of(directory: Path) -> int:
    return sum(size_of(file) or 0 for file in directory.glob(f"**/*{SUFFIX}"))


def _remove_shards(directory: Path) -> None:
    """Removes a store, files that are no part of it left where they are."""
    for file in (*directory.glob(f"*{SUFFIX}"), directory / DESCRIPTION):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # other files are in it, or it has gone
        directory.rmdir()
