"""Values of tensors that follow from constants, and from what else is known, without TensorFlow.

For small tensors only: settings, predicates, shapes, the scalars of dropout and moving averages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import GraphError, UnsupportedError
from checkpoints.messages import NodeDef
from exporters.constants import Array, constant_value
from exporters.graph import Graph
from exporters.names import TensorName

MAX_ELEMENTS = 1 << 16
"""Larger tensors count as unknown."""

ShapeOf = Callable[[TensorName], "tuple[int | None, ...] | None"]
Assumed = Callable[[TensorName], "Array | None"]
Result = Array | tuple[Array, ...] | None


class Evaluator:
    """Evaluates tensors of one graph.

    A control edge does not hinder: what waits for something else has the value it has.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[TensorName, Array] | None = None,
        shape_of: ShapeOf | None = None,
        assumed: Assumed | None = None,
    ) -> None:
        """Prepares; nothing is evaluated yet.

        Args:
          graph: where the tensors are.
          given: tensors whose values are known; what lies behind them is not looked at.
          shape_of: shapes of tensors, for the ops that ask for one.
          assumed: asked for the value of each tensor that does not follow from what is known.
        """
        self._graph = graph
        self._shape_of = shape_of
        self._assumed = assumed
        self._known: dict[TensorName, Array | None] = dict(given or {})

    def value(self, tensor: TensorName) -> Array | None:
        """The value of a tensor; None where it does not follow from what is known."""
        waiting = [tensor]
        entered: set[TensorName] = set()
        while waiting:
            current = waiting[-1]
            if current in self._known:
                waiting.pop()
                continue
            node = self._graph.nodes.get(current.node)
            if node is None or not _is_evaluated(node.op):
                self._known[current] = self._assume(current)
                continue
            inputs = [] if node.op in _OF_SHAPES else self._graph.data_inputs(node.name)
            unknown = [read for read in inputs if read not in self._known]
            if unknown and current not in entered:
                entered.add(current)
                waiting.extend(unknown)
                continue
            value = self._evaluate(node, current, inputs)
            self._known[current] = self._assume(current) if value is None else value
        return self._known[tensor]

    def scalar(self, tensor: TensorName) -> Any:
        """The value of a tensor of one element as Python has it; None where it is unknown."""
        value = self.value(tensor)
        return value.reshape(()).item() if value is not None and value.size == 1 else None

    def _assume(self, tensor: TensorName) -> Array | None:
        return None if self._assumed is None else self._assumed(tensor)

    def _evaluate(
        self, node: NodeDef, tensor: TensorName, inputs: list[TensorName]
    ) -> Array | None:
        values = [self._known.get(read) for read in inputs]
        try:
            with np.errstate(all="ignore"):
                if node.op == "Const":
                    result: Result = _constant(node)
                elif node.op in _OF_SHAPES:
                    result = self._of_shape(node, tensor.output_index)
                elif node.op in _LENIENT:
                    result = _LENIENT[node.op](*values)
                elif any(value is None for value in values):
                    return None
                else:
                    result = _EVALUATED[node.op](node, *values)
        except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
            # TensorFlow will say what is wrong with it when the graph is run.
            return None
        if isinstance(result, tuple):
            result = result[tensor.output_index] if tensor.output_index < len(result) else None
        elif tensor.output_index and node.op not in _ANY_OUTPUT:
            return None
        return None if result is None or result.size > MAX_ELEMENTS else np.asarray(result)

    def _of_shape(self, node: NodeDef, output_index: int) -> Array | None:
        inputs = self._graph.data_inputs(node.name)
        if self._shape_of is None or output_index >= len(inputs):
            return None
        shape = self._shape_of(inputs[output_index])
        if shape is None:
            return None
        dtype = _dtype(node, "out_type") if node.op != "Rank" else np.dtype(np.int32)
        if node.op == "Rank":
            return np.array(len(shape), dtype)
        if None in shape:
            return None
        sizes = np.array(shape, np.int64)
        # A size may stand for a batch that no int32 holds; it is the value that counts here.
        return np.asarray(sizes.prod(dtype=np.int64)) if node.op == "Size" else sizes


def _is_evaluated(op: str) -> bool:
    return op == "Const" or op in _OF_SHAPES or op in _LENIENT or op in _EVALUATED


def _constant(node: NodeDef) -> Array | None:
    try:
        return constant_value(node)
    except (GraphError, UnsupportedError):
        return None


def _dtype(node: NodeDef, attribute: str) -> np.dtype[Any]:
    number = node.attr[attribute].type if attribute in node.attr else 0
    return np.dtype(np.int32) if not number else dtypes.of_number(number).numpy


def _logical_and(first: Array | None, second: Array | None) -> Array | None:
    return _decided(first, second, False, np.logical_and)


def _logical_or(first: Array | None, second: Array | None) -> Array | None:
    return _decided(first, second, True, np.logical_or)


def _decided(
    first: Array | None, second: Array | None, decisive: bool, combine: Callable[..., Array]
) -> Array | None:
    """Both combined; one alone decides where it is the decisive scalar."""
    for value in (first, second):
        if value is not None and value.shape == () and bool(value) is decisive:
            return value
    return None if first is None or second is None else combine(first, second)


def _select(condition: Array | None, first: Array | None, second: Array | None) -> Array | None:
    if condition is None:
        return None
    if condition.ndim == 0:
        return first if bool(condition) else second
    return None if first is None or second is None else np.where(condition, first, second)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Result]:
    return lambda node, *values: np.asarray(function(*values))


def _cast(node: NodeDef, value: Array) -> Array:
    return value.astype(_dtype(node, "DstT"))


def _divide(node: NodeDef, first: Array, second: Array) -> Array:
    """Div of whole numbers cuts towards zero; of others it divides."""
    if first.dtype.kind in "iu" and second.dtype.kind in "iu":
        return np.trunc(first / second).astype(first.dtype)
    return np.asarray(first / second)


def _axes(value: Array) -> tuple[int, ...]:
    return tuple(int(axis) for axis in value.reshape(-1))


def _reduce(function: Callable[..., Any]) -> Callable[..., Result]:
    def evaluate(node: NodeDef, value: Array, axes: Array) -> Array:
        keeps = bool(node.attr["keep_dims"].b) if "keep_dims" in node.attr else False
        return np.asarray(function(value, axis=_axes(axes), keepdims=keeps), value.dtype)

    return evaluate


def _strided_slice(node: NodeDef, value: Array, *bounds: Array) -> Array:
    return np.asarray(value[strided_index(node, *bounds)])


def strided_index(node: NodeDef, begin: Array, end: Array, strides: Array) -> tuple[Any, ...]:
    """What stands between the brackets where StridedSlice was written as `value[...]`."""
    masks = {
        name: int(node.attr[f"{name}_mask"].i) if f"{name}_mask" in node.attr else 0
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    index: list[Any] = []
    for place in range(len(begin)):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(int(begin[place]))
        else:
            first = None if masks["begin"] & bit else int(begin[place])
            last = None if masks["end"] & bit else int(end[place])
            index.append(slice(first, last, int(strides[place])))
    return tuple(index)


def _slice(node: NodeDef, value: Array, begin: Array, size: Array) -> Array:
    stops = [
        None if length < 0 else start + length
        for start, length in zip(_axes(begin), _axes(size), strict=True)
    ]
    return value[tuple(map(slice, _axes(begin), stops))]


def integer_attribute(node: NodeDef, name: str, default: int = 0) -> int:
    """An attribute that is a whole number, or what it is where it is not written."""
    return int(node.attr[name].i) if name in node.attr else default


def _pack(node: NodeDef, *values: Array) -> Array:
    return np.stack(values, integer_attribute(node, "axis"))


def _unpack(node: NodeDef, value: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(value, integer_attribute(node, "axis"), 0))


def _split(node: NodeDef, axis: Array, value: Array) -> tuple[Array, ...]:
    return tuple(np.split(value, integer_attribute(node, "num_split", 1), int(axis)))


def _concat(node: NodeDef, *values: Array) -> Array:
    return np.concatenate(values[:-1], int(values[-1]))


def _gather(node: NodeDef, value: Array, indices: Array, axis: Array | None = None) -> Array:
    return np.take(value, indices, 0 if axis is None else int(axis))


def _squeeze(node: NodeDef, value: Array) -> Array:
    axes = tuple(node.attr["squeeze_dims"].list.i) if "squeeze_dims" in node.attr else ()
    return np.squeeze(value, axes or None)


def _fill(node: NodeDef, shape: Array, value: Array) -> Array | None:
    if shape.size and float(np.prod(shape.astype(np.float64))) > MAX_ELEMENTS:
        return None
    return np.full(_axes(shape), value.reshape(()), value.dtype)


def _range(node: NodeDef, start: Array, limit: Array, step: Array) -> Array | None:
    if abs(float(limit - start)) > MAX_ELEMENTS * abs(float(step)):
        return None
    return np.asarray(np.arange(start.item(), limit.item(), step.item(), dtype=start.dtype))


def _power(node: NodeDef, first: Array, second: Array) -> Array | None:
    """Of floats alone: powers of whole numbers may be of any size."""
    return np.power(first, second) if first.dtype.kind == "f" else None


def _passed(node: NodeDef, value: Array, *others: Array) -> Array:
    return value


_OF_SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_ANY_OUTPUT = _OF_SHAPES | {"RefSwitch", "Switch"}
_LENIENT: dict[str, Callable[..., Array | None]] = {
    "LogicalAnd": _logical_and,
    "LogicalOr": _logical_or,
    "Select": _select,
    "SelectV2": _select,
}
"""Ops that may be decided by one of their inputs."""

_EVALUATED: dict[str, Callable[..., Result]] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "AddN": _elementwise(lambda *values: sum(values[1:], values[0])),
    "AddV2": _elementwise(np.add),
    "Cast": _cast,
    "Ceil": _elementwise(np.ceil),
    "ConcatV2": _concat,
    "Div": _divide,
    "DivNoNan": _elementwise(lambda a, b: np.where(b == 0, np.zeros_like(a), a / b)),
    "Enter": _passed,
    "Equal": _elementwise(np.equal),
    "Exp": _elementwise(np.exp),
    "ExpandDims": lambda node, value, axis: np.expand_dims(value, int(axis.reshape(()))),
    "Fill": _fill,
    "Floor": _elementwise(np.floor),
    "FloorDiv": _elementwise(np.floor_divide),
    "FloorMod": _elementwise(np.mod),
    "Gather": _gather,
    "GatherV2": _gather,
    "Greater": _elementwise(np.greater),
    "GreaterEqual": _elementwise(np.greater_equal),
    "Identity": _passed,
    "Inv": _elementwise(np.reciprocal),
    "Less": _elementwise(np.less),
    "LessEqual": _elementwise(np.less_equal),
    "Log": _elementwise(np.log),
    "LogicalNot": _elementwise(np.logical_not),
    "Max": _reduce(np.max),
    "Maximum": _elementwise(np.maximum),
    "Min": _reduce(np.min),
    "Minimum": _elementwise(np.minimum),
    "Mod": _elementwise(np.fmod),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "NotEqual": _elementwise(np.not_equal),
    "OnesLike": _elementwise(np.ones_like),
    "Pack": _pack,
    "Pow": _power,
    "PreventGradient": _passed,
    "Prod": _reduce(np.prod),
    "Range": _range,
    "RealDiv": _elementwise(np.true_divide),
    "Reciprocal": _elementwise(np.reciprocal),
    "RefEnter": _passed,
    "RefIdentity": _passed,
    "RefSwitch": _passed,
    "Reshape": lambda node, value, shape: value.reshape(_axes(shape)),
    "Round": _elementwise(np.rint),
    "Rsqrt": _elementwise(lambda value: 1 / np.sqrt(value)),
    "Slice": _slice,
    "Snapshot": _passed,
    "Split": _split,
    "Sqrt": _elementwise(np.sqrt),
    "Square": _elementwise(np.square),
    "Squeeze": _squeeze,
    "StopGradient": _passed,
    "StridedSlice": _strided_slice,
    "Sub": _elementwise(np.subtract),
    "Sum": _reduce(np.sum),
    "Switch": _passed,
    "TruncateDiv": _divide,
    "TruncateMod": _elementwise(np.fmod),
    "Unpack": _unpack,
    "ZerosLike": _elementwise(np.zeros_like),
}
