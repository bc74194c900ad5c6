"""What `evaluate` and `predict` take as MODEL: a run, a model file of any form, or a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import checkpoints
from checkpoints.command_lines import shell_words
from checkpoints.errors import GraphError, NotFoundError, UnsupportedError, UsageError, listed
from checkpoints.messages import GraphDef
from checkpoints.names import averaged_names
from checkpoints.progress import SILENT, Progress
from checkpoints.published import CHECKPOINTS, Net
from checkpoints.selection import Selection, select
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph, read_graph
from exporters.metadata import IN_GRAPH, Metadata, read_metadata
from exporters.runtime import GraphRunner
from exporters.runtimes.fixed_batch import FixedBatchRunner
from exporters.runtimes.runners import Runner, open_runner
from finetune.foreign_graph import Description, describe_graph
from finetune.nets.file_options import NetOptions
from finetune.preprocessing import Preprocessing
from finetune.run import PREFIX, Run, read_json
from finetune.weights import NO_OPTIONS, find_weights

GRAPH_SUFFIXES = (".pb", ".pbtxt")
OTHER_SUFFIXES = (".onnx", ".tflite")
SAVED_MODEL = "saved_model.pb"
_VARIABLES = "variables/variables"

ANSWERS = ("probabilities", "logits")
"""Roles of outputs that say which class it is, the better one first."""


@dataclass(frozen=True)
class Model:
    """A model that can be run, and what is known of it.

    Attributes:
      source: what a person named.
      graph_def: a graph whose variables are constants; None where `file` is what is run.
      metadata: class names, names of tensors, the training step.
      preprocessing: how pictures become its input.
      file: an .onnx or .tflite file, or None.
      averages_moved: whether training moved averages of batch norm; where not, or where nothing
        is known of it, False.
    """

    source: str
    graph_def: GraphDef | None
    metadata: Metadata
    preprocessing: Preprocessing
    file: Path | None = None
    averages_moved: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty where the file holds none."""
        return self.metadata.classes

    def runner(self, trust: bool = False, roles: Sequence[str] = ANSWERS) -> Runner:
        """Runs the model: pictures in, probabilities out.

        Args:
          trust: whether ops that reach files, the network or Python may run.
          roles: which output is wanted; the first that the model has is taken.

        Raises:
          GraphError: the model does not say where its input or that output is.
          UnsupportedError: the runtime of its form is not installed.
        """
        outputs = self.metadata.outputs
        wanted = next((outputs[role] for role in roles if role in outputs), None)
        pictures = self._pictures()
        if wanted is None or pictures is None:
            raise GraphError(
                f"{self.source} does not say where its input and its answers are.",
                expected=f"metadata with an input, and {' or '.join(roles)} among its outputs",
                next_step="Export it with slimtune convert, which writes them.",
            )
        runner: Runner
        if self.file is not None:
            runner = other = open_runner(self.file)
            other.select_outputs((wanted,))
        elif self.graph_def is not None:
            runner = GraphRunner(self.graph_def, [pictures], [wanted], trust=trust)
        else:
            raise GraphError(f"{self.source} holds neither a graph nor a model file.")
        return runner if runner.batch_size is None else FixedBatchRunner(runner)

    def _pictures(self) -> str | None:
        """The tensor that takes preprocessed pictures, also where the graph preprocesses itself."""
        inside = (self.metadata.preprocessing or {}).get(IN_GRAPH)
        return self.metadata.input if inside is None else str(inside)

    def probabilities(self, answers: Any) -> NDArray[np.float32]:
        """float32 [batch, classes], of what the runner gave: the probabilities, or logits."""
        answers = np.asarray(answers, np.float32)
        if self.classes and answers.shape[1:] != (len(self.classes),):
            raise GraphError(
                f"{self.source} has other answers than class names.",
                expected=f"[batch, {len(self.classes)}]",
                received=list(answers.shape),
                next_step="Name the labels that it was trained with.",
            )
        if "probabilities" in self.metadata.outputs:
            return answers
        if self.metadata.multi_label:
            # 1 / (1 + exp(-x)), without a large exponential.
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * answers)))
        exponentials = np.exp(answers - answers.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def open_model(
    model: str | Path,
    *,
    net: str | None = None,
    options: NetOptions = NO_OPTIONS,
    description: Description | None = None,
    progress: Progress = SILENT,
) -> Model:
    """Opens a run directory, a model that slimtune wrote, or a checkpoint of a registered net.

    Args:
      model: the run directory (its latest checkpoint; RUN/best is its best one), a .pb, .onnx or
        .tflite file, a SavedModel's directory, or a checkpoint in any spelling or by its
        published name.
      net: the net of a checkpoint.
      options: with net, the preprocessing and the image size, where they are not the usual ones.
      description: what a .pb or SavedModel of another program does not say itself.
      progress: where choices are told.

    Raises:
      NotFoundError: nothing is there.
      GraphError: a model without metadata.
      UnsupportedError: a form that cannot be evaluated.
    """
    path = Path(model)
    is_graph = path.suffix in GRAPH_SUFFIXES and path.is_file()
    if description is not None and not is_graph and not (path / SAVED_MODEL).is_file():
        raise UsageError(
            f"{path} is no graph of another program.",
            expected="a .pb or a SavedModel, with --preprocessing and --labels",
            received=model,
            next_step="Leave these options out.",
        )
    run = Run(path.parent if path.name == Run.BEST and path.is_dir() else path)
    if run.exists():
        return _from_run(run, path, progress)
    run = Run(path.parent.parent if path.parent.name == Run.BEST else path.parent)
    if net is None and run.exists() and _is_own_checkpoint(path):
        return _from_checkpoint_of_run(run, path, str(path))
    if is_graph:
        return _from_graph(path, description, progress)
    if path.suffix in OTHER_SUFFIXES and path.is_file():
        return _from_other_form(path)
    if (path / SAVED_MODEL).is_file():
        return _from_saved_model(path, description, progress)
    if net is None and str(model) in CHECKPOINTS:
        net = CHECKPOINTS[str(model)].net
    if net is None:
        if not path.exists() and not any(path.parent.glob(f"{path.name}.*")):
            raise NotFoundError(
                f"{path} is not there.",
                expected="a run directory, a .pb, .onnx or .tflite, a SavedModel, or a checkpoint with"
                " --net",
                next_step="slimtune train DATA --run RUN makes a run.",
            )
        raise UnsupportedError(
            f"{path} holds no net: a checkpoint has only variables.",
            expected="a run directory or a .pb, or --net with a checkpoint",
            next_step="Add --net NAME; slimtune nets lists them.",
        )
    return _from_checkpoint(str(model), net, options, progress)


def _is_own_checkpoint(path: Path) -> bool:
    """Whether a path is the prefix of a checkpoint as a run writes it: `model.ckpt-N`."""
    is_named = re.fullmatch(rf"{re.escape(PREFIX)}-\d+", path.name) is not None
    return is_named and path.with_name(f"{path.name}.index").is_file()


def _from_run(run: Run, path: Path, progress: Progress) -> Model:
    checkpoint = run.latest() if path == run.directory else Run(path).latest()
    if checkpoint is None:
        raise NotFoundError(
            f"{path} holds no checkpoint yet.",
            next_step=shell_words("slimtune", "train", "DATA", "--run", run.directory, "--resume"),
        )
    model = _from_checkpoint_of_run(run, checkpoint, str(path))
    progress.say(f"{path}: {checkpoint.name}")
    _compare_labels(run, model.classes, progress)
    return model


def _from_checkpoint_of_run(run: Run, checkpoint: Path, source: str) -> Model:
    graph = read_graph(run.graph_file)
    with checkpoints.open(checkpoint) as saved:
        # Whoever asked for averages of the weights wants these to count.
        has_averages = bool(averaged_names(saved.variables))
        values = select(saved, Selection(weights="ema")) if has_averages else saved
        model = _model(source, graph, values)
        metadata = replace(model.metadata, step=saved.family.step)
    return replace(model, metadata=metadata, averages_moved=_moves_averages(run))


def _compare_labels(run: Run, classes: tuple[str, ...], progress: Progress) -> None:
    """labels.txt is for people: an edited one is said to have no effect."""
    if not run.labels_file.is_file():
        return
    text = run.labels_file.read_text(encoding="utf-8", errors="replace")
    if text.rstrip("\n") == "\n".join(classes):
        return
    names = text.rstrip("\n").split("\n")
    different = [
        f"line {line}: {new!r} in the place of {old!r}"
        for line, (old, new) in enumerate(zip_longest(classes, names, fillvalue=""), 1)
        if old != new
    ]
    progress.say(
        f"Warning: {run.labels_file} is not what train wrote; the names inside the run count:\n"
        f"{listed(different)}\n"
        f"For a model with other names: "
        + shell_words("slimtune", "convert", run.directory, "model.pb", "--labels", run.labels_file)
    )


def _moves_averages(run: Run) -> bool:
    """Whether the plan of a run has variables that training changes past the optimiser."""
    if not run.plan_file.is_file():
        return False
    plan = read_json(run.plan_file)
    variables = plan.get("variables") if isinstance(plan, dict) else None
    return isinstance(variables, list) and any(
        isinstance(variable, dict)
        and variable.get("state") == "trainable"
        and not variable.get("optimised")
        for variable in variables
    )


def _from_graph(path: Path, description: Description | None, progress: Progress) -> Model:
    graph = read_graph(path)
    if graph.kind != "graph-def":
        raise UnsupportedError(
            f"{path} holds a {graph.kind}, not a frozen graph.",
            next_step=shell_words("slimtune", "convert", path, "model.pb"),
        )
    return _model(str(path), graph, None, _said_or_described(graph, description, progress))


def _from_other_form(path: Path) -> Model:
    with open_runner(path) as runner:
        metadata = _described(str(path), runner.metadata)
    preprocessing = Preprocessing.from_json(metadata.preprocessing or {})
    return Model(str(path), None, metadata, preprocessing, path)


def _from_saved_model(path: Path, description: Description | None, progress: Progress) -> Model:
    graph = read_graph(path)
    metadata = _said_or_described(graph, description, progress)
    if not (path / f"{_VARIABLES}.index").is_file():
        return _model(str(path), graph, {}, metadata)
    with checkpoints.open(path / _VARIABLES) as saved:
        return _model(str(path), graph, saved, metadata)


def _said_or_described(
    graph: Graph, description: Description | None, progress: Progress
) -> Metadata | None:
    """The graph's own metadata; else what a person says of it, where that was said."""
    metadata = read_metadata(graph)
    if description is None:
        return metadata
    if metadata is not None and metadata.preprocessing is not None:
        raise UsageError(
            f"{graph.label} says itself how pictures become its input.",
            expected="--preprocessing and --labels for models that another program wrote",
            received=description.preprocessing,
            next_step="Leave them out; slimtune convert --labels writes other names into a model.",
        )
    return describe_graph(graph, description, progress)


def _from_checkpoint(checkpoint: str, net: str, options: NetOptions, progress: Progress) -> Model:
    from finetune.nets.build import inference_graph
    from finetune.signature import net_metadata, with_metadata
    from finetune.trained_classes import classes_beside

    weights = find_weights(net, checkpoint, options, progress=progress)
    published = weights.published
    with weights.open() as saved:
        if saved is None:
            raise UnsupportedError("A model needs a checkpoint.", received=checkpoint)
        classes = head_classes(weights.net, saved.variables, checkpoint)
        size = options.image_size or weights.image_size
        graph = inference_graph(weights.net, classes, size)
        metadata = net_metadata(
            graph,
            weights.net.name,
            classes_beside(weights.path, classes),
            Preprocessing(weights.preprocessing, size),
            label_offset=published.label_offset if published else 0,
            step=saved.family.step,
        )
        return _model(checkpoint, Graph(with_metadata(graph, metadata)), saved)


def head_classes(net: Net, variables: Any, checkpoint: str) -> int:
    """How many classes the main head of a checkpoint has.

    Raises:
      NotFoundError: the checkpoint has no variable under the main head's scope.
    """
    from checkpoints.scopes import in_scope

    for name, variable in variables.items():
        if in_scope(name, net.main_head) and name.rpartition("/")[2] in ("biases", "weights"):
            return int(variable.shape[-1])
    raise NotFoundError(
        f"{checkpoint} has no head of {net.name}.",
        expected=f"variables in {net.main_head}",
        received=f"{len(variables)} variables in other scopes",
        next_step="Name the net that it was trained with: --net NAME.",
    )


def _model(source: str, graph: Graph, values: Any, known: Metadata | None = None) -> Model:
    metadata = _described(source, known or read_metadata(graph))
    if values is None:
        graph_def = graph.graph_def
    else:
        outputs = list(metadata.outputs.values())
        frozen = prepare(graph, values, outputs=outputs, metadata=metadata)
        graph_def = frozen_graph_def(frozen)
    preprocessing = dict(metadata.preprocessing or {})
    preprocessing.pop(IN_GRAPH, None)
    return Model(source, graph_def, metadata, Preprocessing.from_json(preprocessing))


def _described(source: str, metadata: Metadata | None) -> Metadata:
    if metadata is None or metadata.preprocessing is None:
        raise GraphError(
            f"{source} does not say how pictures become its input.",
            expected="the metadata that slimtune convert writes",
            received="a model without it",
            next_step="Convert its run or checkpoint again with slimtune convert; of a graph that "
            "another program wrote say it: --preprocessing inception --labels FILE.",
        )
    return metadata
