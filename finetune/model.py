"""What `evaluate` and `predict` take as MODEL: a run, a frozen .pb, or a checkpoint and its net."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import checkpoints
from checkpoints.errors import GraphError, NotFoundError, UnsupportedError
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from checkpoints.published import CHECKPOINTS, Net
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph, read_graph
from exporters.metadata import Metadata, read_metadata
from exporters.runtime import GraphRunner
from finetune.preprocessing import Preprocessing
from finetune.run import Run
from finetune.weights import find_weights

GRAPH_SUFFIXES = (".pb", ".pbtxt")


@dataclass(frozen=True)
class Model:
    """A frozen graph and what is known of it.

    Attributes:
      source: what a person named.
      graph_def: variables are constants.
      metadata: class names, names of tensors, the training step.
      preprocessing: how pictures become its input.
    """

    source: str
    graph_def: GraphDef
    metadata: Metadata
    preprocessing: Preprocessing

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty where the file holds none."""
        return self.metadata.classes

    def runner(self, trust: bool = False) -> GraphRunner:
        """Runs the graph: pictures in, probabilities out."""
        outputs = self.metadata.outputs
        answers = outputs.get("probabilities") or outputs.get("logits")
        if answers is None or self.metadata.input is None:
            raise GraphError(
                f"{self.source} does not say where its input and its answers are.",
                expected="metadata with an input, and probabilities or logits among its outputs",
                next_step="Export it with slimtune convert, which writes them.",
            )
        return GraphRunner(self.graph_def, [self.metadata.input], [answers], trust=trust)

    def probabilities(self, answers: Any) -> NDArray[np.float32]:
        """float32 [batch, classes], of what the runner gave: the probabilities, or logits."""
        answers = np.asarray(answers, np.float32)
        if "probabilities" in self.metadata.outputs:
            return answers
        exponentials = np.exp(answers - answers.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def open_model(model: str | Path, *, net: str | None = None, progress: Progress = SILENT) -> Model:
    """Opens a run directory, a .pb that slimtune wrote, or a checkpoint of a registered net.

    Args:
      model: the run directory (its latest checkpoint; RUN/best is its best one), the file, or a
        checkpoint in any spelling or by its published name.
      net: the net of a checkpoint.
      progress: where choices are told.

    Raises:
      NotFoundError: nothing is there.
      GraphError: a .pb without metadata.
      UnsupportedError: a form that cannot be evaluated.
    """
    path = Path(model)
    run = Run(path.parent if path.name == Run.BEST and path.is_dir() else path)
    if run.exists():
        return _from_run(run, path, progress)
    if path.suffix in GRAPH_SUFFIXES and path.is_file():
        return _from_graph(path)
    if net is None and str(model) in CHECKPOINTS:
        net = CHECKPOINTS[str(model)].net
    if net is None:
        if not path.exists():
            raise NotFoundError(
                f"{path} is not there.",
                expected="a run directory, a .pb, or a checkpoint with --net",
                next_step="slimtune train DATA --run RUN makes a run.",
            )
        raise UnsupportedError(
            f"{path} holds no net: a checkpoint has only variables.",
            expected="a run directory or a .pb, or --net with a checkpoint",
            next_step="Add --net NAME; slimtune nets lists them.",
        )
    return _from_checkpoint(str(model), net, progress)


def _from_run(run: Run, path: Path, progress: Progress) -> Model:
    checkpoint = run.latest() if path == run.directory else Run(path).latest()
    if checkpoint is None:
        raise NotFoundError(
            f"{path} holds no checkpoint yet.",
            next_step=f"slimtune train DATA --run {run.directory} --resume",
        )
    graph = read_graph(run.graph_file)
    with checkpoints.open(checkpoint) as saved:
        model = _model(str(path), graph, saved)
        progress.say(f"{path}: {saved.family.prefix.name}")
        return replace(model, metadata=replace(model.metadata, step=saved.family.step))


def _from_graph(path: Path) -> Model:
    graph = read_graph(path)
    if graph.kind != "graph-def":
        raise UnsupportedError(
            f"{path} holds a {graph.kind}, not a frozen graph.",
            next_step=f"slimtune convert {path} model.pb",
        )
    return _model(str(path), graph, None)


def _from_checkpoint(checkpoint: str, net: str, progress: Progress) -> Model:
    from finetune.nets.build import inference_graph
    from finetune.signature import net_metadata, with_metadata

    weights = find_weights(net, checkpoint, progress=progress)
    published = weights.published
    with weights.open() as saved:
        if saved is None:
            raise UnsupportedError("A model needs a checkpoint.", received=checkpoint)
        classes = head_classes(weights.net, saved.variables, checkpoint)
        size = weights.image_size
        graph = inference_graph(weights.net, classes, size)
        metadata = net_metadata(
            graph,
            weights.net.name,
            (),
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


def _model(source: str, graph: Graph, values: Any) -> Model:
    metadata = read_metadata(graph)
    if metadata is None or metadata.preprocessing is None:
        raise GraphError(
            f"{source} does not say how pictures become its input.",
            expected="the metadata that slimtune convert writes",
            received="a graph without it",
            next_step="Convert its run or checkpoint again with slimtune convert.",
        )
    outputs = list(metadata.outputs.values())
    if values is None:
        graph_def = graph.graph_def
    else:
        frozen = prepare(graph, values, outputs=outputs, metadata=metadata)
        graph_def = frozen_graph_def(frozen)
    return Model(source, graph_def, metadata, Preprocessing.from_json(metadata.preprocessing))
