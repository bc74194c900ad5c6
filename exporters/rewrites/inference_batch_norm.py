"""Puts batch norm into inference mode: the moving averages in the place of the batch's own figures.

Source:
  Ioffe and Szegedy 2015, algorithm 2. Which variables hold the averages is told by the updates
  that training made to them: they are what the same net has in evaluation mode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from checkpoints.errors import counted
from checkpoints.messages import DataType, NodeDef
from exporters.constants import constant_value
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.inspecting.training_ops import depends_on_data
from exporters.moving_averages import MovingAverages, variable_behind
from exporters.names import TensorName, is_control, reference_to
from exporters.ops import FUSED_BATCH_NORMS, HANDLE_VARIABLES, VARIABLES
from exporters.rewrites.changes import Changes
from exporters.rewrites.draft import Draft

_RESHAPES = frozenset({"ExpandDims", "Reshape", "Squeeze"})
_SAME = frozenset({"Cast", "Identity", "PreventGradient", "Snapshot", "StopGradient", "Switch"})
_REDUCTIONS = frozenset({"Mean", "Sum"})
_ELEMENTWISE = frozenset(
    {
        "Add",
        "AddV2",
        "Div",
        "Maximum",
        "Mul",
        "Neg",
        "Pow",
        "RealDiv",
        "Reciprocal",
        "Sqrt",
        "Square",
        "SquaredDifference",
        "Sub",
    }
)
_MAX_DEPTH = 16


class _Statistic(NamedTuple):
    """A figure of the batch that the net reads, and the variable that has its moving average.

    Attributes:
      tensor: what the moving average is taken of, in the variable's shape.
      base: the same numbers before they were reshaped.
      variable: the variable's node.
      roots: the reductions over the batch that it is made of.
    """

    tensor: TensorName
    base: TensorName
    variable: str
    roots: frozenset[str]


def use_moving_averages(draft: Draft) -> Draft:
    """Lets every batch norm normalise with its moving averages.

    A fused batch norm gets them as its inputs 3 and 4; where batch norm is written out in
    smaller ops, all that reads the mean and the variance of the batch reads them instead.
    Batch norms whose moving averages the graph does not keep stay as they are, and the reason
    is among the draft's problems.
    """
    needed = draft.graph.ancestors([tensor.node for tensor in draft.kept])
    averages = MovingAverages(draft.graph)
    changes = draft.changes()
    reads = _Reads(draft.graph, changes)
    problems = []
    fused = 0
    for name in draft.graph.nodes:
        node = draft.graph.nodes[name]
        if name not in needed or node.op not in FUSED_BATCH_NORMS or not is_in_training(node):
            continue
        if depends_on_data(node, draft.graph.nodes):
            problem = _rewrite_fused(draft.graph, changes, reads, averages, node, needed)
            fused += problem is None
            problems += [] if problem is None else [problem]
    statistics = []
    for statistic in _statistics(draft.graph, averages, needed):
        reader = _read_by_the_net(draft.graph, statistic.variable, needed)
        if reader is None:
            statistics.append(statistic)
            _replace_statistic(draft.graph, changes, reads, statistic)
        else:
            problems.append(_renormalises(statistic.base.node, statistic.variable, reader))
    lines = []
    if fused:
        lines.append(f"{counted(fused, 'batch norm')} normalise with their moving averages.")
    if statistics:
        lines.append(
            f"{counted(len(statistics), 'mean')} and variances of batches became moving averages."
        )
    changed = draft.changed(changes, *lines)
    problems += _still_read(changed, statistics)
    return replace(
        changed,
        problems=changed.problems + tuple(problems),
        is_faithful=changed.is_faithful and not changes,
    )


def is_in_training(node: NodeDef) -> bool:
    """Whether a fused batch norm normalises with the batch at hand: so it does by default."""
    return "is_training" not in node.attr or bool(node.attr["is_training"].b)


def _rewrite_fused(
    graph: Graph,
    changes: Changes,
    reads: _Reads,
    averages: MovingAverages,
    node: NodeDef,
    needed: set[str],
) -> str | None:
    """Changes one fused batch norm; returns why that cannot be, or None."""
    inputs = graph.data_inputs(node.name)
    found = []
    for place, what in ((1, "mean"), (2, "variance")):
        variable = averages.of(TensorName(node.name, place))
        if variable is not None:
            reader = _read_by_the_net(graph, variable, needed)
            if reader is not None:
                return _renormalises(f"{node.name} ({node.op})", variable, reader)
            found.append(reads.value_of(variable))
        elif len(inputs) == 5 and _is_stored(graph, inputs[2 + place]):
            found.append(inputs[2 + place])
        else:
            return (
                f"{node.name} ({node.op}): nothing in the graph keeps a moving average of its"
                f" {what}, so there is none to normalise with"
            )
    changed = NodeDef()
    changed.CopyFrom(node)
    changed.attr["is_training"].b = False
    changed.attr.pop("exponential_avg_factor", None)
    control = [reference for reference in node.input if is_control(reference)]
    changed.input[:] = [*map(reference_to, [*inputs[:3], *found]), *control]
    changes.put(changed)
    return None


def _read_by_the_net(graph: Graph, variable: str, needed: set[str]) -> str | None:
    """A node of the net that reads a moving average in training, which batch norm does not.

    The inputs of a fused batch norm that has no use for them in training do not count.
    """
    waiting = [variable]
    seen = {variable}
    while waiting:
        current = waiting.pop()
        for name in graph.consumers.get(current, ()):
            if name in seen or name not in needed:
                continue
            seen.add(name)
            if variable_behind(graph, TensorName(name)) == variable:
                waiting.append(name)
            elif graph.nodes[name].op not in FUSED_BATCH_NORMS:
                return name
    return None


def _renormalises(what: str, variable: str, reader: str) -> str:
    return (
        f"{what}: the net reads {variable} in training too ({reader}), as batch renormalisation"
        " does; its evaluation mode is another one"
    )


def _is_stored(graph: Graph, tensor: TensorName) -> bool:
    """Whether a tensor is the value of a variable, or the constant one was frozen to."""
    if variable_behind(graph, tensor) is not None:
        return True
    if any(node.op in VARIABLES for node in graph.nodes.values()):
        return False
    value = Evaluator(graph).value(tensor)
    return value is not None and value.size > 0


class _Reads:
    """The tensors that hold the values of variables; a read is added where there is none."""

    def __init__(self, graph: Graph, changes: Changes) -> None:
        self._graph = graph
        self._changes = changes
        self._found: dict[str, TensorName] = {}

    def value_of(self, variable: str) -> TensorName:
        if variable not in self._found:
            self._found[variable] = self._read(variable)
        return self._found[variable]

    def _read(self, variable: str) -> TensorName:
        node = self._graph.nodes[variable]
        read = "ReadVariableOp" if node.op in HANDLE_VARIABLES else "Identity"
        for reader in self._graph.consumers.get(variable, ()):
            found = self._graph.nodes[reader]
            # A read that waits may wait for an update.
            if found.op == read and not any(map(is_control, found.input)):
                return TensorName(reader)
        added = NodeDef(name=self._changes.new_name(f"{variable}/read"), op=read, input=[variable])
        added.attr["dtype" if read == "ReadVariableOp" else "T"].type = node.attr["dtype"].type
        self._changes.put(added)
        return TensorName(added.name)


def _statistics(graph: Graph, averages: MovingAverages, needed: set[str]) -> list[_Statistic]:
    found = []
    for tensor, variable in averages.averaged.items():
        base = _unshaped(graph, tensor)
        if base.node not in needed or graph.nodes[base.node].op in FUSED_BATCH_NORMS:
            continue
        roots = _roots(graph, base)
        if roots:
            found.append(_Statistic(tensor, base, variable, frozenset(roots)))
    return found


def _unshaped(graph: Graph, tensor: TensorName) -> TensorName:
    """The tensor that holds the same numbers and is no other one in another shape."""
    seen: set[str] = set()
    while tensor.node not in seen:
        seen.add(tensor.node)
        inputs = graph.data_inputs(tensor.node)
        if graph.nodes[tensor.node].op in _RESHAPES | _SAME and inputs:
            tensor = inputs[0]
    return tensor


def _roots(graph: Graph, tensor: TensorName) -> set[str]:
    """The reductions over the batch that a tensor is made of by ops that work number by number."""
    roots: set[str] = set()
    waiting = [(tensor.node, _MAX_DEPTH)]
    seen: set[str] = set()
    while waiting:
        name, depth = waiting.pop()
        node = graph.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.op in _REDUCTIONS:
            if _is_over_batch(graph, node):
                roots.add(name)
                roots |= _subtracted(graph, node)
        elif depth and (node.op in _RESHAPES or node.op in _SAME):
            waiting.extend((read.node, depth - 1) for read in graph.data_inputs(name)[:1])
        elif depth and node.op in _ELEMENTWISE:
            waiting.extend((read.node, depth - 1) for read in graph.data_inputs(name))
    return roots


def _subtracted(graph: Graph, variance: NodeDef) -> set[str]:
    """Of a mean of squared differences, the mean that is subtracted: batch norm reads it too."""
    squares = graph.nodes[graph.data_inputs(variance.name)[0].node]
    if squares.op != "SquaredDifference":
        return set()
    means = (graph.nodes[_unshaped(graph, read).node] for read in graph.data_inputs(squares.name))
    return {mean.name for mean in means if mean.op in _REDUCTIONS and _is_over_batch(graph, mean)}


def _is_over_batch(graph: Graph, node: NodeDef) -> bool:
    inputs = graph.data_inputs(node.name)
    if len(inputs) != 2 or graph.nodes[inputs[1].node].op != "Const":
        return False
    axes = constant_value(graph.nodes[inputs[1].node]).reshape(-1)
    shape = graph.shape(inputs[0])
    return bool(np.any(axes == 0)) or (shape is not None and bool(np.any(axes == -len(shape))))


def _replace_statistic(
    graph: Graph, changes: Changes, reads: _Reads, statistic: _Statistic
) -> None:
    """Leads the readers of a statistic, in every shape it is read in, to its moving average."""
    value = reads.value_of(statistic.variable)
    changes.lead(statistic.tensor, value)
    shape = graph.shape(statistic.base)
    if statistic.base == statistic.tensor or shape is None or None in shape:
        return
    if shape == graph.shape(TensorName(statistic.variable)):
        changes.lead(statistic.base, value)
        return
    # Dimensions of size 1 were kept there, and some reader may need them.
    sizes = NodeDef(name=changes.new_name(f"{statistic.variable}/shape"), op="Const")
    sizes.attr["dtype"].type = DataType.DT_INT32
    tensor = sizes.attr["value"].tensor
    tensor.dtype = DataType.DT_INT32
    tensor.tensor_shape.dim.add(size=len(shape))
    tensor.tensor_content = np.array(shape, "<i4").tobytes()
    changes.put(sizes)
    reshaped = NodeDef(
        name=changes.new_name(f"{statistic.variable}/reshaped"),
        op="Reshape",
        input=[reference_to(value), sizes.name],
    )
    reshaped.attr["T"].type = graph.nodes[statistic.variable].attr["dtype"].type
    reshaped.attr["Tshape"].type = DataType.DT_INT32
    changes.put(reshaped)
    changes.lead(statistic.base, TensorName(reshaped.name))


def _still_read(changed: Draft, statistics: list[_Statistic]) -> list[str]:
    """Statistics that something still computes from the batch: not all of them were replaced."""
    roots = frozenset[str]().union(*(statistic.roots for statistic in statistics))
    needed = changed.graph.ancestors([tensor.node for tensor in changed.kept])
    return [
        f"{name} ({changed.graph.nodes[name].op}): is taken over the batch, and only a part of"
        " what batch norm makes of it has a moving average"
        for name in changed.graph.nodes
        if name in roots and name in needed
    ]
