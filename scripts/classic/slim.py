"""What TF-Slim's scripts know by name: nets, preprocessing, and the classes of its datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.errors import NotFoundError
from scripts.classic.flags import Flag, Idle, Refused

if TYPE_CHECKING:
    from finetune.datasets.dataset import Dataset

NETS = {"lenet": "mnist_lenet"}
"""Nets that have another name here."""

CLASSES = {"cifar10": 10, "flowers": 5, "imagenet": 1001, "mnist": 10, "visualwakewords": 2}
"""How many classes TF-Slim's datasets have, the background of ImageNet among them."""

OPTIONS = {
    "checkpoint": "checkpoint_path",
    "label-offset": "labels_offset",
    "net": "model_name",
    "preprocessing": "preprocessing_name",
}
"""Options of today that TF-Slim's scripts have other names for: for messages."""

MODEL_NAME = Flag("model_name", str, "inception_v3", "The net; slimtune nets lists them.")

DATASET_NAME = Flag(
    *("dataset_name", str, "imagenet"),
    "What the dataset is called; the files of --dataset_dir say what is in it.",
)

DATASET_DIR = Flag(
    *("dataset_dir", str, None),
    "The dataset: TF-Slim's files, or what slimtune data build made.",
    required=True,
    path="dataset",
)

LABELS_OFFSET = Flag(
    *("labels_offset", int, 0),
    "What is taken off the labels: 1 leaves ImageNet's background out, as VGG and ResNet-v1 do.",
)

PREPROCESSING_NAME = Flag(
    *("preprocessing_name", str, None),
    "How pictures become the net's input, by a net's name or inception, vgg, lenet, cifarnet.",
)

GRAYSCALE = Refused(
    *("use_grayscale", bool, False),
    "a registered net takes as many channels as its record says.",
    "Leave it out; grey pictures are read as RGB, and mnist_lenet takes them grey.",
)

QUANTIZE = Refused(
    *("quantize", bool, False),
    "training with simulated quantization went with tf.contrib.",
    "Leave it out; slimtune convert RUN model.tflite --quantize int8 --calibration PICTURES "
    "quantizes what was trained.",
)

MASTER = Refused(
    *("master", str, ""),
    "there is no TensorFlow server to run on: a run is one process.",
    "Leave it out; the process takes all cores of the machine.",
)

PREPROCESSING_THREADS = Idle(
    *("num_preprocessing_threads", int, 4), "pictures are prepared on all cores there are."
)

_KINDS = {
    "cifarnet": ("cifar",),
    "inception": ("inception",),
    # The net for digits takes grey values from 0 to 1 instead of from -1 to 1.
    "lenet": ("lenet", "grey"),
    "mobilenet": ("inception",),
    "nasnet": ("inception",),
    "pnasnet": ("inception",),
    "resnet_v1": ("vgg",),
    # The published weights want what Inception's want, whatever TF-Slim's table says.
    "resnet_v2": ("inception", "vgg"),
    "vgg": ("vgg",),
}
"""How the names that --preprocessing_name takes begin -> the kinds of preprocessing they mean."""


def net_name(model_name: str) -> str:
    """The net's name here.

    Raises:
      NotFoundError: there is no such net; near names are told.
    """
    from checkpoints.published import get_net

    return get_net(NETS.get(model_name, model_name)).name


def preprocessing_kinds(name: str) -> tuple[str, ...]:
    """The kinds of preprocessing that TF-Slim calls by this name.

    Raises:
      NotFoundError: it calls none so.
    """
    kinds = [kinds for begin, kinds in _KINDS.items() if name.startswith(begin)]
    if not kinds:
        raise NotFoundError(
            f"There is no preprocessing {name!r}.",
            expected=f"a net's name, or one of {', '.join(_KINDS)}",
            received=f"--preprocessing_name={name}",
        )
    return kinds[0]


def other_preprocessing(net: str, name: str | None) -> str | None:
    """The kind that --preprocessing_name asks for; None where it is the net's usual one.

    Raises:
      NotFoundError: TF-Slim calls no preprocessing so.
    """
    from finetune.weights import NONE, find_weights

    if name is None:
        return None
    kinds = preprocessing_kinds(name)
    return None if find_weights(net, NONE).preprocessing in kinds else kinds[0]


def count_classes(dataset_name: str, dataset_dir: str, labels_offset: int) -> int:
    """How many classes a net for a dataset has.

    Args:
      dataset_name: one of CLASSES, where there is no dataset.
      dataset_dir: the dataset, whose class names are counted; empty: the name counts.
      labels_offset: how many classes before the first are left out.

    Raises:
      NotFoundError: there is neither.
      DataError: the directory holds no dataset.
    """
    from finetune.datasets.dataset import read_dataset

    if dataset_dir:
        dataset = read_dataset(Path(dataset_dir))
        return len(dataset.classes) + dataset.label_offset - labels_offset
    if dataset_name not in CLASSES:
        raise NotFoundError(
            f"How many classes {dataset_name!r} has is not known.",
            expected=f"one of {', '.join(CLASSES)}, or the dataset itself",
            received=f"--dataset_name={dataset_name}",
            next_step="Name its directory with --dataset_dir.",
        )
    return CLASSES[dataset_name] - labels_offset


def label_offset(dataset: Dataset, labels_offset: int) -> int | None:
    """What --label-offset has to say; None where the dataset says the same."""
    return None if labels_offset == dataset.label_offset else labels_offset
