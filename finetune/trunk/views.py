"""The pictures of a split as training shows them: which view of which picture, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import labels_to_learn, read_index
from finetune.input_pipeline import PictureReader, views_dataset
from finetune.preprocessing import Preprocessing
from finetune.trunk.store import Key
from finetune.workers.part import Part


class Views:
    """Some views of each picture: the plain one, and others distorted in ways of their own.

    A distortion is a function of the picture's content and the number of the view, so that it is
    the same in every run. An epoch shows one view of each picture, another one in the next; the
    order is that of `training_dataset`.

    Attributes:
      dataset: whose pictures.
      count: pictures.
      views: of each picture.
      labels: int64 [count]; where pictures may have several classes, 0 or 1 for each,
        [count, classes].
    """

    def __init__(
        self,
        dataset: Dataset,
        preprocessing: Preprocessing,
        *,
        split: str = "train",
        views: int = 1,
        augment: str = "none",
        seed: int = 0,
        part: Part | None = None,
        progress: Progress = SILENT,
    ) -> None:
        """Reads every picture once, for the hash of its content.

        Args:
          dataset: the shards.
          preprocessing: how a picture becomes input.
          split: whose pictures.
          views: of each picture.
          augment: "full" or "fast" for the views beside the plain one.
          seed: of the order.
          part: the rows of each batch that `shown` and `training` give; None: all.
          progress: told how far reading is.

        Raises:
          DataError: a shard is damaged.
        """
        self.dataset = dataset
        index = read_index(dataset.split(split))
        self._reader = PictureReader(index, seed, labels_to_learn(dataset, index), part)
        self._preprocessing = preprocessing
        self._augment = augment if views > 1 else "none"
        self.views = views
        self.count = len(self._reader.index)
        self.labels: NDArray[np.int64] = self._reader.labels
        self._hashes: list[bytes] = []
        with progress.task("Reading pictures", self.count, "pictures") as task:
            for row in range(self.count):
                # Views follow the boxes, where there are some.
                boxes = self._reader.index.boxes_of(row).tobytes()
                self._hashes.append(sha256(self._reader.picture(row) + boxes).digest())
                task.advance()

    @property
    def description(self) -> dict[str, Any]:
        """What activations depend on beside the picture, the view's number and the trunk."""
        return {"preprocessing": self._preprocessing.as_json(), "augment": self._augment}

    def key(self, row: int, view: int = 0) -> Key:
        """What a view of a picture is stored under."""
        return self._hashes[row], view

    def names(self) -> tuple[str, ...]:
        """The file of each picture."""
        rows = range(self.count)
        return tuple(self._reader.name(row).decode("utf-8", "replace") for row in rows)

    def keys(self) -> Iterator[Key]:
        """All views of all pictures, those of a picture together."""
        return (self.key(row, view) for row in range(self.count) for view in range(self.views))

    def shown(self, start: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and views of the positions start, start + 1 ... of a run."""
        rows, epochs = self._reader.positions(start, count)
        return rows, (rows + epochs) % self.views

    def training(self, start: int, rows: int) -> Any:
        """Batches of so many as they are shown from a position on, without end: a tf.data.Dataset."""

        def pick(first: int, count: int) -> tuple[Any, ...]:
            return self._picked(*self.shown(first, count))

        return self._dataset(pick, rows, start=start)

    def chosen(self, keys: list[Key], batch_size: int) -> Any:
        """Batches of the views that have these keys, each once: a tf.data.Dataset."""
        # One picture may stand in the split twice; its features are the same.
        places = {digest: row for row, digest in enumerate(self._hashes)}
        rows = np.array([places[key[0]] for key in keys], np.int64)
        views = np.array([key[1] for key in keys], np.int64)

        def pick(first: int, count: int) -> tuple[Any, ...]:
            part = slice(first, first + count)
            return self._picked(rows[part], views[part])

        return self._dataset(pick, batch_size, end=len(keys))

    def _dataset(self, pick: Callable[..., tuple[Any, ...]], batch_size: int, **bounds: int) -> Any:
        return views_dataset(
            pick,
            self._preprocessing,
            batch_size,
            self._augment,
            label_shape=self.labels.shape[1:],
            **bounds,
        )

    def _picked(self, rows: NDArray[np.int64], views: NDArray[np.int64]) -> tuple[Any, ...]:
        keys = np.empty((len(rows), 2), np.int64)
        # Of the hash as much as a seed holds; pipelines number records by even keys.
        keys[:, 0] = [int.from_bytes(self._hashes[row][:8], "little") >> 1 for row in rows]
        keys[:, 1] = views << 1
        boxes = self._reader.boxes(rows)
        return self._reader.pictures(rows), self.labels[rows], keys, views, boxes
