"""Nodes as old flags name them, and graphs reduced to them as TensorFlow's strip_unused does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from google.protobuf import text_format

from checkpoints.command_lines import shell_words
from checkpoints.dtypes import name_of_number
from checkpoints.errors import GraphError, UsageError, near_names
from checkpoints.files import atomic_file
from checkpoints.messages import DataType, GraphDef, NodeDef, TensorShapeProto
from checkpoints.progress import Progress
from exporters.graph import Graph
from exporters.names import TensorName, tensor_of
from exporters.shapes.sizes import Shape
from scripts.verb import Names

FLOAT = int(DataType.DT_FLOAT)
"""What --placeholder_type_enum is where it is not given."""


def comma_separated(text: str) -> tuple[str, ...]:
    """The words of a flag; blanks around them do not count."""
    return Names().convert(text, None, None)


def find_nodes(
    graph: Graph, text: str, flag: str, *, among: Iterable[str] = (), optional: bool = False
) -> tuple[str, ...]:
    """The nodes that a flag names; `x:0` means x.

    Args:
      graph: where to look.
      text: names, comma-separated.
      flag: without its dashes.
      among: the nodes that it may name; empty: all.
      optional: whether it may name none.

    Raises:
      UsageError: it names none.
      GraphError: the graph has no such node; near names are given.
    """
    known = list(among) or list(graph.nodes)
    names = tuple(tensor_of(name).node for name in comma_separated(text))
    if not names and not optional:
        raise UsageError(
            f"--{flag} names nothing.",
            expected=f"--{flag}=NODE",
            received=f"--{flag}={text}",
            next_step=shell_words("slimtune", "inspect", graph.path or "GRAPH"),
        )
    absent = [name for name in names if name not in known]
    if absent:
        near = near_names(absent[0], known)
        raise GraphError(
            f"{graph.label} has no node {absent[0]!r}, which --{flag} names.",
            expected=f"one of {len(known)} names" + (f", as in {', '.join(near)}" if near else ""),
            received=f"--{flag}={text}",
            next_step=f"--{flag}={near[0]}"
            if near
            else shell_words("slimtune", "inspect", graph.path or "GRAPH"),
        )
    return names


def stripped(
    graph: Graph,
    inputs: Sequence[str],
    outputs: Sequence[str],
    types: Sequence[int],
    progress: Progress,
    shapes: Mapping[str, Shape] | None = None,
) -> Graph:
    """Puts placeholders where inputs are and keeps what the outputs need, control edges included.

    Args:
      graph: the whole graph.
      inputs: nodes in whose place placeholders are put.
      outputs: nodes to keep.
      types: the dtypes of the placeholders, as numbers of TensorFlow's enum: one for each input,
        or one for all. Where it is float32, the dtype that the graph says of the input counts.
      progress: told of inputs that no output needs.
      shapes: of inputs whose nodes do not say theirs.

    Raises:
      UsageError: there are more or fewer types than inputs.
      GraphError: a type is not the input's own, or an input has outputs that are needed besides
        its first.
    """
    if len(types) not in (1, len(inputs)):
        raise UsageError(
            "--placeholder_type_enum names other dtypes than there are inputs.",
            expected=f"one number, or {len(inputs)}",
            received=",".join(map(str, types)),
            next_step="One number counts for all inputs.",
        )
    wanted = dict(zip(inputs, types if len(types) > 1 else [*types] * len(inputs), strict=True))
    cut = GraphDef()
    for name, node in graph.nodes.items():
        if name in wanted:
            node = _placeholder(graph, node, wanted[name])
            if "shape" not in node.attr and name in (shapes or {}):
                sizes = [-1 if size is None else size for size in (shapes or {})[name]]
                dimensions = [TensorShapeProto.Dim(size=size) for size in sizes]
                node.attr["shape"].shape.CopyFrom(TensorShapeProto(dim=dimensions))
        cut.node.append(node)
    cut.library.CopyFrom(graph.graph_def.library)
    cut.versions.CopyFrom(graph.graph_def.versions)
    whole = Graph(cut, graph.kind, graph.path)
    needed = whole.ancestors(outputs, control=True)
    unneeded = [name for name in wanted if name not in needed]
    if unneeded:
        progress.say(f"No output depends on {', '.join(unneeded)}, left out.")
    del cut.node[:]
    cut.node.extend(node for name, node in whole.nodes.items() if name in needed)
    result = Graph(cut, graph.kind, graph.path)
    _refuse_other_outputs(result, wanted)
    return result


def write_graph(graph: Graph, path: Path, is_binary: bool) -> None:
    """Writes a GraphDef, binary or as text, in the place of what is there."""
    message = graph.graph_def
    with atomic_file(path) as file:
        if is_binary:
            file.write(message.SerializeToString(deterministic=True))
        else:
            file.write(text_format.MessageToString(message).encode("utf-8"))


def _placeholder(graph: Graph, node: NodeDef, wanted: int) -> NodeDef:
    own = graph.dtype(TensorName(node.name))
    if own is not None and wanted not in (FLOAT, own):
        raise GraphError(
            f"{graph.label}: the input {node.name} is {name_of_number(own)}, and what takes it"
            " takes nothing else.",
            expected=f"--placeholder_type_enum={own}, or the flag left out",
            received=f"--placeholder_type_enum={wanted}",
        )
    placeholder = NodeDef(name=node.name, op="Placeholder")
    placeholder.attr["dtype"].type = wanted if own is None else own
    for attribute in ("_output_shapes", "shape"):
        if attribute in node.attr:
            placeholder.attr[attribute].CopyFrom(node.attr[attribute])
    return placeholder


def _refuse_other_outputs(graph: Graph, wanted: Mapping[str, int]) -> None:
    for name in graph.nodes:
        for tensor in graph.data_inputs(name):
            if tensor.node in wanted and tensor.output_index > 0:
                raise GraphError(
                    f"{graph.label}: {name} takes {tensor}, and a placeholder has one output.",
                    expected="inputs of which only the first output is needed",
                    received=tensor.node,
                    next_step="Name the nodes behind it.",
                )
