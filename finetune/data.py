"""The words of `slimtune data` from Python, and a dataset as a plain tf.data.Dataset.

`build`, `check`, `download`, `sample` and `show` do what the commands of these names do; `read_idx` and
`read_numeric_csv` give arrays, `shuffled_batches` makes batches of a table's rows. TFRecord files of
one's own are written by `write_records` of what `make_example` gives, and read by `read_records`
and `parse_example`, without TensorFlow.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.cores import available_cores
from checkpoints.errors import UsageError
from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow
from finetune.cloud.local_copy import local_copy
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.labels import check_labels
from finetune.datasets.numeric_csv import read_numeric_csv, shuffled_batches
from finetune.datasets.public_data import download_data as download
from finetune.datasets.records import make_example, parse_example, read_records, write_records
from finetune.datasets.sheet import draw_sheet as show
from finetune.datasets.sources.idx import read_idx
from finetune.input_pipeline import encoded_dataset
from finetune.pipeline_errors import data_errors
from finetune.pixels.decode import decode
from finetune.preprocessing import Preprocessing

if TYPE_CHECKING:
    from finetune.sample import Drawn

__all__ = [
    "build",
    "check",
    "download",
    "load",
    "make_example",
    "naming_errors",
    "parse_example",
    "read_idx",
    "read_numeric_csv",
    "read_records",
    "sample",
    "show",
    "shuffled_batches",
    "write_records",
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
      preprocessing: inception, vgg, lenet, cifar, grey, none or unit; counts only with `image_size`.

    Returns:
      A tf.data.Dataset of (image, label). image: [height, width, 3] uint8, RGB, 0 to 255; with
      `image_size` [image_size, image_size, 3] (grey: 1) float32 in the preprocessing's value range
      (inception: -1 to 1). label: scalar int64, the class's place in `labels.txt`.

    Raises:
      NotFoundError: the directory or split is not there.
      DataError: a shard is damaged or a label out of range. What is met later, while the pictures
        are read, TensorFlow makes a tf.errors.OpError of: `naming_errors` makes it a DataError.
    """
    tf = load_tensorflow()
    dataset = read_dataset(local_copy(directory, SILENT))
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
    return data_errors(read_dataset(local_copy(directory, SILENT)))


def sample(
    what: str,
    out: str | Path,
    *,
    per_class: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Drawn:
    """Draws pictures, the same for the same seed.

    Args:
      what: flowers (class folders of JPEGs) or digits (MNIST's four IDX files).
      out: the directory to make.
      per_class: pictures of each class; None: 120 flowers, 600 digits.
      seed: of all that is drawn at random.
      overwrite: replace `out`.
      progress: where it tells how far it is.

    Raises:
      UsageError: there is no such sample, or a number is out of range.
      OutputExistsError: `out` is there and may not be replaced.
    """
    from finetune.sample import write_digits, write_flowers

    write = {"flowers": write_flowers, "digits": write_digits}.get(what)
    if write is None:
        raise UsageError(f"There is no sample {what!r}.", expected="flowers or digits")
    for name, value, lowest in (("per_class", per_class, 1), ("seed", seed, 0)):
        if value is not None and not (isinstance(value, int) and value >= lowest):
            raise UsageError(
                f"{name} is no whole number from {lowest}.",
                expected=f"{lowest} or more",
                received=repr(value),
            )
    count = {} if per_class is None else {"per_class": per_class}
    drawn: Drawn = write(Path(out), seed=seed, overwrite=overwrite, progress=progress, **count)
    return drawn
