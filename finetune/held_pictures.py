"""Pictures of a small split, decoded once and held in memory.

A step of a small net takes less time than decoding its pictures. Where they are shown undistorted,
again and again, they are decoded before the first step, and a batch is a choice of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow, session_config
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import labels_to_learn, read_index
from finetune.input_pipeline import ENDLESS, PictureReader, evaluation_dataset
from finetune.pipeline_errors import data_errors
from finetune.preprocessing import Preprocessing
from finetune.workers.part import Part

LIMIT_BYTES = 256 << 20
"""Splits that take more as float32 are decoded as they are shown. MNIST's takes 172 MB."""

_DECODED_AT_ONCE = 256


def bytes_held(dataset: Dataset, preprocessing: Preprocessing) -> int:
    """How much memory the training pictures take, in bytes."""
    size = preprocessing.image_size
    return 4 * size * size * preprocessing.channels * dataset.split("train").count


def held_dataset(
    dataset: Dataset,
    preprocessing: Preprocessing,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    *,
    part: Part | None = None,
    progress: Progress = SILENT,
) -> Any:
    """What `training_dataset` gives with augment "none", to the bit, from memory.

    Args:
      dataset: the shards.
      preprocessing: how a picture becomes input.
      batch_size: pictures a batch.
      seed: of the order.
      start_step: batches that are left out, as if they had been taken.
      part: the rows of each batch that are wanted; None: all.
      progress: told how far decoding is.

    Returns:
      A tf.data.Dataset without end of (images [rows, size, size, channels] float32 in the
      preprocessing's value range, labels [rows] int64; where pictures may have several classes, 0
      or 1 for each, [rows, classes] int64). There are batch_size rows, or those of `part`.

    Raises:
      DataError: a shard or a picture is damaged.
    """
    tf = load_tensorflow()
    index = read_index(dataset.split("train"))
    part = part or Part(batch_size)
    reader = PictureReader(index, seed, labels_to_learn(dataset, index), part)
    pictures = _decoded(dataset, preprocessing, progress)

    def pick(step: Any) -> tuple[Any, Any]:
        rows, _ = reader.positions(int(step) * part.rows, part.rows)
        return pictures[rows], reader.labels[rows]

    @tf.autograph.experimental.do_not_convert
    def read(step: Any) -> tuple[Any, Any]:
        images, labels = tf.numpy_function(pick, [step], [tf.float32, tf.int64])
        return (
            tf.ensure_shape(images, [part.rows, *pictures.shape[1:]]),
            tf.ensure_shape(labels, [part.rows, *reader.labels.shape[1:]]),
        )

    return tf.data.Dataset.range(start_step, ENDLESS).map(read).prefetch(2)


def _decoded(
    dataset: Dataset, preprocessing: Preprocessing, progress: Progress
) -> NDArray[np.float32]:
    """The training pictures as evaluation sees them, in the order of the shards."""
    tf = load_tensorflow()
    count, size = dataset.split("train").count, preprocessing.image_size
    pictures = np.empty((count, size, size, preprocessing.channels), np.float32)
    with tf.Graph().as_default() as graph:
        batches = evaluation_dataset(dataset, "train", preprocessing, _DECODED_AT_ONCE)
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        images, _, _ = iterator.get_next()
        with (
            tf.compat.v1.Session(graph=graph, config=session_config()) as session,
            data_errors(dataset, progress),
            progress.task("Decoding pictures", count, "pictures") as task,
        ):
            session.run(iterator.initializer)
            for start in range(0, count, _DECODED_AT_ONCE):
                part = pictures[start : start + _DECODED_AT_ONCE]
                part[:] = session.run(images)
                task.advance(len(part))
    return pictures
