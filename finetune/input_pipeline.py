"""Shards to batches: tf.data pipelines for training and evaluation.

Training reads records in an order that is a full shuffle of every epoch, whatever the size
of the data: the places of all records are known (`record_index`), so each is read where it
lies and no shuffle buffer is held. Record p of a run is a function of seed and p alone, so
a run that starts at step n sees what it would have seen at step n, without reading what
came before; the number of threads changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints.checksum import crc32c, mask
from checkpoints.cores import available_cores
from checkpoints.errors import DataError
from exporters.runtime import load_tensorflow
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import RecordIndex, labels_to_learn, read_index
from finetune.datasets.records import FOOTER
from finetune.pipeline_errors import telling
from finetune.pixels.decode import WHOLE_PICTURE
from finetune.preprocessing import Preprocessing
from finetune.workers.part import Part

_CHUNK = 32
"""Records read by one call into Python."""

ENDLESS = 1 << 62
"""Where the numbers of batches end that have no end."""

_Features = Sequence[tuple[Any, Sequence[int | None]]]
"""Type and shape of each thing that is known of a record."""


def training_dataset(
    dataset: Dataset,
    preprocessing: Preprocessing,
    batch_size: int,
    seed: int,
    augment: str = "full",
    start_step: int = 0,
    *,
    split: str = "train",
    part: Part | None = None,
    threads: int | None = None,
) -> Any:
    """Batches without end, every epoch shuffled anew, distorted anew.

    Works eagerly and inside a tf.Graph of one's own. A batch may hold the end of one epoch
    and the beginning of the next, so every batch is full, also with fewer pictures than
    batch_size.

    Args:
      dataset: the shards.
      preprocessing: how a picture becomes input.
      batch_size: pictures a batch.
      seed: of order and distortion.
      augment: "full", "fast" or "none".
      start_step: batches that are left out, as if they had been taken.
      split: whose pictures.
      part: the rows of each batch that are wanted, and nobody reads the others; None: all.
      threads: that decode at the same time; None: as many as there are cores.

    Returns:
      A tf.data.Dataset of (images [rows, size, size, channels] float32 in the preprocessing's
      value range, labels [rows] int64; where pictures may have several classes, 0 or 1 for each,
      [rows, classes] int64). There are batch_size rows, or those of `part`.

    Raises:
      NotFoundError: the split has no pictures.
      DataError: a shard is damaged.
    """
    tf = load_tensorflow()
    index = read_index(dataset.split(split))
    part = part or Part(batch_size)
    reader = PictureReader(index, seed, labels_to_learn(dataset, index), part)

    @tf.autograph.experimental.do_not_convert
    def prepare(encoded: Any, label: Any, key: Any, boxes: Any) -> tuple[Any, Any]:
        return preprocessing.training(encoded, key, augment, boxes), label

    features: _Features = (
        (tf.string, []),
        (tf.int64, reader.labels.shape[1:]),
        (tf.int64, [2]),
        (tf.float32, [None, 4]),
    )
    chunk = min(part.rows, _CHUNK)
    records = _records(reader.shuffled, start_step * part.rows, ENDLESS, chunk, features)
    records = records.map(prepare, num_parallel_calls=threads or available_cores())
    return _finished(records.batch(part.rows, drop_remainder=True))


def views_dataset(
    pick: Callable[[int, int], tuple[Any, ...]],
    preprocessing: Preprocessing,
    batch_size: int,
    augment: str,
    *,
    start: int = 0,
    end: int | None = None,
    label_shape: tuple[int, ...] = (),
    threads: int | None = None,
) -> Any:
    """Batches of views that a function picks by their number.

    Args:
      pick: (start, count) -> encoded pictures, labels, keys [count, 2], numbers of views,
        int64, and boxes [count, n, 4], float32, of that many views or of those that are left. View 0 is the picture as evaluation
        sees it; the others are distorted.
      preprocessing: how a picture becomes input.
      batch_size: pictures a batch; the last one holds the rest.
      augment: "full", "fast" or "none": how views other than 0 are distorted.
      start: number of the first view.
      end: where the numbers end; None: nowhere.
      label_shape: of one label: [classes] where pictures may have several.
      threads: that decode at the same time; None: as many as there are cores.

    Returns:
      A tf.data.Dataset of (images [<= batch_size, size, size, channels] float32 in the
      preprocessing's value range, labels [<= batch_size, *label_shape] int64).
    """
    tf = load_tensorflow()

    @tf.autograph.experimental.do_not_convert
    def prepare(encoded: Any, label: Any, key: Any, view: Any, boxes: Any) -> tuple[Any, Any]:
        if augment == "none":
            return preprocessing.evaluation(encoded), label
        image = tf.cond(
            tf.equal(view, 0),
            lambda: preprocessing.evaluation(encoded),
            lambda: preprocessing.training(encoded, key, augment, boxes),
        )
        return image, label

    features: _Features = (
        (tf.string, []),
        (tf.int64, label_shape),
        (tf.int64, [2]),
        (tf.int64, []),
        (tf.float32, [None, 4]),
    )
    last = ENDLESS if end is None else end
    views = _records(pick, start, last, min(batch_size, _CHUNK), features)
    views = views.map(prepare, num_parallel_calls=threads or available_cores())
    return _finished(views.batch(batch_size))


def evaluation_dataset(
    dataset: Dataset,
    split: str,
    preprocessing: Preprocessing,
    batch_size: int,
    *,
    start: int = 0,
    end: int | None = None,
    threads: int | None = None,
) -> Any:
    """Each picture of a split once, in the order of the shards.

    Args:
      dataset: the shards.
      split: train, val (or validation) or test.
      preprocessing: how a picture becomes input.
      batch_size: pictures a batch; the last batch holds the rest.
      start: number of the first picture.
      end: where the numbers end; None: with the split.
      threads: that decode at the same time; None: as many as there are cores.

    Returns:
      A tf.data.Dataset of (images [<= batch_size, size, size, channels] float32 in the
      preprocessing's value range, labels [<= batch_size] int64, names [<= batch_size] string:
      the picture's file in the source, or its record's place where that is not stored).

    Raises:
      NotFoundError: the split has no pictures.
      DataError: a shard is damaged.
    """
    tf = load_tensorflow()

    @tf.autograph.experimental.do_not_convert
    def prepare(encoded: Any, label: Any, name: Any) -> tuple[Any, Any, Any]:
        return preprocessing.evaluation(encoded), label, name

    records = encoded_dataset(dataset, split, start, end)
    records = records.map(prepare, num_parallel_calls=threads or available_cores())
    return _finished(records.batch(batch_size))


def encoded_dataset(dataset: Dataset, split: str, start: int = 0, end: int | None = None) -> Any:
    """Each record of a split once, in order, not decoded; or those from `start` to `end`.

    Returns:
      A tf.data.Dataset of (encoded scalar string, label scalar int64, name scalar string).

    Raises:
      NotFoundError: the split has no pictures.
      DataError: a shard is damaged.
    """
    tf = load_tensorflow()
    reader = PictureReader(read_index(dataset.split(split)), 0)
    features: _Features = ((tf.string, []), (tf.int64, []), (tf.string, []))
    last = len(reader.index) if end is None else end
    return _records(reader.in_order, start, last, _CHUNK, features)


def _records(
    pick: Callable[[int, int], tuple[Any, ...]],
    start: int,
    end: int,
    chunk: int,
    features: _Features,
) -> Any:
    """What `pick(start, count)` gives from `start` to `end`, `chunk` at a call, as single records.

    `features` are those of one record.
    """
    tf = load_tensorflow()

    # Nothing in here needs AutoGraph, which would read through every module it calls.
    @tf.autograph.experimental.do_not_convert
    def read(first: Any) -> tuple[Any, ...]:
        found = tf.numpy_function(
            telling(lambda first: pick(int(first), min(chunk, end - int(first)))),
            [first],
            [kind for kind, _ in features],
        )
        return tuple(
            tf.ensure_shape(array, [None, *shape])
            for array, (_, shape) in zip(found, features, strict=True)
        )

    return tf.data.Dataset.range(start, end, chunk).map(read).prefetch(2).unbatch()


def _finished(batches: Any) -> Any:
    tf = load_tensorflow()
    options = tf.data.Options()
    options.deterministic = True
    return batches.prefetch(2).with_options(options)


def epoch_order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """The order of an epoch: a permutation of 0 to count - 1.

    It depends on nothing but the arguments, so not on a library's version either.

    Source:
      Steele, Lea and Flood 2014 (SplitMix64's finaliser), as a hash of seed, epoch and index.
    """
    start = _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
    start = _mix(start + np.array([epoch], np.uint64))
    keys = _mix(start + np.arange(count).astype(np.uint64))
    return np.argsort(keys, kind="stable").astype(np.int64)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class PictureReader:
    """Reads records where they lie.

    Each read opens its shard anew, which is a hundredth of the work on a picture: memory maps
    would count what was read as the process's memory, and there may be more shards than files
    that a process may have open.

    Attributes:
      index: where each record of the split lies.
      labels: int64 [count], or [count, classes] where pictures may have several.
    """

    def __init__(
        self,
        index: RecordIndex,
        seed: int,
        labels: npt.NDArray[np.int64] | None = None,
        part: Part | None = None,
    ) -> None:
        self.index = index
        self._part = part or Part(1)
        self.labels = index.labels if labels is None else labels
        self._seed = seed
        self._orders: dict[int, npt.NDArray[np.int64]] = {}

    def shuffled(self, start: int, count: int) -> tuple[Any, ...]:
        """Of the positions start, start + 1 ... of a run: pictures, labels, keys [count, 2], boxes."""
        rows, epochs = self.positions(start, count)
        keys = np.empty((count, 2), np.int64)
        keys[:, 0] = self._seed
        # Even, so that each record has a second key of its own.
        keys[:, 1] = (epochs << 33) | (rows << 1)
        return self.pictures(rows), self.labels[rows], keys, self.boxes(rows)

    def boxes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The boxes of records, [count, n, 4] float32: ymin, xmin, ymax, xmax in fractions.

        A record without boxes has the whole picture; one with fewer than others its first again,
        which changes nothing: a crop has to show a part of one of them.
        """
        found = [self.index.boxes_of(int(row)) for row in rows]
        padded = np.empty((len(rows), max([1, *map(len, found)]), 4), np.float32)
        for place, boxes in enumerate(found):
            padded[place] = boxes[0] if len(boxes) else WHOLE_PICTURE
            padded[place, : len(boxes)] = boxes
        return padded

    def positions(self, start: int, count: int) -> tuple[Any, Any]:
        """Records of the positions start, start + 1 ... of a run, and their epochs; int64.

        With a part of each batch its own pictures alone are counted.
        """
        places = self._part.places(start, count)
        epochs = places // len(self.index)
        rows = np.empty(count, np.int64)
        for epoch in np.unique(epochs):
            found = epochs == epoch
            rows[found] = self._order(int(epoch))[places[found] - epoch * len(self.index)]
        return rows, epochs

    def in_order(self, start: int, count: int) -> tuple[Any, Any, Any]:
        """Pictures, labels and names of `count` records from `start` on."""
        rows = np.arange(start, start + count)
        names = np.array([self.name(int(row)) for row in rows], object)
        return self.pictures(rows), self.labels[rows], names

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch not in self._orders:
            order = epoch_order(self._seed, epoch, len(self.index))
            self._orders = {
                known: kept for known, kept in self._orders.items() if known == epoch - 1
            }
            self._orders[epoch] = order
        return self._orders[epoch]

    def pictures(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
        """The encoded pictures of records."""
        return np.array([self.picture(int(row)) for row in rows], object)

    def picture(self, row: int) -> bytes:
        """The encoded picture of a record.

        Raises:
          DataError: the record is damaged.
        """
        index = self.index
        start, length = int(index.starts[row]), int(index.lengths[row])
        framed = self._read(int(index.shards[row]), start, length + FOOTER.size)
        data = memoryview(framed)[:length]
        if len(framed) < length + FOOTER.size or (
            mask(crc32c(data)) != FOOTER.unpack_from(framed, length)[0]
        ):
            raise DataError(
                f"{index.describe(row)}: the checksum of the record's data is wrong.",
                expected="data as it was written",
                received=f"{length} bytes that differ from it",
                next_step="Build the dataset again with slimtune data build.",
            )
        first = int(index.picture_starts[row]) - start
        return bytes(data[first : first + int(index.picture_lengths[row])])

    def name(self, row: int) -> bytes:
        """The file a record was made of, or the record's place where that is not stored."""
        index = self.index
        length = int(index.name_lengths[row])
        if length == 0:
            path = index.paths[int(index.shards[row])]
            return f"{path.name}:{index.number(row)}".encode()
        return self._read(int(index.shards[row]), int(index.name_starts[row]), length)

    def _read(self, shard: int, start: int, length: int) -> bytes:
        # A descriptor, not a file object: those that a thread of tf.data holds when the process
        # ends would be told as never closed.
        descriptor = os.open(self.index.paths[shard], os.O_RDONLY)
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)
