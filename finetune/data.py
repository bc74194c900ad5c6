"""The words of `slimtune data` from Python, and a dataset as a plain tf.data.Dataset.

`build`, `check`, `download` and `show` do what the commands of these names do; `read_idx` and
`read_numeric_csv` give arrays, `shuffled_batches` makes batches of a table's rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from exporters.runtime import load_tensorflow
from finetune.build import build
from finetune.check import check
from finetune.cleaning import available_cores
from finetune.dataset import check_labels, read_dataset
from finetune.input_pipeline import encoded_dataset
from finetune.numeric_csv import read_numeric_csv, shuffled_batches
from finetune.pipeline_errors import data_errors
from finetune.pixels.decode import decode
from finetune.preprocessing import Preprocessing
from finetune.public_data import download_data as download
from finetune.sheet import draw_sheet as show
from finetune.sources.idx import read_idx

__all__ = [
    "build",
    "check",
    "download",
    "load",
    "naming_errors",
    "read_idx",
    "read_numeric_csv",
    "show",
    "shuffled_batches",
]


def load(
    directory: str | Path,
    split: str = "train",
    *,
    image_size: int | None = None,
    preprocessing: str = "inception",
) -> Any:
    """The pictures of a split, each once, in the order of the shards; not shuffled, not batched.

    Args:
      directory: made by `data build`, or TF-Slim's own.
      split: train, val (or validation) or test.
      image_size: height and width in pixels that the pictures are brought to as for
        evaluation; None: the pictures as they are.
      preprocessing: inception, vgg, lenet, cifar or none; counts only with `image_size`.

    Returns:
      A tf.data.Dataset of (image, label). image: [height, width, 3] uint8, RGB, 0 to 255; with
      `image_size` [image_size, image_size, 3] float32 in the preprocessing's value range
      (inception: -1 to 1). label: scalar int64, the class's place in `labels.txt`.

    Raises:
      NotFoundError: the directory or split is not there.
      DataError: a shard is damaged or a label out of range. What is met later, while the pictures
        are read, TensorFlow makes a tf.errors.OpError of: `naming_errors` makes it a DataError.
    """
    tf = load_tensorflow()
    dataset = read_dataset(Path(directory))
    check_labels(dataset)
    net_input = None if image_size is None else Preprocessing(preprocessing, image_size)

    @tf.autograph.experimental.do_not_convert
    def prepare(encoded: Any, label: Any, name: Any) -> tuple[Any, Any]:
        return (decode(encoded) if net_input is None else net_input.evaluation(encoded)), label

    return encoded_dataset(dataset, split).map(
        prepare, num_parallel_calls=available_cores(), deterministic=True
    )


def naming_errors(directory: str | Path) -> AbstractContextManager[None]:
    """A context in which TensorFlow's errors over a dataset name the record they are of.

        with finetune.data.naming_errors("flowers"):
            for image, label in finetune.data.load("flowers").batch(32): ...

    Args:
      directory: as for `load`.

    Raises:
      DataError: a record is damaged or its picture cannot be decoded; names shard, number and
        offset.
    """
    return data_errors(read_dataset(Path(directory)))
