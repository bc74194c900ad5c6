"""`features --runner beam`: the features of ranges of batches, by the workers of Apache Beam."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.progress import SILENT, Task
from finetune.beam.jobs import Jobs
from finetune.beam.options import BeamOptions
from finetune.cloud.places import new_file
from finetune.datasets.dataset import Dataset, Shard, Split
from finetune.feature_file import (
    BATCH_SIZE,
    AskedFeatures,
    Batch,
    open_with_bottleneck,
    split_batches,
)
from finetune.model import Model
from finetune.nets.file_options import NetOptions

_MOST_BATCHES = 64
"""A job's, which builds the model's graph first."""

_JOBS_A_PROCESS = 4
_MANY_PROCESSES = 16
"""Counted on where another engine runs the jobs."""


def compute_features(
    asked: AskedFeatures, dataset: Dataset, directory: Path, options: BeamOptions, task: Task
) -> Iterator[Batch]:
    """The features of every split, in order.

    Args:
      asked: which model's.
      dataset: the shards, which every worker reaches under their paths.
      directory: an empty one, which every worker reaches.
      options: how Beam runs.
      task: counts pictures.

    Raises:
      SlimtuneError: what a worker met.
      DataError: Beam gave up.
    """
    directory, model = directory.absolute(), Path(asked.model)
    jobs = Jobs(directory, options)
    parts: list[tuple[str, Path]] = []
    total = sum(-(-split.count // BATCH_SIZE) for split in dataset.splits.values())
    wanted = _JOBS_A_PROCESS * (options.processes or _MANY_PROCESSES)
    size = BATCH_SIZE * min(_MOST_BATCHES, -(-total // wanted))
    for name, split in dataset.splits.items():
        for start in range(0, split.count, size):
            end = min(start + size, split.count)
            file = directory / f"{len(parts):08d}.features"
            jobs.add([json.dumps(_order(split, start, end, file)).encode("ascii")], end - start)
            parts.append((name, file))
    settings = {
        # Workers may have another working directory; what is no file is a published name.
        "model": str(model.absolute()) if model.exists() else asked.model,
        "net": asked.net,
        "options": asdict(asked.options),
        "trust": asked.trust,
        "classes": list(dataset.classes),
        "multi_label": dataset.multi_label,
    }
    jobs.run(write_features, settings, task)
    for (name, path), lines in zip(parts, jobs.answers(), strict=True):
        with path.open("rb") as values:
            for line in lines:
                labels, names, channels = json.loads(line)
                data = values.read(4 * len(labels) * channels)
                features = np.frombuffer(data, "<f4").reshape(len(labels), channels)
                yield Batch(name, features, np.array(labels, np.int64), names)
        path.unlink()


def _order(split: Split, start: int, end: int, file: Path) -> dict[str, Any]:
    """A range of a split's pictures; only the shards that hold them are named."""
    shards: list[list[Any]] = []
    first = before = 0
    for shard in split.shards:
        if before + shard.count > start and before < end:
            if not shards:
                first = before
            shards.append([str(shard.path.absolute()), shard.count, shard.sha256])
        before += shard.count
    return {
        "split": split.name,
        "label_offset": split.label_offset,
        "shards": shards,
        "start": start - first,
        "end": end - first,
        "file": str(file),
    }


def write_features(settings: dict[str, Any], order: Iterator[bytes]) -> Iterator[bytes]:
    """The work of a worker: features into a file, little-endian float32; the rest as its answer."""
    model = _open(json.dumps([settings[key] for key in ("model", "net", "options")]))
    for line in order:
        told = json.loads(line)
        shards = tuple(Shard(Path(path), count, digest) for path, count, digest in told["shards"])
        split = Split(told["split"], shards, told["label_offset"])
        dataset = Dataset(
            shards[0].path.parent,
            "",
            tuple(settings["classes"]),
            {split.name: split},
            multi_label=settings["multi_label"],
        )
        batches = split_batches(
            model, dataset, split.name, settings["trust"], told["start"], told["end"]
        )
        with new_file(Path(told["file"])) as file:
            for batch in batches:
                file.write(batch.features.astype("<f4").tobytes())
                answer = [batch.labels.tolist(), batch.names, batch.features.shape[1]]
                yield json.dumps(answer).encode("ascii")


@functools.lru_cache(maxsize=1)
def _open(told: str) -> Model:
    """The model, once a process."""
    model, net, options = json.loads(told)
    return open_with_bottleneck(model, net, NetOptions(**options), SILENT)
