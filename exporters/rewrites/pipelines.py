"""Finds where a net takes its pictures from an input pipeline, so that a placeholder can stand there.

A queue, a reader or a tf.data iterator gives out several tensors; which of them the outputs need
is followed tensor by tensor. Labels are not needed, so that mostly one is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from checkpoints.dtypes import name_of_number
from checkpoints.errors import GraphError, listed
from checkpoints.messages import DataType, NodeDef
from exporters.evaluation import Evaluator
from exporters.graph import Graph, dimensions
from exporters.names import TensorName, node_of
from exporters.ops import VARIABLES
from exporters.rewrites.draft import Draft

_SOURCES = re.compile(
    r"IteratorGetNext(Sync)?|OptionalGetValue|DatasetToSingleElement"
    r"|QueueDequeue(Many|UpTo)?(V2)?|ReaderRead(UpTo)?(V2)?"
    r"|Unstage|(Ordered)?MapUnstage(NoKey)?|RecordInput|InfeedDequeue(Tuple)?"
    r"|MultiDeviceIteratorGetNextFromShard"
)
_MODULUS = (1 << 61) - 1
_LISTED_TENSORS = 12

Shape = tuple[int | None, ...]


class Feed(NamedTuple):
    """A tensor of an input pipeline, where a placeholder is to stand.

    Attributes:
      tensor: the tensor.
      shape: as the pipeline has it, the batch first; None where it is not known.
    """

    tensor: TensorName
    shape: Shape | None


def is_source(op: str) -> bool:
    """Whether an op takes records out of an input pipeline."""
    return _SOURCES.fullmatch(op) is not None


def find_feed(draft: Draft) -> Feed | None:
    """The one tensor that an input pipeline gives to the outputs; None where there is none.

    Of a pipeline that gives out records as strings, many at a time, it is the first tensor of
    numbers that everything else is made of.

    Args:
      draft: a pruned graph.

    Raises:
      GraphError: there are several, or it cannot be told which tensor holds the pictures; they
        are listed, ready for --inputs.
    """
    graph = draft.graph
    needed = _needed_sources(draft)
    if not needed:
        return None
    if len(needed) > 1:
        raise GraphError(
            f"{graph.label}: the outputs need several tensors of an input pipeline:\n"
            f"{listed([_described(graph, tensor) for tensor in needed])}",
            expected="one, to put a placeholder there without being told",
            received=f"{len(needed)}",
            next_step=f"--inputs {','.join(map(_typed, needed))}",
        )
    tensor = needed[0]
    shape = pipeline_shape(graph, tensor)
    if graph.dtype(tensor) != DataType.DT_STRING and shape != ():
        return Feed(tensor, shape)
    candidates = _passages(graph, tensor, draft.outputs)
    if shape is not None and len(shape) == 1:
        for candidate in candidates:
            found = graph.shape(candidate)
            is_batch = found is not None and len(found) > 1 and None not in found[1:]
            if is_batch and graph.dtype(candidate) != DataType.DT_STRING:
                return Feed(candidate, found)
    choices = [tensor, *candidates][:_LISTED_TENSORS]
    raise GraphError(
        f"{graph.label} reads records, and where its pictures are is not clear. All that the"
        f" outputs need passes through each of these:\n"
        f"{listed([_described(graph, choice) for choice in choices], _LISTED_TENSORS)}",
        expected="a batch of numbers to put a placeholder for",
        received=_described(graph, tensor),
        next_step=f"Choose one: --inputs {_typed(choices[-1])}",
    )


def pipeline_shape(graph: Graph, tensor: TensorName) -> Shape | None:
    """A tensor's shape as an input pipeline declares it: on the node, on the iterator or the queue."""
    shape = graph.shape(tensor)
    if shape is not None:
        return shape
    node = graph.node(tensor.node)
    if "output_shapes" in node.attr:
        shapes = node.attr["output_shapes"].list.shape
        return (
            dimensions(shapes[tensor.output_index]) if tensor.output_index < len(shapes) else None
        )
    if not node.op.startswith("QueueDequeue") or not len(node.input):
        return None
    queue = graph.node(node_of(node.input[0]))
    shapes = queue.attr["shapes"].list.shape if "shapes" in queue.attr else ()
    if tensor.output_index >= len(shapes):
        return None
    element = dimensions(shapes[tensor.output_index])
    if element is None or node.op.removesuffix("V2") == "QueueDequeue":
        return element
    count = graph.data_inputs(node.name)[1:2]
    is_fixed = node.op.removesuffix("V2") == "QueueDequeueMany" and count
    size = Evaluator(graph).scalar(count[0]) if is_fixed else None
    return (None if size is None else int(size), *element)


def open_defaults(draft: Draft) -> Draft:
    """Makes plain placeholders of those whose default would come from an input pipeline."""
    graph = draft.graph
    changes = draft.changes()
    opened = []
    for name, node in graph.nodes.items():
        if node.op != "PlaceholderWithDefault" or not len(node.input):
            continue
        behind = graph.ancestors([node_of(node.input[0])])
        if any(is_source(graph.nodes[other].op) for other in behind):
            placeholder = NodeDef(name=name, op="Placeholder")
            placeholder.attr["dtype"].type = node.attr["dtype"].type
            placeholder.attr["shape"].CopyFrom(node.attr["shape"])
            changes.put(placeholder)
            opened.append(f"{name} has no default any more: an input pipeline gave it.")
    return draft.changed(changes, *opened)


def _needed_sources(draft: Draft) -> list[TensorName]:
    graph = draft.graph
    found = dict.fromkeys(
        tensor
        for name, node in graph.nodes.items()
        if not is_source(node.op)
        for tensor in graph.data_inputs(name)
        if is_source(graph.node(tensor.node).op)
    )
    for tensor in draft.outputs:
        if is_source(graph.node(tensor.node).op):
            found[tensor] = None
    return list(found)


def _passages(
    graph: Graph, source: TensorName, outputs: tuple[TensorName, ...]
) -> list[TensorName]:
    """The tensors that everything between a source and the outputs passes through, in order.

    Only those that are made without variables: what a person would feed. A tensor is one if
    as many paths lead through it as lead from the source to the outputs.
    """
    order = _order_behind(graph, source, outputs)
    variables = [name for name, node in graph.nodes.items() if node.op in VARIABLES]
    weighted = _made_of(graph, variables)
    paths_to: dict[str, int] = {source.node: 1}
    for name in order[1:]:
        reads = [read for read in graph.data_inputs(name) if read.node in paths_to]
        paths_to[name] = sum(paths_to[read.node] for read in reads) % _MODULUS
    paths_from: dict[str, int] = dict.fromkeys((tensor.node for tensor in outputs), 1)
    for name in reversed(order):
        for read in graph.data_inputs(name) if name != source.node else ():
            if read.node in paths_to:
                paths = paths_from.get(read.node, 0) + paths_from.get(name, 0)
                paths_from[read.node] = paths % _MODULUS
    total = paths_from.get(source.node, 0)
    found: list[TensorName] = []
    for name in order[1:]:
        if name in weighted or paths_to[name] * paths_from.get(name, 0) % _MODULUS != total:
            continue
        tensors = {
            tensor
            for reader in graph.consumers.get(name, ())
            if reader in paths_from
            for tensor in graph.data_inputs(reader)
            if tensor.node == name
        }
        if len(tensors) == 1:
            found.append(tensors.pop())
    return found


def _made_of(graph: Graph, names: Iterable[str]) -> set[str]:
    """The named nodes and all that is made of them."""
    made = set(names)
    waiting = list(made)
    while waiting:
        for reader in graph.consumers.get(waiting.pop(), ()):
            if reader not in made:
                made.add(reader)
                waiting.append(reader)
    return made


def _order_behind(graph: Graph, source: TensorName, outputs: tuple[TensorName, ...]) -> list[str]:
    """The source's node and all that is made of it, producers first; loops are left out."""
    behind = _made_of(graph, [source.node])
    behind &= graph.ancestors([tensor.node for tensor in outputs])
    missing = {
        name: len({read.node for read in graph.data_inputs(name)} & behind) for name in behind
    }
    missing[source.node] = 0
    ready, order = [source.node], []
    while ready:
        name = ready.pop()
        order.append(name)
        for reader in graph.consumers.get(name, ()):
            if reader in missing and reader != source.node:
                missing[reader] -= 1
                if missing[reader] == 0:
                    ready.append(reader)
    return order


def _described(graph: Graph, tensor: TensorName) -> str:
    number = graph.dtype(tensor)
    dtype = "" if number is None else f" {name_of_number(number)}"
    shape = pipeline_shape(graph, tensor)
    sizes = (
        "of unknown shape"
        if shape is None
        else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
    )
    return f"{_typed(tensor)} ({graph.nodes[tensor.node].op}){dtype} {sizes}"


def _typed(tensor: TensorName) -> str:
    return tensor.node if tensor.output_index == 0 else str(tensor)
