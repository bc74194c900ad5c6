"""Inputs made up to run a graph with: random numbers that its ops can take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import UnsupportedError
from checkpoints.messages import DataType, NodeDef
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.moving_averages import variable_behind
from exporters.names import TensorName
from exporters.values import Array

_KNOWN_SETTINGS = ("keep_prob", "keep", "dropout_keep_prob", "dropout_keep")
"""Scalar placeholders that are 1 where a graph gives answers; other scalars are 0."""

_PASSES = frozenset(
    {
        "Cast",
        "ConcatV2",
        "Enter",
        "ExpandDims",
        "Identity",
        "Pack",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "StridedSlice",
        "Switch",
        "Tile",
        "Transpose",
        "Unique",
        "Unpack",
    }
)
"""Ops whose outputs hold the numbers of an input."""

_GATHERS = frozenset({"Gather", "GatherV2", "ResourceGather"})
_ANY_NUMBER = 10
_ANY_INDEX = 2


def made_up_inputs(
    graph: Graph,
    inputs: Sequence[TensorName],
    batch_size: int,
    generator: np.random.Generator,
) -> dict[str, Array]:
    """Random values for inputs: -1 to 1 for floats, 0 to 255 for bytes.

    Whole numbers are indices of what they pick from, 0 to 9 where they become floats, else 0
    or 1.

    Args:
      graph: the graph the inputs belong to.
      inputs: tensors to feed; those with a default are left out.
      batch_size: what an unknown first dimension becomes.
      generator: where the numbers come from.

    Raises:
      UnsupportedError: a shape is not known, or the dtype holds no numbers.
    """
    feeds: dict[str, Array] = {}
    for tensor in inputs:
        node = graph.nodes[tensor.node]
        if node.op == "PlaceholderWithDefault":
            continue
        number = graph.dtype(tensor)
        shape = graph.shape(tensor)
        if shape is None or None in shape[1:] or number in (None, DataType.DT_STRING):
            raise _not_made_up(tensor, number, shape)
        size = tuple(batch_size if length is None else length for length in shape)
        dtype = dtypes.of_number(number)
        limit = _limit(graph, tensor) if size and np.dtype(dtype.numpy).kind in "iu" else None
        feeds[str(tensor)] = _made_up(node.name, dtype, size, limit, generator)
    return feeds


def _not_made_up(
    tensor: TensorName, number: int | None, shape: tuple[int | None, ...] | None
) -> UnsupportedError:
    known = "unknown" if shape is None else list(shape)
    step = "Use --verify structure."
    if number not in (None, DataType.DT_STRING):
        sizes = (None, 224, 224, 3) if shape is None else (shape[0], *(n or 224 for n in shape[1:]))
        text = "x".join("?" if size is None else str(size) for size in sizes)
        step = f"Give its shape, as in --inputs {tensor.node}={text}, or use --verify structure."
    return UnsupportedError(
        f"No input can be made up for {tensor}: dtype {dtypes.name_of_number(number or 0)},"
        f" shape {known}.",
        expected="numbers, and a shape of which only the first dimension is open",
        next_step=step,
    )


def _made_up(
    name: str,
    dtype: dtypes.DType,
    shape: tuple[int, ...],
    limit: int | None,
    generator: np.random.Generator,
) -> Array:
    kind = np.dtype(dtype.numpy).kind
    if not shape:
        setting = name.split("/")[-1] in _KNOWN_SETTINGS
        return np.array(1 if setting and kind not in "b" else 0, dtype.numpy)
    if kind == "b":
        return np.zeros(shape, bool)
    if kind in "iu":
        any_number = 256 if dtype.name == "uint8" else _ANY_NUMBER
        return generator.integers(0, limit or any_number, shape).astype(dtype.numpy)
    return generator.uniform(-1.0, 1.0, shape).astype(dtype.numpy)


def _limit(graph: Graph, tensor: TensorName) -> int | None:
    """What whole numbers have to stay below; None where they only become floats."""
    limits: list[int] = []
    is_any = True
    seen = {tensor.node}
    waiting = [tensor.node]
    while waiting:
        current = waiting.pop()
        for name in graph.consumers.get(current, ()):
            node = graph.nodes[name]
            places = [
                index for index, read in enumerate(graph.data_inputs(name)) if read.node == current
            ]
            limit = _picks_from(graph, node, places)
            if limit is not None:
                limits.append(limit)
            elif node.op in _PASSES and not _makes_floats(graph, node):
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
            else:
                is_any = is_any and node.op == "Cast"
    if limits:
        return max(min(limits), 1)
    return None if is_any else _ANY_INDEX


def _makes_floats(graph: Graph, node: NodeDef) -> bool:
    number = graph.dtype(TensorName(node.name)) if node.op == "Cast" else None
    return number is not None and np.dtype(dtypes.of_number(number).numpy).kind not in "iu"


def _picks_from(graph: Graph, node: NodeDef, places: list[int]) -> int | None:
    """How many things a node picks from with the numbers at some of its inputs."""
    inputs = graph.data_inputs(node.name)
    if node.op in _GATHERS and 1 in places:
        shape = _shape(graph, inputs[0])
        axis = Evaluator(graph).scalar(inputs[2]) if len(inputs) > 2 else 0
        return None if shape is None or axis is None else _size(shape, int(axis))
    if node.op in ("GatherNd", "ResourceGatherNd") and 1 in places:
        shape = _shape(graph, inputs[0])
        sizes = [size for size in shape or () if size is not None]
        return min(sizes, default=None)
    if node.op == "OneHot" and 0 in places and len(inputs) > 1:
        depth = Evaluator(graph).scalar(inputs[1])
        return None if depth is None else int(depth)
    return None


def _size(shape: tuple[int | None, ...], axis: int) -> int | None:
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _shape(graph: Graph, tensor: TensorName) -> tuple[int | None, ...] | None:
    """The shape of a variable or a constant, read through whatever passes it on."""
    variable = variable_behind(graph, tensor)
    if variable is not None:
        return graph.shape(TensorName(variable))
    value = Evaluator(graph).value(tensor)
    if value is not None:
        return value.shape
    seen: set[str] = set()
    while tensor.node not in seen:
        seen.add(tensor.node)
        shape = graph.shape(tensor)
        inputs = graph.data_inputs(tensor.node)
        if shape is not None or graph.nodes[tensor.node].op != "Identity" or not inputs:
            return shape
        tensor = inputs[0]
    return None
