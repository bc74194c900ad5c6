"""Which constants of a frozen graph were variables, and what they are to the net.

A constant that is read as TensorFlow reads variables (`x/read`, a former ReadVariableOp) was
one. So was one that an op takes as its weights, directly or through ops that only pass or
reshape it. Sizes, axes and factors are neither and stay constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from checkpoints import dtypes
from checkpoints.errors import UnsupportedError
from checkpoints.messages import NodeDef
from exporters.calls import argument_of, calls_of, producer_in_function
from exporters.graph import Graph, dimensions
from exporters.names import METADATA_NODE, is_control, node_of

WeightRole: TypeAlias = Literal["weights", "offset", "scale", "mean", "variance"]

_BATCH_NORM: dict[int, WeightRole] = {1: "scale", 2: "offset", 3: "mean", 4: "variance"}
_FILTER: dict[int, WeightRole] = {1: "weights"}
_CELL: WeightRole = "weights"

WEIGHT_INPUTS: Mapping[str, Mapping[int, WeightRole]] = {
    "BatchMatMul": {0: "weights", 1: "weights"},
    "BatchMatMulV2": {0: "weights", 1: "weights"},
    "BatchMatMulV3": {0: "weights", 1: "weights"},
    "BatchNormWithGlobalNormalization": {1: "mean", 2: "variance", 3: "offset", 4: "scale"},
    "BiasAdd": {1: "offset"},
    "BiasAddV1": {1: "offset"},
    "BlockLSTM": {4: _CELL, 5: _CELL, 6: _CELL, 7: _CELL, 8: "offset"},
    "BlockLSTMV2": {4: _CELL, 5: _CELL, 6: _CELL, 7: _CELL, 8: "offset"},
    "Conv2D": _FILTER,
    "Conv2DBackpropInput": _FILTER,
    "Conv3D": _FILTER,
    "Conv3DBackpropInput": _FILTER,
    "Conv3DBackpropInputV2": _FILTER,
    "DepthwiseConv2dNative": _FILTER,
    "DepthwiseConv2dNativeBackpropInput": _FILTER,
    "Dilation2D": _FILTER,
    "FusedBatchNorm": _BATCH_NORM,
    "FusedBatchNormV2": _BATCH_NORM,
    "FusedBatchNormV3": _BATCH_NORM,
    "GRUBlockCell": {2: _CELL, 3: _CELL, 4: "offset", 5: "offset"},
    "Gather": {0: "weights"},
    "GatherNd": {0: "weights"},
    "GatherV2": {0: "weights"},
    "LSTMBlockCell": {3: _CELL, 4: _CELL, 5: _CELL, 6: _CELL, 7: "offset"},
    "MatMul": {0: "weights", 1: "weights"},
}
"""Op -> the inputs that are weights, and what each is.

Source:
  TensorFlow's nn_ops.cc, math_ops.cc, array_ops.cc and rnn_ops.cc.
"""

_PASSES: Mapping[str, frozenset[int]] = {
    "Cast": frozenset({0}),
    "ConcatV2": frozenset(range(1 << 10)),
    "Enter": frozenset({0}),
    "ExpandDims": frozenset({0}),
    "FakeQuantWithMinMaxArgs": frozenset({0}),
    "FakeQuantWithMinMaxVars": frozenset({0}),
    "FakeQuantWithMinMaxVarsPerChannel": frozenset({0}),
    "Identity": frozenset({0}),
    "Reshape": frozenset({0}),
    "Split": frozenset({1}),
    "SplitV": frozenset({0}),
    "Squeeze": frozenset({0}),
    "StopGradient": frozenset({0}),
    "Switch": frozenset({0}),
    "Transpose": frozenset({0}),
}
"""Op -> the inputs whose values come out again, in another shape or dtype at most."""

_PRODUCTS = frozenset(
    {
        "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv2DBackpropInput", "Conv3D",
        "Conv3DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNative", "MatMul",
    }
)  # fmt: skip
_ADDS = frozenset({"Add", "AddV2"})
_SCALES = _ADDS | {"Mul", "Sub"}
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_READ = re.compile(r"(?:.*/)?(?:read|(?:\w*_)?ReadVariableOp(?:_\d+)?)")
_FOLDED_READ = re.compile(r"(.+)/(?:read|Read/ReadVariableOp)(?:/_\d+__cf__\d+)?")
_MOVING = re.compile(
    r"(?:.*/)?(?:(?:moving|running|pop|population)_(?:mean|var|variance|avg|average)"
    r"|ExponentialMovingAverage)(?:_\d+)?(?:/.*)?"
)
_COLOCATION = b"loc:@"
_MAX_TERMS = 8
"""How far is looked back from a summand or factor."""

_Place: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class WeightConstant:
    """A constant that was a variable.

    Attributes:
      node: the Const.
      name: the variable's name: the node's, without a read that was folded into it.
      dtype: its dtype.
      shape: its shape.
      roles: what ops take it as; empty where only the way it is read says that it was one.
    """

    node: str
    name: str
    dtype: dtypes.DType
    shape: tuple[int, ...]
    roles: frozenset[WeightRole]

    @property
    def is_moving(self) -> bool:
        """Whether it is a moving average, which training updates otherwise than by gradients."""
        taken = bool(self.roles) and self.roles <= {"mean", "variance"}
        return taken or is_moving_average(self.name)

    @property
    def is_trainable(self) -> bool:
        """Whether gradients change it."""
        return self.dtype.name in _FLOATS and not self.is_moving


def is_moving_average(name: str) -> bool:
    """Whether a variable's name says that it is the average of something."""
    return _MOVING.fullmatch(name) is not None


def find_weights(graph: Graph) -> list[WeightConstant]:
    """The constants of a graph that were variables, in file order.

    Args:
      graph: a graph, its function library included.

    Raises:
      GraphError: the graph has several nodes of one name.
    """
    places = _Roles(graph)
    found: dict[str, WeightConstant] = {}
    for name, node in graph.nodes.items():
        if node.op != "Const" or node.input or name == METADATA_NODE or "value" not in node.attr:
            continue
        shape = dimensions(node.attr["value"].tensor.tensor_shape)
        dtype = _dtype_of(node)
        if shape is None or dtype is None or None in shape:
            continue
        sizes = tuple(size for size in shape if size is not None)
        can_be_weights = dtype.name in _FLOATS and bool(sizes) and 0 not in sizes
        roles = places.roles_of(name) if can_be_weights else frozenset()
        if roles or _is_read(node, places.takers(name)):
            variable = _variable_name(graph, name)
            # Two reads of one variable that were both folded are two variables from now on.
            variable = name if variable in found else variable
            found[variable] = WeightConstant(name, variable, dtype, sizes, roles)
    return list(found.values())


class _Roles:
    """As what ops take tensors, told from the weights' inputs back through what only passes them on.

    A place is the name of a function, empty for the graph itself, and in it that of a node or
    argument.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._scopes = {"": _Scope(graph.nodes.values(), node_of)}
        for name, function in graph.functions.items():
            self._scopes[name] = _Scope(function.node_def, producer_in_function)
        self._callers = self._find_callers()
        self._roles: dict[_Place, set[WeightRole]] = {}
        self._find()

    def roles_of(self, constant: str) -> frozenset[WeightRole]:
        """As what ops take a constant of the graph."""
        return frozenset(self._roles.get(("", constant), ()))

    def takers(self, constant: str) -> list[NodeDef]:
        """The nodes that take a constant of the graph."""
        return self._scopes[""].takers.get(constant, [])

    def _find(self) -> None:
        waiting: list[tuple[_Place, WeightRole]] = []
        for name, scope in self._scopes.items():
            for node in scope.nodes.values():
                waiting += [((name, taken), role) for taken, role in scope.taken_by(node)]
        while waiting:
            place, role = waiting.pop()
            roles = self._roles.setdefault(place, set())
            if role not in roles:
                roles.add(role)
                waiting += [(before, role) for before in self._before(place)]

    def _before(self, place: _Place) -> list[_Place]:
        """Where the values of a place come from, if it only passes them on."""
        scope = self._scopes[place[0]]
        node = scope.nodes.get(place[1])
        if node is None:
            return self._callers.get(place, [])
        passed = _PASSES.get(node.op, frozenset())
        return [
            (place[0], name) for index, name in enumerate(scope.inputs(node)) if index in passed
        ]

    def _find_callers(self) -> dict[_Place, list[_Place]]:
        """Argument of a function -> what is given for it."""
        callers: dict[_Place, list[_Place]] = {}
        for name, scope in self._scopes.items():
            for node in scope.nodes.values():
                for call in calls_of(node, self._graph.functions):
                    function = self._graph.functions.get(call.function)
                    given = scope.inputs(node)[call.first_input :] if function is not None else []
                    for index, producer in enumerate(given):
                        argument = argument_of(function, index)
                        if argument is not None:
                            place = (call.function, str(argument.name))
                            callers.setdefault(place, []).append((name, producer))
        return callers


class _Scope:
    """The nodes of the graph or of one function."""

    def __init__(self, nodes: Iterable[NodeDef], producer: Callable[[str], str]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._producer = producer
        self.takers: dict[str, list[NodeDef]] = {}
        for node in self.nodes.values():
            for name in self.inputs(node):
                self.takers.setdefault(name, []).append(node)

    def inputs(self, node: NodeDef) -> list[str]:
        """What a node takes, control edges left out, which come last."""
        return [self._producer(entry) for entry in node.input if not is_control(entry)]

    def taken_by(self, node: NodeDef) -> list[tuple[str, WeightRole]]:
        """What a node takes as weights, and as which."""
        inputs = self.inputs(node)
        known = WEIGHT_INPUTS.get(node.op, {})
        taken = [(name, known[index]) for index, name in enumerate(inputs) if index in known]
        if node.op in _SCALES and len(inputs) == 2:
            for name, other in (inputs, inputs[::-1]):
                role = self._role_of_term(node, name, other) if self._is_constant(name) else None
                if role is not None:
                    taken.append((name, role))
        return taken

    def _role_of_term(self, node: NodeDef, name: str, other: str) -> WeightRole | None:
        """What a summand or factor is, where the other one tells.

        An unfused batch norm is x * (scale / sigma) + (offset - mean * (scale / sigma)).
        """
        takers = self.takers.get(node.name, [])
        if node.op in _ADDS and any(taker.op == "Rsqrt" for taker in takers):
            return "variance"
        if node.op == "Mul" and self._is_op(other, "Rsqrt"):
            return "scale"
        if node.op == "Mul" and self._is_normalising(other):
            subtracted = [self.inputs(taker)[1:] for taker in takers if taker.op == "Sub"]
            return "mean" if [node.name] in subtracted else None
        if node.op == "Sub" and self.inputs(node)[0] == name and self._is_op(other, "Mul"):
            return "offset" if any(map(self._is_normalising, self._factors(other))) else None
        if self._is_product(other):
            return "scale" if node.op == "Mul" else "offset"
        return None

    def _is_normalising(self, name: str) -> bool:
        """Whether it is 1 / sigma, or that times a scale."""
        return any(self._is_op(factor, "Rsqrt") for factor in (name, *self._factors(name)))

    def _factors(self, name: str) -> list[str]:
        """What a product of two is made of."""
        node = self._behind_reads(name)
        return self.inputs(node) if node is not None and node.op == "Mul" else []

    def _is_op(self, name: str, op: str) -> bool:
        node = self._behind_reads(name)
        return node is not None and node.op == op

    def _is_constant(self, name: str) -> bool:
        """Whether it is a constant or an argument, which may be one; reads are looked through."""
        node = self._behind_reads(name)
        return node is None or node.op == "Const"

    def _is_product(self, name: str) -> bool:
        """Whether it is a convolution or product, scaled or shifted a few times at most."""
        node = self._behind_reads(name)
        for _ in range(_MAX_TERMS):
            if node is None or node.op in _PRODUCTS:
                break
            if node.op not in _SCALES and node.op != "BiasAdd":
                return False
            sides = [self._behind_reads(side) for side in self.inputs(node)]
            node = next((side for side in sides if side is not None and side.op != "Const"), None)
        return node is not None and node.op in _PRODUCTS

    def _behind_reads(self, name: str) -> NodeDef | None:
        """The node behind the identities that lead to a tensor; None for an argument."""
        node = self.nodes.get(name)
        for _ in range(_MAX_TERMS):
            if node is None or node.op != "Identity" or not self.inputs(node):
                break
            node = self.nodes.get(self.inputs(node)[0])
        return node


def _is_read(constant: NodeDef, takers: Iterable[NodeDef]) -> bool:
    """Whether an Identity stands where TensorFlow reads a variable."""
    place = _COLOCATION + constant.name.encode("utf-8")
    for node in takers:
        if node.op == "Identity" and (
            _READ.fullmatch(node.name) is not None
            or ("_class" in node.attr and place in node.attr["_class"].list.s)
        ):
            return True
    return False


def _variable_name(graph: Graph, node: str) -> str:
    """`x` for a constant `x/read` into which the variable was folded, where `x` is free."""
    folded = _FOLDED_READ.fullmatch(node)
    if folded is not None and folded.group(1) not in graph.nodes:
        return folded.group(1)
    return node


def _dtype_of(node: NodeDef) -> dtypes.DType | None:
    try:
        return dtypes.of_number(node.attr["value"].tensor.dtype)
    except UnsupportedError:
        return None
