"""Fills a store: each picture that it lacks goes through the trunk once."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.progress import SILENT, Progress
from finetune.pipeline_errors import data_errors
from finetune.trunk.frozen import Trunk
from finetune.trunk.store import SHARD_BYTES, FeatureStore, Key
from finetune.trunk.views import Views

BATCH_SIZE = 32

SHARD_SECONDS = 30.0
"""A smaller shard is written after so long; a kill loses no more work."""


def extract(
    trunk: Trunk,
    store: FeatureStore,
    views: Views,
    missing: list[Key],
    progress: Progress = SILENT,
) -> float:
    """Computes and stores the activations of pictures. TensorFlow's threads decode meanwhile.

    Args:
      trunk: what gives the activations.
      store: where they go, a shard at a time.
      views: the pictures.
      missing: which of them.
      progress: told how far it is, in pictures a second.

    Returns:
      Pictures a second.

    Raises:
      DataError: a picture is damaged.
      OSError: the disk is full.
    """
    began = last = time.monotonic()
    shard_pictures = max(BATCH_SIZE, SHARD_BYTES // store.record_bytes)
    waiting: list[NDArray[Any]] = []
    done = written = 0
    with (
        progress.task("Features", len(missing), "pictures") as task,
        data_errors(views.dataset, progress),
    ):
        for activations, _ in trunk.activations(lambda: views.chosen(missing, BATCH_SIZE)):
            waiting.append(activations)
            done += len(activations)
            now = time.monotonic()
            is_due = done - written >= shard_pictures or now - last >= SHARD_SECONDS
            if is_due or done == len(missing):
                store.write(missing[written:done], np.concatenate(waiting))
                waiting, written, last = [], done, now
            task.advance(len(activations))
            task.note(f"{done / (time.monotonic() - began):.0f} pictures/s")
    return done / (time.monotonic() - began)
