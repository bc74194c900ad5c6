"""Which tensor of a graph holds its answers, where nobody said so.

A training graph has hundreds of nodes that nothing reads, and its answers need not be among
them. So dependence is followed per tensor, and answers are sought where they meet the labels:
in a loss or a metric. A graph without labels has true sinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from checkpoints.errors import GraphError, listed
from checkpoints.messages import DataType, NodeDef
from exporters.graph import Graph
from exporters.names import METADATA_NODE, TensorName
from exporters.ops import VARIABLES, is_bookkeeping, is_summary, writes_variable

_INPUT_SOURCES = re.compile(
    r"Placeholder(V2|WithDefault)?|IteratorGetNext(Sync)?|IteratorGetNextAsOptional"
    r"|(Queue)?Dequeue\w*|QueueDequeue(Many|UpTo)?(V2)?|ReaderRead(UpTo)?(V2)?"
)
_AUXILIARY = re.compile(r"(?i)(?:^|[/_])aux")
_GRADIENTS = re.compile(r"(?:^|/)gradients(?:_\d+)?/")

_LOSSES = frozenset(
    {
        "InTopK",
        "InTopKV2",
        "SoftmaxCrossEntropyWithLogits",
        "SparseSoftmaxCrossEntropyWithLogits",
    }
)
"""Ops where predictions and labels meet, whatever comes after."""

_COMPARISONS = frozenset({"Equal", "Mul", "NotEqual", "SquaredDifference", "Sub"})
"""Ops where they may meet, if only a loss or a metric comes after."""

_REDUCTIONS = frozenset({"Max", "Mean", "Min", "Sum"})
_ANSWERS = frozenset({"LogSoftmax", "Sigmoid", "Softmax"})
_FROM_ANSWERS = frozenset(
    {"ArgMax", "ClipByValue", "Greater", "Log", "Neg", "Round", "StopGradient", "TopK", "TopKV2"}
)
_SHAPERS = frozenset({"ExpandDims", "Reshape", "Squeeze"})
_IGNORED = frozenset({"Assert", "Const", "NoOp", "Shape", "ShapeN", "Size", "Rank"})
_WEIGHTS = 1
_MAX_PASSES = 8
"""How many times an answer may be reshaped or named anew."""


class Guess(NamedTuple):
    """An output that stands to reason.

    Attributes:
      output: the tensor.
      others: what else it could have been.
      reason: why this one, for people.
    """

    output: TensorName
    others: tuple[TensorName, ...]
    reason: str


def guess_outputs(graph: Graph) -> Guess:
    """Finds the tensor that holds the answers.

    Where predictions meet labels, it is what meets them, or the softmax or sigmoid of it; of
    several (a main and an auxiliary head) the one that needs the most nodes. Otherwise it is
    the one sink that depends on an input and on variables; auxiliary heads are known by name.

    Raises:
      GraphError: nothing, or several things alike, could be the output; they are listed.
    """
    flow = _Flow(graph)
    met = _distinct(flow.answer(tensor) for tensor in flow.met_by_labels())
    if met:
        sizes = {tensor: len(graph.ancestors([tensor.node])) for tensor in met}
        most = max(sizes.values())
        largest = [tensor for tensor in met if sizes[tensor] == most]
        if len(largest) > 1:
            raise _tie(graph, largest)
        others = tuple(tensor for tensor in met if tensor != largest[0])
        return Guess(largest[0], others, "it is what the labels are compared with")
    for sinks in (flow.sinks(read_by_summaries=False), flow.sinks(read_by_summaries=True)):
        answers = _distinct(map(flow.answer, sinks))
        certain = [tensor for tensor in answers if flow.is_answer(tensor)]
        if len(answers) == 1 or len(certain) == 1:
            output = (certain or answers)[0]
            others = tuple(tensor for tensor in answers if tensor != output)
            return Guess(output, others, "nothing reads it, and it depends on input and variables")
        main = [tensor for tensor in certain if not _AUXILIARY.search(tensor.node)]
        if len(main) == 1:
            others = tuple(tensor for tensor in answers if tensor != main[0])
            return Guess(main[0], others, "nothing reads it, and the others are auxiliary")
        if answers:
            raise _tie(graph, answers)
    raise GraphError(
        f"{graph.label} has no tensor that could be the output.",
        expected="a tensor that depends on a placeholder and on variables and that nothing reads",
        received=f"{len(graph.nodes)} nodes",
        next_step="Name it: --outputs NAME",
    )


class _Flow:
    """What depends on what, without gradients, updates and summaries."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._live = {
            name: node
            for name, node in graph.nodes.items()
            if node.op not in _IGNORED
            and name != METADATA_NODE
            and not is_bookkeeping(node.op)
            and not _GRADIENTS.search(name)
        }
        self._inputs = {name: graph.data_inputs(name) for name in self._live}
        self._weights = self._find_weights()
        self._source_bits: dict[TensorName, int] = {}
        self._masks: dict[str, int] = {}
        self._propagate()

    def met_by_labels(self) -> list[TensorName]:
        """Tensors that depend on an input and on weights, and meet another input's in a loss."""
        met: list[TensorName] = []
        labels = 0
        for name, node in self._live.items():
            if node.op not in _LOSSES and node.op not in _COMPARISONS:
                continue
            masks = [(tensor, self._mask(tensor)) for tensor in self._inputs[name]]
            predicted = [pair for pair in masks if pair[1] & _WEIGHTS and pair[1] > _WEIGHTS]
            given = [pair for pair in masks if pair[1] and not pair[1] & _WEIGHTS]
            if len(predicted) != 1 or len(given) != 1 or predicted[0][1] & given[0][1]:
                continue
            if node.op in _LOSSES or self._ends_in_scalars(name):
                met.append(predicted[0][0])
                labels |= given[0][1]
        return [tensor for tensor in met if not self._mask(tensor) & labels]

    def sinks(self, read_by_summaries: bool) -> list[TensorName]:
        """Tensors that depend on an input and on weights and that nothing live reads.

        Args:
          read_by_summaries: whether those are wanted that summaries read, or those that not
            even summaries do.
        """
        found = []
        for name in self._live:
            readers = [self._graph.nodes[reader] for reader in self._graph.consumers.get(name, ())]
            if any(reader.name in self._live or writes_variable(reader.op) for reader in readers):
                continue
            if any(is_summary(reader.op) for reader in readers) != read_by_summaries:
                continue
            tensor = TensorName(name)
            mask = self._mask(tensor)
            if mask & _WEIGHTS and mask > _WEIGHTS and not self._is_scalar(name):
                found.append(tensor)
        return found

    def answer(self, tensor: TensorName) -> TensorName:
        """From what a loss, a metric or a sink reads to the tensor that people want.

        Back through arg max, logarithm, clipping and flattening, then forward to the softmax
        or sigmoid of it and to the reshaped softmax.
        """
        passed = [tensor]
        while not self.is_answer(passed[-1]):
            before = self._before(passed[-1])
            if before is None:
                break
            passed.append(before)
        if self.is_answer(passed[-1]):
            return self._shaped(passed[-1])
        for candidate in reversed(passed):
            readers = [
                second
                for first in (candidate, *self._readers(candidate, _SHAPERS))
                for second in self._readers(first, _ANSWERS)
            ]
            if readers:
                return self._shaped(readers[0])
        return passed[-1]

    def is_answer(self, tensor: TensorName) -> bool:
        """Whether a tensor is a softmax or sigmoid, reshaped or not, perhaps by another name."""
        node = self._graph.node(tensor.node)
        for _ in range(_MAX_PASSES):
            inputs = self._graph.data_inputs(node.name)
            if (node.op not in _SHAPERS and node.op != "Identity") or not inputs:
                break
            node = self._graph.node(inputs[0].node)
        return node.op in _ANSWERS

    def _before(self, tensor: TensorName) -> TensorName | None:
        """The tensor from which `tensor` was made for a loss or a metric; None where it was not."""
        node = self._graph.node(tensor.node)
        inputs = self._inputs.get(tensor.node, [])
        if not inputs:
            return None
        if node.op in _FROM_ANSWERS:
            return inputs[0]
        if node.op == "Cast":
            counts = (DataType.DT_INT32, DataType.DT_INT64, DataType.DT_BOOL)
            is_counted = "SrcT" in node.attr and node.attr["SrcT"].type in counts
            return inputs[0] if is_counted else None
        if node.op in ("Add", "AddV2", "Maximum", "Minimum"):
            # An epsilon or a bound beside the predictions.
            scalars = [self._graph.shape(other) == () for other in inputs]
            return inputs[scalars.index(False)] if scalars.count(False) == 1 else None
        if node.op == "Reshape" and len(inputs) == 2:
            # Losses flatten what they get to [-1, classes], by a shape they compute.
            before = self._graph.shape(inputs[0])
            computed = self._graph.node(inputs[1].node).op != "Const"
            return inputs[0] if computed and (before is None or len(before) == 2) else None
        return None

    def _shaped(self, tensor: TensorName) -> TensorName:
        """The one reshaped form of a tensor, where there is exactly one; else the tensor itself."""
        readers = self._readers(tensor, _SHAPERS)
        return readers[0] if len(readers) == 1 else tensor

    def _readers(self, tensor: TensorName, ops: frozenset[str]) -> list[TensorName]:
        return [
            TensorName(reader)
            for reader in self._graph.consumers.get(tensor.node, ())
            if reader in self._live
            and self._live[reader].op in ops
            and self._inputs[reader][:1] == [tensor]
        ]

    def _find_weights(self) -> frozenset[str]:
        variables = {name for name, node in self._live.items() if node.op in VARIABLES}
        if variables:
            return frozenset(variables)
        return frozenset(
            name for name, node in self._graph.nodes.items() if _is_weight_constant(node)
        )

    def _propagate(self) -> None:
        """Gives each node a bit for the weights and one for each input it depends on."""
        order = self._order()
        changed = True
        while changed:
            changed = False
            for name in order:
                mask = _WEIGHTS if name in self._weights else 0
                for tensor in self._inputs[name]:
                    mask |= self._mask(tensor)
                if mask != self._masks.get(name, 0):
                    self._masks[name] = mask
                    changed = True

    def _mask(self, tensor: TensorName) -> int:
        node = self._live.get(tensor.node)
        if node is None:
            return _WEIGHTS if tensor.node in self._weights else 0
        if _INPUT_SOURCES.fullmatch(node.op):
            if self._is_setting(node):
                return 0
            return self._source_bits.setdefault(tensor, 2 << len(self._source_bits))
        return self._masks.get(tensor.node, 0)

    def _is_setting(self, node: NodeDef) -> bool:
        """A placeholder for is_training or keep_prob, not for data."""
        if not node.op.startswith("Placeholder"):
            return False
        dtype = node.attr["dtype"].type if "dtype" in node.attr else 0
        return dtype == DataType.DT_BOOL or self._graph.shape(TensorName(node.name)) == ()

    def _order(self) -> list[str]:
        """Live nodes, producers first; where they form a loop, in the order they were reached."""
        order: list[str] = []
        seen: set[str] = set()
        for start in self._live:
            stack = [(start, iter(self._inputs[start]))] if start not in seen else []
            seen.add(start)
            while stack:
                name, inputs = stack[-1]
                for tensor in inputs:
                    if tensor.node in self._live and tensor.node not in seen:
                        seen.add(tensor.node)
                        stack.append((tensor.node, iter(self._inputs[tensor.node])))
                        break
                else:
                    order.append(name)
                    stack.pop()
        return order

    def _ends_in_scalars(self, start: str) -> bool:
        """Whether everything that is made of a node ends in numbers, as a loss or a metric does."""
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            readers = [
                reader for reader in self._graph.consumers.get(name, ()) if reader in self._live
            ]
            if not readers and not self._is_scalar(name):
                return False
            waiting.extend(readers)
        return True

    def _is_scalar(self, name: str) -> bool:
        shape = self._graph.shape(TensorName(name))
        if shape is None:
            return self._live[name].op in _REDUCTIONS
        return shape == ()


def _is_weight_constant(node: NodeDef) -> bool:
    """A constant of a frozen graph that was a variable: floating point, of rank 1 or more."""
    if node.op != "Const" or "value" not in node.attr:
        return False
    tensor = node.attr["value"].tensor
    floats = (
        DataType.DT_FLOAT,
        DataType.DT_HALF,
        DataType.DT_BFLOAT16,
        DataType.DT_DOUBLE,
    )
    return tensor.dtype in floats and len(tensor.tensor_shape.dim) > 0


def _distinct(tensors: Iterable[TensorName]) -> list[TensorName]:
    return list(dict.fromkeys(tensors))


def _tie(graph: Graph, tensors: Sequence[TensorName]) -> GraphError:
    return GraphError(
        f"{graph.label} has several tensors that could be the output:\n{listed(tensors)}",
        expected="one",
        received=f"{len(tensors)}",
        next_step=f"Say which: --outputs {tensors[0].node}",
    )
