"""What runs the two heavy steps of `data build`: pictures are cleaned, shards are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from checkpoints.progress import Task
from finetune.datasets.cleaning import Cleaned, Rejected, clean_all
from finetune.datasets.shard_writer import (
    PlannedRecord,
    PlannedShard,
    WrittenShard,
    read_unchanged,
    write_shard,
)
from finetune.datasets.sources import Source
from finetune.datasets.workplace import Workplace


class Runner(Protocol):
    """Cleans the pictures of a source and writes its shards."""

    def clean(
        self, source: Source, max_side: int | None, task: Task
    ) -> Iterator[Cleaned | Rejected]:
        """An answer for each item of the source, in their order. `task` counts pictures."""
        ...

    def write(
        self, source: Source, shards: Sequence[PlannedShard], task: Task
    ) -> Iterator[WrittenShard]:
        """Writes the shards; what is in each, in their order. `task` counts pictures."""
        ...


class LocalRunner:
    """Worker processes of this machine clean; a re-encoded picture waits in a file for its shard."""

    def __init__(self, place: Workplace, processes: int | None) -> None:
        """Writes on this machine: shards, and re-encoded pictures as scratch."""
        self._directory = place.directory
        self._spool = Path(str(place.scratch))
        self._processes = processes
        self._spool.mkdir()

    def clean(
        self, source: Source, max_side: int | None, task: Task
    ) -> Iterator[Cleaned | Rejected]:
        """An answer for each item of the source, in their order."""
        paths = [item.path for item in source.items]
        for answer in clean_all(
            source.root, paths, self._spool, self._processes, max_side, source.reader
        ):
            task.advance()
            yield answer

    def write(
        self, source: Source, shards: Sequence[PlannedShard], task: Task
    ) -> Iterator[WrittenShard]:
        """Writes the shards one after the other."""
        for shard in shards:
            with (self._directory / shard.file).open("wb") as file:
                yield write_shard(file, shard.records, partial(self._stored_bytes, source))
            task.advance(len(shard.records))

    def _stored_bytes(self, source: Source, record: PlannedRecord) -> bytes:
        picture = record.picture
        if picture.spool:
            with (self._spool / picture.spool).open("rb") as file:
                file.seek(picture.offset)
                return file.read(picture.size)
        data = read_unchanged(picture, source.reader, source.root, record.item.path)
        return data[: picture.size]
