"""Several processes fill their stores together: each computes its share, and all get all."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.progress import SILENT, Progress
from finetune.pipeline_errors import data_errors
from finetune.trunk.extraction import BATCH_SIZE
from finetune.trunk.frozen import Trunk
from finetune.trunk.store import FeatureStore, Key
from finetune.trunk.views import Views
from finetune.workers.workers import Workers

ROUND_BYTES = 16 << 20
"""What one process sends at a time."""


def extract_together(
    trunk: Trunk,
    store: FeatureStore,
    views: Views,
    missing: list[Key],
    workers: Workers,
    progress: Progress = SILENT,
) -> float:
    """Computes what any of the processes lacks, each a share of it; to be called by all.

    Args:
      trunk: what gives the activations: the same in all processes.
      store: of this process; several may share one.
      views: the pictures, the same in all processes.
      missing: which of them this process's store lacks.
      workers: the processes.
      progress: told how far all are, in pictures a second.

    Returns:
      Pictures a second, of all together.

    Raises:
      DataError: a picture is damaged.
      RunError: a process was lost.
      OSError: the disk is full.
    """
    began = time.monotonic()
    lacking = set(missing)
    keys = list(dict.fromkeys(views.keys()))
    lacked = workers.gather(np.array([key in lacking for key in keys], np.int32)).sum(axis=0)
    wanted = [keys[place] for place in np.flatnonzero(lacked)]
    shares = [wanted[index :: workers.count] for index in range(workers.count)]
    rows = max(1, min(ROUND_BYTES // store.record_bytes, len(shares[0])))
    computed = _in_rounds(trunk, store, views, shares[workers.index], rows)
    with (
        progress.task("Features", len(wanted), "pictures") as task,
        data_errors(views.dataset, progress),
    ):
        for start in range(0, len(shares[0]), rows):
            sent = next(computed)
            packed = np.zeros(math.ceil(sent.nbytes / 4), np.int32)
            packed.view(np.uint8)[: sent.nbytes] = sent.reshape(-1).view(np.uint8)
            for share, heard in zip(shares, workers.gather(packed), strict=True):
                found = np.frombuffer(heard.tobytes()[: sent.nbytes], store.dtype)
                part = share[start : start + rows]
                chosen = [place for place, key in enumerate(part) if key in lacking]
                if chosen:
                    activations = found.reshape(sent.shape)[chosen]
                    store.write([part[place] for place in chosen], activations)
                task.advance(len(part))
            done = min(len(wanted), (start + rows) * workers.count)
            task.note(f"{done / (time.monotonic() - began):.0f} pictures/s")
    return len(wanted) / (time.monotonic() - began)


def _in_rounds(
    trunk: Trunk, store: FeatureStore, views: Views, keys: list[Key], rows: int
) -> Iterator[NDArray[Any]]:
    """The activations of a share, so many rows at a time; zeros where there are no more."""
    waiting = np.empty((0, *store.shape), store.dtype)
    if keys:
        for activations, _ in trunk.activations(lambda: views.chosen(keys, BATCH_SIZE)):
            waiting = np.concatenate([waiting, activations])
            while len(waiting) >= rows:
                yield waiting[:rows]
                waiting = waiting[rows:]
    while True:
        yield np.concatenate([waiting, np.zeros((rows - len(waiting), *store.shape), store.dtype)])
        waiting = waiting[:0]
