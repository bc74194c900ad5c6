"""Evaluates what depends on constants alone, for ops that are cheap and mean the same to numpy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import GraphError, UnsupportedError
from checkpoints.messages import GraphDef, NodeDef
from checkpoints.tensors import little_endian_bytes
from exporters.constants import Array, constant_value
from exporters.graph import Graph
from exporters.names import is_control, tensor_of

MAX_GROWTH_BYTES = 1 << 16
"""By how much an evaluated constant may be larger than what it was made of."""

_KINDS = "fiub"


def fold_constants(graph: Graph, kept: Collection[str]) -> Graph:
    """Puts a constant in the place of each node that constants alone decide.

    A constant that waits for another node is left alone, and all that reads it: it may stand
    in a branch that is not taken.

    Args:
      graph: a frozen graph; its functions are not looked into.
      kept: names of nodes that stay as they are: inputs.

    Returns:
      A new graph; constants that nothing reads any more are still in it.
    """
    values: dict[str, Array | None] = {}
    order = _producers_first(graph)
    folded: dict[str, NodeDef] = {}
    for name in order:
        node = graph.nodes[name]
        if node.op == "Const" or name in kept or node.op not in _EVALUATED:
            continue
        value = _evaluated(graph, node, values)
        if value is not None:
            values[name] = value
            folded[name] = constant_node(name, value)
    if not folded:
        return graph
    changed = GraphDef()
    changed.node.extend(folded.get(name, node) for name, node in graph.nodes.items())
    changed.versions.CopyFrom(graph.graph_def.versions)
    changed.library.CopyFrom(graph.graph_def.library)
    return Graph(changed, graph.kind, graph.path, graph.meta_graph)


def constant_node(name: str, value: Array) -> NodeDef:
    """A Const node of numbers."""
    number = dtypes.of_numpy(value.dtype).number
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = number
    tensor = node.attr["value"].tensor
    tensor.dtype = number
    tensor.tensor_shape.SetInParent()
    for size in value.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = bytes(little_endian_bytes(value))
    return node


def known_constant(graph: Graph, name: str) -> Array | None:
    """The numbers of a Const that waits for nothing; None for any other node."""
    node = graph.nodes.get(name)
    if node is None or node.op != "Const" or len(node.input):
        return None
    try:
        value = constant_value(node)
    except (GraphError, UnsupportedError):
        return None
    return value if value.dtype.kind in _KINDS else None


def _evaluated(graph: Graph, node: NodeDef, values: dict[str, Array | None]) -> Array | None:
    if not len(node.input) or any(map(is_control, node.input)):
        return None
    inputs = []
    for reference in node.input:
        tensor = tensor_of(reference)
        if tensor.output_index:
            return None
        if tensor.node not in values:
            values[tensor.node] = known_constant(graph, tensor.node)
        value = values[tensor.node]
        if value is None:
            return None
        inputs.append(value)
    with np.errstate(all="ignore"):
        try:
            result = _EVALUATED[node.op](node, *inputs)
        except (ValueError, TypeError, IndexError, OverflowError):
            # TensorFlow will say what is wrong with it when the graph is run.
            return None
    if result is None:
        return None
    allowed = sum(value.nbytes for value in inputs) + MAX_GROWTH_BYTES
    return None if result.nbytes > allowed else np.ascontiguousarray(result).reshape(result.shape)


def _producers_first(graph: Graph) -> list[str]:
    """Nodes after those they read; those in loops come last, and in any order."""
    waiting = {name: len({t.node for t in graph.data_inputs(name)}) for name in graph.nodes}
    ready = [name for name, count in waiting.items() if not count]
    order = []
    while ready:
        name = ready.pop()
        order.append(name)
        for reader in graph.consumers.get(name, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return order


def _same_dtype(function: Callable[..., Any]) -> Callable[..., Array | None]:
    """An op that gives the dtype of its inputs, which are all of one."""

    def evaluate(node: NodeDef, *inputs: Array) -> Array | None:
        dtype = inputs[0].dtype
        if any(value.dtype != dtype for value in inputs):
            return None
        return np.asarray(function(*inputs), dtype)

    return evaluate


def _floats_alone(function: Callable[..., Any]) -> Callable[..., Array | None]:
    """As `_same_dtype`, where whole numbers would round or fail in ways of TensorFlow's own."""
    of_any = _same_dtype(function)

    def evaluate(node: NodeDef, *inputs: Array) -> Array | None:
        return of_any(node, *inputs) if inputs[0].dtype.kind == "f" else None

    return evaluate


def _to_shape(node: NodeDef, value: Array, shape: Array) -> Array:
    return value.reshape(tuple(map(int, shape)))


def _squeeze(node: NodeDef, value: Array) -> Array:
    axes = tuple(node.attr["squeeze_dims"].list.i) if "squeeze_dims" in node.attr else ()
    return np.squeeze(value, axes or None)


def _cast(node: NodeDef, value: Array) -> Array | None:
    if "DstT" not in node.attr:
        return None
    dtype = dtypes.of_number(node.attr["DstT"].type).numpy
    # From floats to whole numbers TensorFlow and numpy part where a value does not fit.
    exact = np.can_cast(value.dtype, dtype) or (value.dtype.kind == "f" and dtype.kind == "f")
    return value.astype(dtype) if exact and dtype.kind in _KINDS else None


def _add_bias(node: NodeDef, value: Array, bias: Array) -> Array | None:
    channels_last = "data_format" not in node.attr or node.attr["data_format"].s == b"NHWC"
    return value + bias if channels_last and value.dtype == bias.dtype else None


def _pack(node: NodeDef, *values: Array) -> Array:
    return np.stack(values, int(node.attr["axis"].i) if "axis" in node.attr else 0)


def _concat(node: NodeDef, *inputs: Array) -> Array:
    return np.concatenate(inputs[:-1], int(inputs[-1]))


def _expand(node: NodeDef, value: Array, axis: Array) -> Array:
    return np.expand_dims(value, int(axis.reshape(())))


def _fill(node: NodeDef, shape: Array, value: Array) -> Array | None:
    size = int(np.prod(shape.astype(np.float64))) if shape.size else 1
    if size * value.itemsize > MAX_GROWTH_BYTES:
        return None
    return np.full(tuple(map(int, shape)), value.reshape(()), value.dtype)


def _transpose(node: NodeDef, value: Array, order: Array) -> Array:
    return np.transpose(value, tuple(map(int, order)))


_EVALUATED: dict[str, Callable[..., Array | None]] = {
    "Add": _same_dtype(np.add),
    "AddV2": _same_dtype(np.add),
    "BiasAdd": _add_bias,
    "Cast": _cast,
    "ConcatV2": _concat,
    "Div": _floats_alone(np.divide),
    "Exp": _floats_alone(np.exp),
    "ExpandDims": _expand,
    "Fill": _fill,
    "Identity": lambda node, value: value,
    "Maximum": _same_dtype(np.maximum),
    "Minimum": _same_dtype(np.minimum),
    "Mul": _same_dtype(np.multiply),
    "Neg": _same_dtype(np.negative),
    "Pack": _pack,
    "RealDiv": _floats_alone(np.divide),
    "Reciprocal": _floats_alone(np.reciprocal),
    "Reshape": _to_shape,
    "Rsqrt": _floats_alone(lambda value: 1 / np.sqrt(value)),
    "Sqrt": _floats_alone(np.sqrt),
    "Square": _same_dtype(np.square),
    "Squeeze": _squeeze,
    "StopGradient": lambda node, value: value,
    "Sub": _same_dtype(np.subtract),
    "Transpose": _transpose,
}
