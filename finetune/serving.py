"""What `convert` gets from this package: pictures to calibrate and warm up with, and preprocessing as a graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from checkpoints.errors import DataError, GraphError
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from exporters.metadata import IN_GRAPH, Metadata
from exporters.options import Calibration
from exporters.runtime import load_tensorflow
from exporters.values import Array
from finetune.datasets.picture_formats import PictureError
from finetune.prediction import Preprocessor, picture_files
from finetune.preprocessing import Preprocessing

CALIBRATION_PICTURES = 128
"""More change the ranges of activations by little; each is run once."""

WARM_UP_PICTURES = 8
"""Requests that a server answers by itself before others; the first does nearly all there is to do."""

DEFAULT = "inception"
"""The preprocessing of a model that says nothing of one, as for training from a file."""

_BATCH_SIZE = 16


def calibration_pictures(
    folder: str | Path, limit: int = CALIBRATION_PICTURES, progress: Progress = SILENT
) -> Calibration:
    """Pictures for `--quantize int8`, taken evenly from a folder of them.

    They are preprocessed as the model says; where it does not, as for Inception, and that is said.

    Args:
      folder: pictures, in folders of classes or not.
      limit: how many are taken at most.
      progress: told which preprocessing was taken for want of another, and what is no picture.

    Returns:
      A function from a model's metadata to batches of its input.

    Raises:
      NotFoundError: there are none.
      DataError: from the function: none can be read.
    """
    files = list(picture_files([folder]))
    step = max(len(files) / limit, 1.0)
    chosen = [files[int(place * step)] for place in range(min(limit, len(files)))]

    def batches(metadata: Metadata) -> Iterator[Array]:
        if metadata.preprocessing is None and metadata.image_size is not None:
            preprocessing = Preprocessing(DEFAULT, metadata.image_size)
            progress.say(
                f"The model does not say how pictures become its input: calibrated with the"
                f" preprocessing {DEFAULT}, {metadata.image_size} pixels."
            )
        else:
            preprocessing = _preprocessing(metadata)
        preprocess = Preprocessor(preprocessing)
        images = _readable(chosen, preprocess, progress)
        is_empty = True
        while batch := list(itertools.islice(images, _BATCH_SIZE)):
            yield np.stack(batch)
            is_empty = False
        if is_empty:
            raise DataError(
                f"None of the {len(chosen)} files of {folder} that were to calibrate with is a "
                "picture.",
                expected="JPEG, PNG, GIF, BMP, WebP or TIFF",
                next_step="Name another --calibration.",
            )

    return batches


def warm_up_pictures(
    folder: str | Path, limit: int = WARM_UP_PICTURES, progress: Progress = SILENT
) -> Calibration:
    """Pictures for `--warm-up`, one a request: as the net sees them, or whole files where it takes these.

    Args:
      folder: pictures, in folders of classes or not.
      limit: how many are taken at most.
      progress: told which preprocessing was taken for want of another, and what is no picture.

    Returns:
      A function from a model's metadata to batches of one.

    Raises:
      NotFoundError: there are none.
      DataError: from the function: none can be read.
    """
    pictures = calibration_pictures(folder, limit, progress)
    files = list(itertools.islice(picture_files([folder]), limit))

    def requests(metadata: Metadata) -> Iterator[Array]:
        if IN_GRAPH in (metadata.preprocessing or {}):
            yield from (np.array([file.read_bytes()], object) for file in files)
        else:
            for batch in pictures(metadata):
                yield from np.split(batch, len(batch))

    return requests


def _readable(
    files: Sequence[Path], preprocess: Preprocessor, progress: Progress
) -> Iterator[Array]:
    """The pictures among the files as input; of the others it is told why they are left out."""
    for file in files:
        try:
            yield preprocess(file)
        except PictureError as error:
            progress.say(f"Warning: not calibrated with {error.message}")


def preprocessing_graph(metadata: Metadata) -> GraphDef:
    """The model's evaluation preprocessing as a graph.

    Returns:
      A GraphDef with the placeholder `encoded`, string [batch], the bytes of JPEG, PNG, GIF or
      BMP files, and the tensor `images`, float32 [batch, size, size, 3].

    Raises:
      GraphError: the model does not say how pictures become its input, or does it itself.
    """
    tf = load_tensorflow()
    with tf.Graph().as_default() as graph:
        encoded = tf.compat.v1.placeholder(tf.string, [None], name="encoded")
        images = tf.map_fn(
            _preprocessing(metadata).evaluation, encoded, fn_output_signature=tf.float32
        )
        tf.identity(images, name="images")
    return GraphDef.FromString(graph.as_graph_def().SerializeToString())


def _preprocessing(metadata: Metadata) -> Preprocessing:
    if metadata.preprocessing is None:
        raise GraphError(
            "The model does not say how pictures become its input.",
            expected="metadata with a preprocessing, as slimtune writes it",
            received="none",
            next_step="Convert the run or checkpoint it was made from.",
        )
    if IN_GRAPH in metadata.preprocessing:
        raise GraphError(
            "The model has its preprocessing in it already.",
            expected="a model whose input is a preprocessed picture",
            received=f"{metadata.input}, which takes the bytes of picture files",
            next_step="Leave the option out, or name the model it was made from.",
        )
    return Preprocessing.from_json(metadata.preprocessing)
