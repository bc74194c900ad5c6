"""The bottleneck of every picture, as arrays in one .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import GraphError
from checkpoints.files import atomic_file, directory_beside, refuse_existing
from checkpoints.progress import SILENT, Progress, Task
from exporters.graph import read_graph
from exporters.metadata import Metadata, read_metadata
from finetune.beam.options import BeamOptions, check_runner, read_options
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


class Batch(NamedTuple):
    """Features of one batch of pictures.

    Attributes:
      split: its name.
      features: float32 [pictures, channels].
      labels: int64 [pictures].
      names: of the pictures.
    """

    split: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: list[str]


class AskedFeatures(NamedTuple):
    """Which model's features, in words that a worker on another machine can read.

    Attributes:
      model: as of `features`.
      net: the same.
      options: its four options of graphs without metadata.
      trust: the same.
    """

    model: str
    net: str | None
    options: NetOptions
    trust: bool


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
    runner: Literal["local", "beam"] = "local",
    beam_options: str = "",
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
      runner: "local", or "beam" for many machines; batches are the same.
      beam_options: options of Apache Beam, as on its command line; by default one process of this
        machine works, as TensorFlow uses all cores.
      overwrite: whether an existing file is replaced.
      progress: where it tells how far it is.

    Raises:
      GraphError: the model has no bottleneck.
      OutputExistsError: the file is there.
      UnsupportedError: Apache Beam is asked for and not installed.
    """
    out = Path(out)
    check_runner(runner, beam_options)
    work = read_options(beam_options, default_processes=1) if runner == "beam" else None
    refuse_existing(out, overwrite)
    options = NetOptions(bottleneck, input, preprocessing, image_size)
    opened = open_with_bottleneck(model, net, options, progress)
    tensor = opened.metadata.outputs.get(ROLE)
    if tensor is None:
        raise GraphError(
            f"{model} does not say where its bottleneck is.",
            expected=f"{ROLE} among the outputs of its metadata",
            next_step="Name it: --bottleneck TENSOR",
        )
    dataset = data if isinstance(data, Dataset) else find_pictures(data, model, progress=progress)
    count = sum(split.count for split in dataset.splits.values())
    asked = AskedFeatures(str(model), net, options, trust)
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
            for name, flat, batch_labels, batch_names in (
                _batches(opened, dataset, trust, task)
                if work is None
                else _batches_of_beam(asked, dataset, out, work, task)
            ):
                if not channels:
                    channels = flat.shape[1]
                    _write_header(member, np.dtype(np.float32), (count, channels))
                member.write(flat.tobytes())
                labels.append(batch_labels)
                paths += batch_names
                splits += [name] * len(flat)
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


def _batches(model: Model, dataset: Dataset, trust: bool, task: Task) -> Iterator[Batch]:
    for name in dataset.splits:
        for batch in split_batches(model, dataset, name, trust):
            task.advance(len(batch.features))
            yield batch


def split_batches(
    model: Model,
    dataset: Dataset,
    split: str,
    trust: bool,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Batch]:
    """Batches of a split, or of its pictures from `start`, where a batch begins, to `end`.

    A batch's features depend on which pictures are in it, in their last bits: so it holds the
    same ones whoever computes it.
    """
    with model.runner(trust, roles=(ROLE,)) as runner, data_errors(dataset):
        batches = runner.run_dataset(
            partial(
                evaluation_dataset,
                dataset,
                split,
                model.preprocessing,
                BATCH_SIZE,
                start=start,
                end=end,
            )
        )
        for (values,), (labels, names) in batches:
            flat = np.ascontiguousarray(values.reshape(len(values), -1), np.float32)
            yield Batch(split, flat, labels, [text.decode("utf-8", "replace") for text in names])


def _batches_of_beam(
    asked: AskedFeatures, dataset: Dataset, out: Path, options: BeamOptions, task: Task
) -> Iterator[Batch]:
    from finetune.beam.features import compute_features

    with directory_beside(out) as directory:
        yield from compute_features(asked, dataset, directory, options, task)


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, described)


def open_with_bottleneck(
    model: str | Path, net: str | None, options: NetOptions, progress: Progress
) -> Model:
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
