"""`data build --runner beam`: pictures cleaned and shards written by the workers of Apache Beam."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from checkpoints.errors import DataError
from checkpoints.progress import Task
from finetune.beam.jobs import Jobs
from finetune.beam.options import BeamOptions
from finetune.cloud.paths import Place, as_place
from finetune.cloud.places import new_file
from finetune.datasets.cleaning import (
    Cleaned,
    Job,
    Rejected,
    clean_batch,
    content_digest,
    decode_answers,
    decode_cleaned,
    encode_answers,
)
from finetune.datasets.pictures import clean_bytes
from finetune.datasets.shard_writer import (
    PlannedRecord,
    PlannedShard,
    WrittenShard,
    read_unchanged,
    write_shard,
)
from finetune.datasets.sources import Box, Source, SourceItem
from finetune.datasets.workplace import Workplace

_BATCH = 16
"""Pictures a line of an order."""

_FEWEST, _MOST = 16, 1024
_JOBS = 64
"""So many jobs at least, unless they would have fewer pictures than _FEWEST; at most _MOST each."""


class BeamRunner:
    """Runs the two heavy steps of a build as pipelines of Apache Beam."""

    def __init__(self, place: Workplace, options: BeamOptions) -> None:
        """All places but `place.directory` are such that workers reach them."""
        self._shards = _everywhere(place.shards)
        self._scratch = _everywhere(place.scratch)
        self._options = options
        self._max_side: int | None = None

    def clean(
        self, source: Source, max_side: int | None, task: Task
    ) -> Iterator[Cleaned | Rejected]:
        """An answer for each item of the source, in their order."""
        jobs = Jobs(self._scratch / "clean", self._options)
        count = len(source.items)
        size = min(_MOST, max(_FEWEST, -(-count // _JOBS)))
        for start in range(0, count, size):
            stop = min(start + size, count)
            jobs.add(_order_to_clean(source, start, stop), stop - start)
        self._max_side = max_side
        jobs.run(clean_pictures, _settings(source, max_side), task)
        for lines in jobs.answers():
            for line in lines:
                yield from decode_answers(line)
        jobs.remove()

    def write(
        self, source: Source, shards: Sequence[PlannedShard], task: Task
    ) -> Iterator[WrittenShard]:
        """Writes each shard whole, by one worker."""
        jobs = Jobs(self._scratch / "write", self._options)
        for shard in shards:
            jobs.add(_order_to_write(shard), len(shard.records))
        settings = _settings(source, self._max_side) | {"shards": str(self._shards)}
        jobs.run(write_pictures, settings, task)
        for lines in jobs.answers():
            yield WrittenShard(*json.loads(next(lines)))
        jobs.remove()


def _everywhere(place: Place) -> Place:
    """As workers find it, who may have another working directory."""
    return place.absolute() if isinstance(place, Path) else place


def _settings(source: Source, max_side: int | None) -> dict[str, Any]:
    return {
        "root": str(_everywhere(source.root)),
        "reader": source.reader,
        "max_side": max_side,
    }


def _order_to_clean(source: Source, start: int, stop: int) -> Iterator[bytes]:
    for first in range(start, stop, _BATCH):
        items = source.items[first : min(first + _BATCH, stop)]
        yield json.dumps([first, [item.path for item in items]]).encode("ascii")


def clean_pictures(settings: dict[str, Any], order: Iterator[bytes]) -> Iterator[bytes]:
    """The work of a worker that cleans: batches of paths -> an answer for each picture."""
    job = Job(settings["root"], None, settings["max_side"], settings["reader"])
    for line in order:
        first, paths = json.loads(line)
        yield encode_answers(clean_batch(job, first, paths))


def _order_to_write(shard: PlannedShard) -> Iterator[bytes]:
    yield json.dumps(shard.file).encode("ascii")
    for record in shard.records:
        yield json.dumps(record, default=bytes.hex).encode("ascii")


def write_pictures(settings: dict[str, Any], order: Iterator[bytes]) -> Iterator[bytes]:
    """The work of a worker that writes: what a shard's records are -> what is in its file."""
    name = json.loads(next(order))
    with new_file(as_place(settings["shards"]) / name) as file:
        written = write_shard(file, map(_record, order), partial(_stored_bytes, settings))
    yield json.dumps(written).encode("ascii")


def _record(line: bytes) -> PlannedRecord:
    picture, item, labels, text = json.loads(line)
    path, label, split, boxes, name, all_labels = item
    return PlannedRecord(
        decode_cleaned(picture),
        SourceItem(path, label, split, tuple(Box(*box) for box in boxes), name, tuple(all_labels)),
        tuple(labels),
        text,
    )


def _stored_bytes(settings: dict[str, Any], record: PlannedRecord) -> bytes:
    """The picture read again, and encoded again where it had to be: nothing waited for it."""
    picture, path = record.picture, record.item.path
    root = as_place(settings["root"])
    data = read_unchanged(picture, settings["reader"], root, path)
    if not picture.encoding:
        return data[: picture.size]
    again = clean_bytes(str(root / path), data, settings["max_side"])
    if content_digest(again.encoded) != picture.encoding:
        raise DataError(
            f"{root / path} became other bytes when it was encoded once more.",
            expected="the same Pillow on every worker",
            next_step="Install the same versions on every worker, as in requirements.lock.",
        )
    return again.encoded
