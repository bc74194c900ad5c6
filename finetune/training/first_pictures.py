"""The first pictures that training sees, distorted as training distorts them, as one picture."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray

from exporters.runtime import load_tensorflow, session_config
from finetune.datasets.dataset import Dataset
from finetune.input_pipeline import training_dataset
from finetune.pipeline_errors import data_errors
from finetune.preprocessing import Preprocessing
from finetune.training.metrics_log import MetricsLog

PICTURES = 16
TAG = "train/pictures"

_GAP = 4
_MAT = 255


def log_training_sheet(
    log: MetricsLog, dataset: Dataset, preprocessing: Preprocessing, augment: str, seed: int
) -> None:
    """Writes the sheet into the event file of a run.

    Args:
      log: of the run.
      dataset: whose split `train` is shown.
      preprocessing: how a picture becomes input.
      augment: "full", "fast" or "none".
      seed: of the run.
    """
    from PIL import Image

    images = _first_images(dataset, preprocessing, augment, seed)
    sheet = lay_out(as_pixels(images, preprocessing))
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, "PNG")
    log.write_picture(TAG, buffer.getvalue(), width=sheet.shape[1], height=sheet.shape[0])


def as_pixels(images: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """The net's input as it looks: uint8 of the same shape, its value range as 0 to 255."""
    lowest, highest = preprocessing.value_range
    shares = (images - lowest) / (highest - lowest)
    return np.asarray(np.rint(shares.clip(0.0, 1.0) * 255), np.uint8)


def lay_out(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures of one size in rows, about as many as columns.

    Args:
      pictures: uint8 [pictures, size, size, 3].

    Returns:
      uint8 [height, width, 3].
    """
    count, size = pictures.shape[:2]
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cell = size + _GAP
    sheet = np.full((rows * cell - _GAP, columns * cell - _GAP, 3), _MAT, np.uint8)
    for place, picture in enumerate(pictures):
        row, column = divmod(place, columns)
        top, left = row * cell, column * cell
        sheet[top : top + size, left : left + size] = picture
    return sheet


def _first_images(
    dataset: Dataset, preprocessing: Preprocessing, augment: str, seed: int
) -> NDArray[np.float32]:
    """float32 [pictures, size, size, 3], in a graph of its own."""
    tf = load_tensorflow()
    count = min(PICTURES, dataset.split("train").count)
    with tf.Graph().as_default() as graph:
        batches = training_dataset(dataset, preprocessing, count, seed, augment=augment)
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        images, _ = iterator.get_next()
        with (
            tf.compat.v1.Session(graph=graph, config=session_config()) as session,
            data_errors(dataset),
        ):
            session.run(iterator.initializer)
            found: NDArray[np.float32] = session.run(images)
    return found
