"""Inputs and outputs of a graph: what a person typed, and what stands to reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoints.errors import GraphError, near_names
from checkpoints.progress import SILENT, Progress
from exporters.graph import Graph
from exporters.inspecting.guess import guess_outputs
from exporters.metadata import OUTPUT_ROLES, Metadata
from exporters.names import IMPORT_PREFIX, TensorName, tensor_of

DEFAULT_SIGNATURE = "serving_default"
"""The key of the signature that is used where nobody names another."""

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})


def resolve_tensor(graph: Graph, name: str, role: str = "output") -> TensorName:
    """The tensor that a typed name means.

    `x`, `x:0` and `^x` are forgiven, and so is an `import/` prefix too many or too few.

    Args:
      graph: where to look.
      name: what was typed.
      role: "output" or "input", for messages.

    Raises:
      GraphError: the graph has no such node; near names are given.
    """
    tensor = tensor_of(name)
    for node in (tensor.node, tensor.node.removeprefix(IMPORT_PREFIX), IMPORT_PREFIX + tensor.node):
        if node in graph.nodes:
            found = TensorName(node, tensor.output_index)
            _refuse_missing_output(graph, found, role)
            return found
    near = _near(graph, tensor.node)
    raise GraphError(
        f"{graph.label} has no node {tensor.node!r}, named as {role}.",
        expected=f"one of {len(graph.nodes)} node names"
        + (f", as in {', '.join(near)}" if near else ""),
        received=name,
        next_step=f"--{role}s {near[0]}" if near else None,
    )


def resolve_outputs(
    graph: Graph,
    requested: Sequence[str],
    metadata: Metadata | None = None,
    progress: Progress = SILENT,
) -> tuple[TensorName, ...]:
    """The outputs to export: the requested ones, else those the file names, else a guess.

    Args:
      graph: the graph as it was read.
      requested: names a person typed; may be empty.
      metadata: what the graph says of itself.
      progress: told which outputs were taken where none was requested.

    Raises:
      GraphError: a name is not there, or nothing or several things could be the output.
    """
    if requested:
        return tuple(dict.fromkeys(resolve_tensor(graph, name) for name in requested))
    named, source = _outputs_of_file(graph, metadata)
    if named:
        outputs = tuple(dict.fromkeys(resolve_tensor(graph, name) for name in named))
        progress.say(f"Outputs {_joined(outputs)}, from the {source}.")
        return outputs
    guess = guess_outputs(graph)
    others = f" (not {_joined(guess.others)})" if guess.others else ""
    progress.say(f"Output {guess.output}, guessed{others}: {guess.reason}.")
    return (guess.output,)


def placeholders(graph: Graph, metadata: Metadata | None = None) -> tuple[TensorName, ...]:
    """The placeholders of a pruned graph in file order; what the metadata names comes first."""
    inputs = [TensorName(name) for name, node in graph.nodes.items() if node.op in PLACEHOLDERS]
    if metadata is not None and metadata.input is not None:
        first = tensor_of(metadata.input)
        if first in inputs:
            inputs.remove(first)
            inputs.insert(0, first)
    return tuple(inputs)


def signature_inputs(graph: Graph, metadata: Metadata | None = None) -> dict[TensorName, Any]:
    """The inputs that the file's signature names, where it also names the outputs.

    Returns:
      Tensor -> its TensorInfo, in the order of the signature's keys; empty where metadata goes
      before the signature, or there is none.
    """
    if metadata is not None and metadata.outputs:
        return {}
    inputs = {} if (found := _default_signature(graph)) is None else graph.signatures[found].inputs
    return {tensor_of(inputs[key].name): inputs[key] for key in sorted(inputs) if inputs[key].name}


def _outputs_of_file(graph: Graph, metadata: Metadata | None) -> tuple[list[str], str]:
    if metadata is not None and metadata.outputs:
        roles = [role for role in OUTPUT_ROLES if role in metadata.outputs]
        return [metadata.outputs[role] for role in roles], "graph's metadata"
    key = _default_signature(graph)
    if key is not None:
        outputs = graph.signatures[key].outputs
        names = [outputs[name].name for name in sorted(outputs) if outputs[name].name]
        return names, f"signature {key!r}"
    return [], ""


def _default_signature(graph: Graph) -> str | None:
    """The key of the signature that says what the graph is for; None where none or several do."""
    signatures = graph.signatures
    if DEFAULT_SIGNATURE in signatures:
        return DEFAULT_SIGNATURE
    return next(iter(signatures)) if len(signatures) == 1 else None


def _refuse_missing_output(graph: Graph, tensor: TensorName, role: str) -> None:
    """An index beyond a node's outputs, as far as the file tells how many it has."""
    node = graph.nodes[tensor.node]
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    if len(shapes) and tensor.output_index >= len(shapes):
        raise GraphError(
            f"{graph.label}: {tensor.node} ({node.op}) has no output {tensor.output_index}, named as {role}.",
            expected=f"an index below {len(shapes)}",
            received=tensor,
        )


def _near(graph: Graph, name: str) -> list[str]:
    """Names that end like the typed one, then names spelt like it; training's own left out."""
    names = [node for node in graph.nodes if not node.startswith(("gradients/", "save/"))]
    ending = [node for node in names if node.lower().endswith(f"/{name.lower()}")]
    return list(dict.fromkeys(ending[:3] + near_names(name, names)))[:5]


def _joined(tensors: Sequence[TensorName]) -> str:
    return ", ".join(map(str, tensors))
