"""Thawing: the constants of a frozen graph that were variables become variables again.

The variables are resource variables: TensorFlow restores and trains both kinds, and of these
every reader sees one value in a step, whatever an optimiser writes at the same time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from checkpoints.errors import GraphError, counted
from checkpoints.messages import DataType, GraphDef, NodeDef
from checkpoints.tensors import set_shape
from exporters.constant_values import ConstantValues
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of, tensor_of
from exporters.rewrites.devices import clear_placement, unplaced_library
from exporters.thawed.weights import WeightConstant, find_weights

_CONVOLUTIONS = frozenset(
    {"Conv2D", "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropInputV2", "DepthwiseConv2dNative"}
)
_BATCH_NORM_NAME = re.compile(r"(?i)(?:.*[/_])?(?:batch_?norm(?:ali[sz]ation)?|bn)\d*(?:[/_].*)?")


@dataclass(frozen=True, eq=False)
class ThawedGraph:
    """A graph with variables where constants were.

    Attributes:
      source: the frozen graph.
      graph: the same with variables and the nodes that read them; nothing initialises or saves
        them yet.
      weights: what became variables, in file order.
      values: the values by the variables' names.
      said: what was done and what cannot come back, a line each.
    """

    source: Graph
    graph: Graph
    weights: tuple[WeightConstant, ...]
    values: ConstantValues
    said: tuple[str, ...]


def thaw_graph(graph: Graph, outputs: Sequence[TensorName] = ()) -> ThawedGraph:
    """Makes variables of the constants that were some.

    Args:
      graph: a frozen graph.
      outputs: tensors that stay what they are, whatever they look like.

    Raises:
      GraphError: no constant looks like a variable, or one cannot be read.
    """
    kept = {tensor.node for tensor in outputs}
    weights = [weight for weight in find_weights(graph) if weight.node not in kept]
    if not weights:
        raise GraphError(
            f"{graph.label} has no constants that were variables.",
            expected="constants read through x/read or a ReadVariableOp, or taken by a"
            " convolution, product or batch norm as its weights",
            received=f"{counted(_num_constants(graph), 'constant')} of other uses",
        )
    nodes = {weight.name: graph.nodes[weight.node] for weight in weights}
    values = ConstantValues(graph.label, nodes)
    thawed = Graph(_Thawing(graph, weights).graph_def(), "graph-def", graph.path)
    said = (_counts(graph, weights), *_losses(graph, weights))
    return ThawedGraph(graph, thawed, tuple(weights), values, said)


class _Thawing:
    """Puts variables and reads into a graph, in place of constants and identities."""

    def __init__(self, source: Graph, weights: Sequence[WeightConstant]) -> None:
        self._source = source
        self._weights = {weight.node: weight for weight in weights}
        self._identities = {
            name: node_of(node.input[0])
            for name, node in source.nodes.items()
            if node.op == "Identity"
            and node.input
            and not is_control(node.input[0])
            and node_of(node.input[0]) in self._weights
        }
        self._added: set[str] = set()
        self._reads = self._find_reads()

    def graph_def(self) -> GraphDef:
        """The new graph; nodes stand in their old order, reads that were added behind theirs."""
        graph_def = GraphDef()
        for name, node in self._source.nodes.items():
            if name in self._weights:
                self._add_variable(graph_def, self._weights[name])
            elif name in self._identities:
                graph_def.node.append(self._read_for(node))
            else:
                changed = graph_def.node.add()
                changed.CopyFrom(node)
                clear_placement(changed)
                changed.attr.pop("_output_shapes", None)
                inputs = [self._redirected(reference) for reference in node.input]
                if inputs != list(node.input):
                    changed.input[:] = inputs
        graph_def.library.CopyFrom(unplaced_library(self._source))
        graph_def.versions.CopyFrom(self._source.graph_def.versions)
        return graph_def

    def _find_reads(self) -> dict[str, str]:
        """Variable -> a node that reads it; an identity that is there, else one to be added."""
        plain: dict[str, str] = {}
        for name, constant in self._identities.items():
            if len(self._source.nodes[name].input) == 1:
                plain.setdefault(constant, name)
        reads = {}
        for constant, weight in self._weights.items():
            if weight.name != constant:
                # The constant is a read that a variable was folded into.
                reads[weight.name] = constant
            elif constant in plain:
                reads[weight.name] = plain[constant]
            else:
                reads[weight.name] = self._free_name(f"{weight.name}/Read/ReadVariableOp")
        return reads

    def _add_variable(self, graph_def: GraphDef, weight: WeightConstant) -> None:
        variable = graph_def.node.add(name=weight.name, op="VarHandleOp")
        variable.attr["dtype"].type = weight.dtype.number
        set_shape(variable.attr["shape"].shape, weight.shape)
        variable.attr["container"].s = b""
        variable.attr["shared_name"].s = weight.name.encode("utf-8")
        read = self._reads[weight.name]
        if read not in self._source.nodes or read == weight.node:
            graph_def.node.append(_read_node(read, weight, [weight.name]))

    def _read_for(self, identity: NodeDef) -> NodeDef:
        weight = self._weights[self._identities[identity.name]]
        controls = [self._redirected(reference) for reference in identity.input[1:]]
        return _read_node(identity.name, weight, [weight.name, *controls])

    def _redirected(self, reference: str) -> str:
        """A reference to a constant's value means the value read; one that only orders stays."""
        if is_control(reference) or tensor_of(reference).node not in self._weights:
            return reference
        return self._reads[self._weights[tensor_of(reference).node].name]

    def _free_name(self, hint: str) -> str:
        name, count = hint, 0
        while name in self._source.nodes or name in self._added:
            count += 1
            name = f"{hint}_{count}"
        self._added.add(name)
        return name


def _read_node(name: str, weight: WeightConstant, inputs: Sequence[str]) -> NodeDef:
    read = NodeDef(name=name, op="ReadVariableOp", input=inputs)
    read.attr["dtype"].type = weight.dtype.number
    return read


def _num_constants(graph: Graph) -> int:
    return sum(node.op == "Const" for node in graph.nodes.values())


def _counts(source: Graph, weights: Sequence[WeightConstant]) -> str:
    trainable = sum(weight.is_trainable for weight in weights)
    moving = sum(weight.is_moving for weight in weights)
    others = f", {counted(moving, 'moving average')}" if moving else ""
    rest = _num_constants(source) - len(weights)
    stay = f"; {counted(rest, 'constant')} of other uses {_stay(rest)}" if rest else ""
    variables = "a variable" if len(weights) == 1 else "variables"
    return (
        f"{counted(len(weights), 'constant')} became {variables}, {trainable} trainable"
        f"{others}{stay}."
    )


def _stay(number: int) -> str:
    return "stays" if number == 1 else "stay"


def _losses(source: Graph, weights: Sequence[WeightConstant]) -> list[str]:
    """What a frozen graph no longer holds, as far as it shows."""
    said = []
    counts = Counter(node.op for node in source.nodes.values())
    if not _has_batch_norm(source, weights) and any(op in _CONVOLUTIONS for op in counts):
        named = next(filter(_BATCH_NORM_NAME.fullmatch, source.nodes), None)
        lost = "gammas, betas and moving averages cannot come back"
        if named is not None:
            said.append(
                f"Batch norm was folded into the layers before it (see {named}): its {lost}, and"
                " training goes on without it."
            )
        else:
            said.append(f"There is no batch norm. If the net had any, it was folded: its {lost}.")
    quantised = _quantised_constants(source)
    if quantised:
        constants = counted(quantised, "quantised constant")
        said.append(f"{constants} {_stay(quantised)}: nothing trains them.")
    inside = sum(
        node.op == "Const" and _is_floating(node)
        for function in source.functions.values()
        for node in function.node_def
    )
    if inside:
        constants = counted(inside, "floating-point constant")
        said.append(f"{constants} inside functions {_stay(inside)}.")
    return said


def _has_batch_norm(source: Graph, weights: Collection[WeightConstant]) -> bool:
    return any(weight.is_moving for weight in weights) or any(
        node.op.startswith(("FusedBatchNorm", "BatchNormWithGlobal"))
        for node in source.nodes.values()
    )


def _quantised_constants(source: Graph) -> int:
    return sum(
        node.op == "Const" and any(taker.startswith("Dequantize") for taker in _ops(source, name))
        for name, node in source.nodes.items()
    )


def _ops(source: Graph, producer: str) -> list[str]:
    return [source.nodes[taker].op for taker in source.consumers.get(producer, ())]


def _is_floating(node: NodeDef) -> bool:
    tensor = node.attr["value"].tensor if "value" in node.attr else None
    return (
        tensor is not None
        and len(tensor.tensor_shape.dim) > 0
        and tensor.dtype in (DataType.DT_FLOAT, DataType.DT_HALF, DataType.DT_BFLOAT16)
    )
