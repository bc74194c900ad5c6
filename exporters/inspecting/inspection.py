"""`exporters.inspect`: what a graph is and what is in it, without running it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkpoints import dtypes
from checkpoints.errors import SlimtuneError
from checkpoints.names import Role, role
from checkpoints.progress import Notes
from exporters.conversion import Endpoint
from exporters.graph import Graph, dimensions, read_graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs, signature_inputs
from exporters.inspecting.training_ops import TrainingOp, training_ops
from exporters.metadata import Metadata, read_metadata
from exporters.names import TensorName
from exporters.ops import VARIABLES
from exporters.rewrites.draft import Draft
from exporters.rewrites.pipelines import find_feed
from exporters.rewrites.prune import prune
from exporters.safety import UnsafeNode, unsafe_nodes
from exporters.saved_models.assets import DIRECTORY as ASSETS
from exporters.saved_models.assets import asset_files
from exporters.saved_models.tables import tables_of
from exporters.savers.leaving_out import without_saver
from exporters.shapes.inference import ShapeInference
from exporters.thawed.variable_graph import trainable_nodes
from exporters.thawed.weights import find_weights


@dataclass(frozen=True)
class InspectedVariable:
    """A variable of a graph, or a constant that was one.

    Attributes:
      name: of the variable.
      dtype: TensorFlow's name of its dtype.
      shape: None for an open dimension; None for an unknown rank.
      role: what it is for.
      trainable: whether the graph says, or its use shows, that gradients change it; None where
        neither tells.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    role: Role
    trainable: bool | None

    def as_json(self) -> dict[str, Any]:
        """The object in the list "variables"."""
        shape = None if self.shape is None else list(self.shape)
        value = {"name": self.name, "dtype": self.dtype, "shape": shape, "role": self.role}
        return value if self.trainable is None else {**value, "trainable": self.trainable}


@dataclass(frozen=True)
class Inspection:
    """What is in a graph.

    Attributes:
      kind: "graph-def", "meta-graph" or "saved-model".
      path: the file, or the SavedModel's directory; None for a graph in memory.
      files: the files that belong to it.
      nodes: how many nodes it has, those of functions not counted.
      functions: how many functions its library has.
      ops: op -> how often it stands there, functions included; the most frequent first.
      is_frozen: whether it has no variables.
      variables: its variables; where it has none, the constants that were some.
      parameters: how many numbers the model's variables hold, as far as shapes are known.
      inputs: the tensors to feed.
      outputs: the tensors that hold answers; guessed where neither metadata nor signature says.
      training_ops: what would stop it from serving.
      tables: lookup tables that the outputs need.
      unsafe: nodes that reach files, the network or Python.
      producer: the version of the graph's format it was written for.
      min_consumer: the lowest version whose readers may read it.
      signatures: key -> method, inputs and outputs.
      metadata: what slimtune wrote into it, or None.
      assets: files that come with it.
      notes: choices and doubts, a line each.
    """

    kind: str
    path: Path | None
    files: tuple[Path, ...]
    nodes: int
    functions: int
    ops: Mapping[str, int]
    is_frozen: bool
    variables: tuple[InspectedVariable, ...]
    parameters: int
    inputs: tuple[Endpoint, ...]
    outputs: tuple[Endpoint, ...]
    training_ops: tuple[TrainingOp, ...]
    tables: tuple[str, ...]
    unsafe: tuple[UnsafeNode, ...]
    producer: int
    min_consumer: int
    signatures: Mapping[str, Mapping[str, Any]]
    metadata: Metadata | None
    assets: tuple[str, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "kind": self.kind,
            "path": None if self.path is None else str(self.path),
            "files": [str(file) for file in self.files],
            "nodes": self.nodes,
            "functions": self.functions,
            "frozen": self.is_frozen,
            "inputs": [endpoint.as_json() for endpoint in self.inputs],
            "outputs": [endpoint.as_json() for endpoint in self.outputs],
            "ops": dict(self.ops),
            "variables": [variable.as_json() for variable in self.variables],
            "parameters": self.parameters,
            "training_ops": [entry._asdict() for entry in self.training_ops],
            "tables": list(self.tables),
            "unsafe_ops": [entry._asdict() for entry in self.unsafe],
            "producer": self.producer,
            "min_consumer": self.min_consumer,
            "signatures": {key: dict(signature) for key, signature in self.signatures.items()},
            "metadata": None if self.metadata is None else self.metadata.as_json(),
            "assets": list(self.assets),
            "notes": list(self.notes),
        }


def inspect(path: str | os.PathLike[str] | Graph) -> Inspection:
    """Looks at a graph: its endpoints, variables and ops, and what would stop it from serving.

    Args:
      path: a GraphDef, MetaGraphDef or SavedModel, binary or text, or a SavedModel's directory;
        or a graph that was read already.

    Raises:
      NotFoundError: there is no such file.
      GraphError: the file holds no graph.
    """
    graph = path if isinstance(path, Graph) else read_graph(Path(path))
    notes = Notes()
    metadata = _metadata(graph, notes)
    outputs = _outputs(graph, metadata, notes)
    pruned = prune(graph, outputs).graph if outputs else without_saver(graph)
    inputs = _inputs(pruned, outputs, metadata, notes)
    variables, is_frozen = _variables(graph)
    versions = graph.graph_def.versions
    return Inspection(
        kind=graph.kind,
        path=_directory(graph) or graph.path,
        files=tuple(_files(graph)),
        nodes=len(graph.nodes),
        functions=len(graph.functions),
        ops=_ops(graph),
        is_frozen=is_frozen,
        variables=variables,
        parameters=_parameters(variables),
        inputs=tuple(Endpoint.of(graph, tensor) for tensor in inputs),
        outputs=_with_shapes(pruned, inputs, outputs),
        training_ops=tuple(training_ops(pruned)),
        tables=tuple(tables_of(pruned)),
        unsafe=tuple(unsafe_nodes(pruned.graph_def)),
        producer=versions.producer,
        min_consumer=versions.min_consumer,
        signatures={key: _signature(value) for key, value in sorted(graph.signatures.items())},
        metadata=metadata,
        assets=tuple(asset_files(graph)),
        notes=tuple(notes.lines),
    )


def _metadata(graph: Graph, notes: Notes) -> Metadata | None:
    try:
        return read_metadata(graph)
    except SlimtuneError as error:
        notes.say(f"Its metadata cannot be used: {error.message}")
        return None


def _outputs(graph: Graph, metadata: Metadata | None, notes: Notes) -> tuple[TensorName, ...]:
    try:
        return resolve_outputs(graph, (), metadata, notes)
    except SlimtuneError as error:
        notes.say(error.message)
        return ()


def _inputs(
    pruned: Graph, outputs: tuple[TensorName, ...], metadata: Metadata | None, notes: Notes
) -> tuple[TensorName, ...]:
    """What the signature names, else the placeholders, else what an input pipeline gives."""
    named = tuple(
        tensor for tensor in signature_inputs(pruned, metadata) if tensor.node in pruned.nodes
    )
    found = named or placeholders(pruned, metadata)
    if found or not outputs:
        return found
    try:
        feed = find_feed(Draft(pruned, outputs))
    except SlimtuneError as error:
        notes.say(error.message)
        return ()
    if feed is None:
        return ()
    notes.say(f"Input {feed.tensor}, which an input pipeline gives.")
    return (feed.tensor,)


def _with_shapes(
    pruned: Graph, inputs: tuple[TensorName, ...], outputs: tuple[TensorName, ...]
) -> tuple[Endpoint, ...]:
    """Outputs, with the shapes that follow from those of the inputs where the file has none."""
    endpoints = [Endpoint.of(pruned, tensor) for tensor in outputs]
    if all(endpoint.shape is not None for endpoint in endpoints):
        return tuple(endpoints)
    given = {tensor: shape for tensor in inputs if (shape := pruned.shape(tensor)) is not None}
    shapes = ShapeInference(pruned, given).shapes
    return tuple(
        endpoint if endpoint.shape is not None else replace(endpoint, shape=shapes.get(tensor))
        for endpoint, tensor in zip(endpoints, outputs, strict=True)
    )


def _variables(graph: Graph) -> tuple[tuple[InspectedVariable, ...], bool]:
    """The variables, or the constants that were some; and whether it is the latter."""
    nodes = [node for node in graph.nodes.values() if node.op in VARIABLES]
    if not nodes:
        weights = find_weights(graph)
        names = {weight.name for weight in weights}
        constants = (
            InspectedVariable(
                weight.name,
                weight.dtype.name,
                weight.shape,
                role(weight.name, names),
                weight.is_trainable,
            )
            for weight in weights
        )
        return tuple(constants), True
    trainable = trainable_nodes(graph)
    names = {node.name for node in nodes}
    return tuple(
        InspectedVariable(
            node.name,
            dtypes.name_of_number(node.attr["dtype"].type if "dtype" in node.attr else 0),
            dimensions(node.attr["shape"].shape) if "shape" in node.attr else None,
            role(node.name, names),
            None if trainable is None else node.name in trainable,
        )
        for node in nodes
    ), False


def _parameters(variables: tuple[InspectedVariable, ...]) -> int:
    return sum(
        math.prod(size for size in variable.shape if size is not None)
        for variable in variables
        if variable.role == "model" and variable.shape is not None and None not in variable.shape
    )


def _ops(graph: Graph) -> dict[str, int]:
    counts = Counter(node.op for node in graph.graph_def.node)
    for function in graph.graph_def.library.function:
        counts.update(node.op for node in function.node_def)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _signature(signature: Any) -> dict[str, Any]:
    def tensors(infos: Any) -> dict[str, Any]:
        return {
            key: Endpoint(
                infos[key].name,
                dtypes.name_of_number(infos[key].dtype),
                dimensions(infos[key].tensor_shape),
            ).as_json()
            for key in sorted(infos)
        }

    return {
        "method": signature.method_name,
        "inputs": tensors(signature.inputs),
        "outputs": tensors(signature.outputs),
    }


def _directory(graph: Graph) -> Path | None:
    """The directory of a SavedModel."""
    if graph.kind == "saved-model" and graph.path is not None:
        return graph.path.parent
    return None


def _files(graph: Graph) -> Iterator[Path]:
    """The graph's file, and of a SavedModel its variables and assets."""
    if graph.path is not None:
        yield graph.path
    directory = _directory(graph)
    if directory is not None:
        for name in ("variables", ASSETS):
            if (directory / name).is_dir():
                yield from sorted(file for file in (directory / name).iterdir() if file.is_file())
