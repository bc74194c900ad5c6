"""The bottleneck of every picture, as arrays in one .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import GraphError
from checkpoints.files import atomic_file, refuse_existing
from checkpoints.progress import SILENT, Progress
from exporters.graph import read_graph
from exporters.metadata import Metadata, read_metadata
from finetune.datasets.dataset import Dataset
from finetune.input_pipeline import evaluation_dataset
from finetune.model import Model, open_model
from finetune.nets.file_options import NetOptions
from finetune.nets.graph_net import is_graph_file, read_graph_net
from finetune.pipeline_errors import data_errors
from finetune.preprocessing import Preprocessing
from finetune.training_data import find_pictures

BATCH_SIZE = 32
ROLE = "bottleneck"


@dataclass(frozen=True)
class FeatureFile:
    """What was written.

    Attributes:
      path: the file.
      count: pictures.
      channels: numbers a picture.
      classes: class names.
      tensor: the tensor that they are values of.
    """

    path: str
    count: int
    channels: int
    classes: tuple[str, ...]
    tensor: str

    def as_json(self) -> dict[str, Any]:
        """What `features --json` prints."""
        return {
            "path": self.path,
            "count": self.count,
            "channels": self.channels,
            "classes": list(self.classes),
            "tensor": self.tensor,
        }


def features(
    model: str | Path,
    data: str | Path | Dataset,
    out: str | Path,
    *,
    net: str | None = None,
    bottleneck: str | None = None,
    input: str | None = None,
    preprocessing: str | None = None,
    image_size: int | None = None,
    trust: bool = False,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> FeatureFile:
    """Writes the bottleneck of every picture of every split.

    The file holds the arrays `features` float32 [pictures, channels], `labels` int64 [pictures],
    `paths` and `splits` [pictures] and `classes` [classes], texts. Batches go to the file as they
    come; memory does not grow with the data.

    Args:
      model: a run, a model file, a checkpoint with `net`, or any frozen graph.
      data: a dataset directory or a folder of pictures.
      out: the .npz to write.
      net: the net of a checkpoint.
      bottleneck: of a graph without metadata: the tensor; None: what feeds the last layer.
      input: of such a graph: the tensor that takes the pictures.
      preprocessing: of such a graph: how pictures become its input.
      image_size: of such a graph: height and width in pixels.
      trust: whether ops that reach files, the network or Python may run.
      overwrite: whether an existing file is replaced.
      progress: where it tells how far it is.

    Raises:
      GraphError: the model has no bottleneck.
      OutputExistsError: the file is there.
    """
    out = Path(out)
    refuse_existing(out, overwrite)
    options = NetOptions(bottleneck, input, preprocessing, image_size)
    opened = _open(model, net, options, progress)
    tensor = opened.metadata.outputs.get(ROLE)
    if tensor is None:
        raise GraphError(
            f"{model} does not say where its bottleneck is.",
            expected=f"{ROLE} among the outputs of its metadata",
            next_step="Name it: --bottleneck TENSOR",
        )
    dataset = data if isinstance(data, Dataset) else find_pictures(data, model, progress=progress)
    count = sum(split.count for split in dataset.splits.values())
    labels: list[NDArray[np.int64]] = []
    paths: list[str] = []
    splits: list[str] = []
    channels = 0
    with (
        atomic_file(out, overwrite=overwrite) as file,
        zipfile.ZipFile(file, "w") as archive,
        progress.task("Features", count, "pictures") as task,
    ):
        with archive.open("features.npy", "w", force_zip64=True) as member:
            for name, values, batch_labels, batch_names in _batches(opened, dataset, trust):
                flat = np.ascontiguousarray(values.reshape(len(values), -1), np.float32)
                if not channels:
                    channels = flat.shape[1]
                    _write_header(member, np.dtype(np.float32), (count, channels))
                member.write(flat.tobytes())
                labels.append(batch_labels)
                paths += batch_names
                splits += [name] * len(flat)
                task.advance(len(flat))
        others: dict[str, NDArray[Any]] = {
            "labels": np.concatenate(labels),
            "paths": np.array(paths),
            "splits": np.array(splits),
            "classes": np.array(dataset.classes),
        }
        for key, array in others.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return FeatureFile(str(out), count, channels, dataset.classes, tensor)


def _batches(
    model: Model, dataset: Dataset, trust: bool
) -> Iterator[tuple[str, NDArray[Any], NDArray[np.int64], list[str]]]:
    """Split, features, labels and names of each batch."""
    for name in dataset.splits:
        with model.runner(trust, roles=(ROLE,)) as runner, data_errors(dataset):
            batches = runner.run_dataset(
                partial(evaluation_dataset, dataset, name, model.preprocessing, BATCH_SIZE)
            )
            for (values,), (labels, names) in batches:
                yield name, values, labels, [text.decode("utf-8", "replace") for text in names]


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, described)


def _open(model: str | Path, net: str | None, options: NetOptions, progress: Progress) -> Model:
    """A model; of a graph that says nothing of itself, what feeds its last layer."""
    if not is_graph_file(str(model)) or not Path(model).exists():
        return open_model(model, net=net, progress=progress)
    metadata = read_metadata(read_graph(model))
    says_all = metadata is not None and ROLE in metadata.outputs
    if says_all and not options.given():
        return open_model(model, net=net, progress=progress)
    found = read_graph_net(str(model), options, progress=progress)
    prepared = Preprocessing(found.preprocessing, found.image_size)
    return Model(
        str(model),
        None if found.graph is None else found.graph.graph_def,
        Metadata(input=found.input, outputs={ROLE: found.output}),
        prepared,
    )
