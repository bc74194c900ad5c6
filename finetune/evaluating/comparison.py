"""One model in several forms on the same pictures: size, accuracy, agreement, time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import exporters
from checkpoints.errors import GraphError, SlimtuneError, UnsupportedError, UsageError
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from exporters.forms import FORMS
from exporters.graph import Graph
from exporters.metadata import metadata_node
from exporters.names import METADATA_NODE
from exporters.runtime import load_tensorflow, session_config
from exporters.values import Array
from finetune.datasets.dataset import Dataset
from finetune.evaluating.evaluation import default_split, evaluate, open_data, refuse_swapped
from finetune.evaluating.scores import Evaluation
from finetune.input_pipeline import evaluation_dataset
from finetune.model import Model, open_model
from finetune.pipeline_errors import data_errors

FORMATS = ("pb", "saved-model", "tflite", "onnx")
"""Forms that can be run, in the order in which they are tried."""

TIMED_PICTURES = 16
"""Pictures in the one batch that is timed."""

_REPEATS = 3


@dataclass(frozen=True)
class FormScore:
    """One form of a model.

    Attributes:
      form: its name, as `--to` takes it.
      bytes: the size of its files.
      accuracy: the share of pictures whose most probable class is the right one.
      agreement: the share of pictures for which that is the class the model itself says.
      max_difference: the largest difference of two probabilities.
      ms: milliseconds a picture in a batch of TIMED_PICTURES, decoding left out; the fastest of
        three.
      error: why there are no figures; None where there are.
    """

    form: str
    bytes: int | None = None
    accuracy: float | None = None
    agreement: float | None = None
    max_difference: float | None = None
    ms: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class Comparison:
    """A model and its forms on one split.

    Attributes:
      split: whose pictures.
      count: how many.
      accuracy: of the model itself.
      forms: a score a form.
    """

    split: str
    count: int
    accuracy: float
    forms: tuple[FormScore, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return asdict(self)


def compare(
    model: str | Path,
    data: str | Path | Dataset,
    *,
    formats: Sequence[str] = FORMATS,
    split: str | None = None,
    net: str | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Comparison:
    """Converts a model into several forms and scores each of them.

    Args:
      model: a run, a .pb, a SavedModel, or a checkpoint with `net`.
      data: a dataset directory or a folder of pictures.
      formats: names of forms.
      split: train, val or test; left out: val, else test.
      net: the net of a checkpoint.
      trust: whether ops that reach files, the network or Python may run.
      progress: where it tells how far it is.

    Raises:
      UsageError: a form is not one that can be run.
      UnsupportedError: the model has no graph that could be converted.
      DataError: the classes of model and data do not fit.
      NotFoundError: there is no such model, data or split.
    """
    wrong = [form for form in formats if form not in FORMATS]
    if wrong:
        raise UsageError(
            f"{', '.join(wrong)} cannot be run.",
            expected=", ".join(FORMATS),
            received=", ".join(formats),
        )
    refuse_swapped(model, data)
    opened = open_model(model, net=net, progress=progress)
    if opened.graph_def is None:
        raise UnsupportedError(
            f"{model} cannot be converted into other forms.",
            expected="a run, a .pb, a SavedModel, or a checkpoint with --net",
            next_step="Name the model that it was made from.",
        )
    dataset = data if isinstance(data, Dataset) else open_data(data, progress, model)
    split = split or default_split(data, dataset)
    itself = evaluate(opened, dataset, split=split, trust=trust, progress=progress)
    pictures = _first_pictures(opened, dataset, itself.split)
    scores = []
    with tempfile.TemporaryDirectory(prefix="slimtune-") as folder:
        frozen = Path(folder) / "source.pb"
        frozen.write_bytes(_with_metadata(opened).SerializeToString())
        for form in dict.fromkeys(formats):
            progress.say(f"{FORMS[form].title} ...")
            try:
                destination = _convert(frozen, form, trust)
                score = _score(form, destination, dataset, itself, pictures, trust, progress)
            except SlimtuneError as error:
                score = FormScore(form, error=str(error))
            scores.append(score)
    return Comparison(itself.split, itself.count, itself.accuracy, tuple(scores))


def _with_metadata(model: Model) -> GraphDef:
    if model.graph_def is None:
        raise GraphError(f"{model.source} holds no graph.")
    graph_def = GraphDef()
    graph_def.CopyFrom(model.graph_def)
    if METADATA_NODE not in Graph(graph_def).nodes:
        graph_def.node.append(metadata_node(model.metadata))
    return graph_def


def _convert(frozen: Path, form: str, trust: bool) -> Path:
    destination = frozen.with_name(f"model.{form}" if form != "saved-model" else "model")
    # Its answers are compared on the pictures, which is more than on made-up inputs.
    exporters.convert(frozen, destination, to=form, verify="none", trust=trust)
    return destination


def _score(
    form: str,
    path: Path,
    dataset: Dataset,
    itself: Evaluation,
    pictures: Array,
    trust: bool,
    progress: Progress,
) -> FormScore:
    model = open_model(path)
    found = evaluate(model, dataset, split=itself.split, trust=trust, progress=progress)
    with model.runner(trust) as runner:
        runner.run(pictures)
        seconds = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            runner.run(pictures)
            seconds.append(time.perf_counter() - start)
    ours, theirs = itself.probabilities, found.probabilities
    return FormScore(
        form=form,
        bytes=sum(file.stat().st_size for file in _files(path)),
        accuracy=found.accuracy,
        agreement=itself.agreement(found),
        max_difference=float(np.abs(ours - theirs).max()),
        ms=1000 * min(seconds) / len(pictures),
    )


def _first_pictures(model: Model, dataset: Dataset, split: str) -> Array:
    """float32 [pictures, size, size, 3]: the net's input for the first pictures of a split."""
    tf = load_tensorflow()
    with tf.Graph().as_default() as graph:
        batches = evaluation_dataset(dataset, split, model.preprocessing, TIMED_PICTURES)
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        images = iterator.get_next()[0]
        with (
            tf.compat.v1.Session(graph=graph, config=session_config()) as session,
            data_errors(dataset),
        ):
            session.run(iterator.initializer)
            pictures: Array = session.run(images)
    return pictures


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    return [path]
