"""slimtune's input pipelines as steps to be timed, and what all steps of the group `input` share."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 32


def train(dataset: str, size: str, count: str) -> Callable[[], Any]:
    """The step: an epoch of distorted pictures, in batches."""
    from finetune.datasets.dataset import read_dataset
    from finetune.input_pipeline import training_dataset
    from finetune.preprocessing import Preprocessing

    net_input = Preprocessing("inception", int(size))
    batches = training_dataset(read_dataset(Path(dataset)), net_input, BATCH, seed=0)
    return epoch_of(batches, int(count))


def evaluate(dataset: str, size: str, count: str) -> Callable[[], Any]:
    """The step: each picture once, in the order of the records."""
    from finetune.datasets.dataset import read_dataset
    from finetune.input_pipeline import evaluation_dataset
    from finetune.preprocessing import Preprocessing

    read, net_input = read_dataset(Path(dataset)), Preprocessing("inception", int(size))
    return all_of(lambda: evaluation_dataset(read, "train", net_input, BATCH), int(count))


def epoch_of(batches: Any, count: int) -> Callable[[], list[int]]:
    """The step that takes an epoch of an endless pipeline; returns how many of each label came.

    Args:
      batches: of (images, labels); `count` is a multiple of their size.
      count: pictures of an epoch.
    """
    iterator = iter(batches)

    def step() -> list[int]:
        taken = 0
        labels = np.zeros(0, np.int64)
        while taken < count:
            found = np.bincount(next(iterator)[1].numpy())
            labels = np.pad(labels, (0, max(0, len(found) - len(labels))))
            labels[: len(found)] += found
            taken += int(found.sum())
        return [int(number) for number in labels]

    return step


def all_of(make: Callable[[], Any], count: int) -> Callable[[], list[int]]:
    """The step that runs a pipeline to its end; returns a checksum of all pixels and labels.

    The checksum is made in the first call, which is not timed.

    Args:
      make: gives the pipeline, of (images, labels, ...).
      count: pictures that have to come.
    """
    checksums: list[int] = []

    def step() -> list[int]:
        taken = checksum = 0
        for images, labels, *_ in make():
            taken += len(labels)
            if not checksums:
                checksum = zlib.crc32(labels.numpy().tobytes(), checksum)
                checksum = zlib.crc32(images.numpy().tobytes(), checksum)
        if not checksums:
            checksums.append(checksum)
        if taken != count:
            raise ValueError(f"{taken} pictures came, not {count}")
        return [taken, *checksums]

    return step
