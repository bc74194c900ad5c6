"""Finds variables that are read after a write which the pruned graph does not have any more.

Such a read gives what the step at hand wrote: a buffer filled from the input, the state of a
recurrent net, an average that was just moved. The stored value is another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from checkpoints.messages import NodeDef
from exporters.calls import CASES, CONDITIONALS
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS
from exporters.moving_averages import MovingAverages
from exporters.names import node_of, tensor_of
from exporters.ops import REFERENCE_VARIABLES, VALUE_OPS, VARIABLES, writes_variable
from exporters.rewrites.prune import Pruned, calls_function
from exporters.variables import passes_handle

_TRAINS = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*")
"""Steps of optimisers: the stored values are what training came to, and inference takes none."""

_STEP = "global_step"
_ASKS_SHAPE = "VariableShape"


class StaleRead(NamedTuple):
    """A read of a variable that was to come after a write.

    Attributes:
      read: the node that reads, or the call that is given the handle.
      variable: the variable's node.
      write: the node that wrote before.
      op: its op.
      is_call: whether `read` hands the variable to a function.
      is_average: whether `read` is a conditional, and the write moves an average. Batch norm by
        hand has its averages moved before the mode of the net is asked for.
      lost: placeholders that the write depended on.
    """

    read: str
    variable: str
    write: str
    op: str
    is_call: bool
    is_average: bool
    lost: tuple[str, ...]


def stale_reads(graph: Graph, pruned: Pruned) -> tuple[StaleRead, ...]:
    """The reads of a pruned graph that came after writes in the graph it was pruned from.

    Steps of optimisers and counts of the global step do not count.

    Args:
      graph: the graph before it was pruned.
      pruned: what was left, and the control edges that were cut.
    """
    late = _reached(pruned.graph, {waiter for waiter, _ in pruned.cut_edges})
    if not late:
        return ()
    holders = _holders(graph)
    writes: dict[str, set[str]] = {}
    for node in graph.nodes.values():
        variable = _written(node, holders)
        if variable is not None and node.name not in pruned.graph.nodes:
            writes.setdefault(variable, set()).add(node.name)
    told = _Telling(graph, pruned.graph)
    found = []
    for name in late:
        node = pruned.graph.nodes[name]
        if _passes_on(node) or node.op == _ASKS_SHAPE:
            continue
        variables = {
            holders[tensor.node]
            for tensor in pruned.graph.data_inputs(name)
            if tensor.node in holders
            and (tensor.node not in late or _passes_on(graph.nodes[tensor.node]))
        }
        for variable in sorted(variables):
            write = _before(graph, name, writes.get(variable, set()))
            if write is not None:
                found.append(told.read(node, variable, write))
    return tuple(found)


def still_stale(reads: Iterable[StaleRead], graph: Graph) -> tuple[StaleRead, ...]:
    """Those of some reads that a later state of the graph has: not where it was cut or folded."""
    kept = {}
    for read in reads:
        node = graph.nodes.get(read.read)
        if node is None:
            is_there = read.is_call and not read.is_average and read.variable in graph.nodes
        else:
            is_there = node.op not in PLACEHOLDERS and node.op != "Const"
        if is_there:
            lost = tuple(name for name in read.lost if name not in graph.nodes)
            kept[read.read, read.variable] = read._replace(lost=lost)
    return tuple(kept.values())


def described(read: StaleRead) -> str:
    """The line that stands in messages."""
    lost = f", which is the way of {', '.join(read.lost)} to it" if read.lost else ""
    return (
        f"{read.write} ({read.op}): writes a variable, and an output depends on what it"
        f" writes: {read.read} reads {read.variable} afterwards{lost}"
    )


class _Telling:
    """What there is to say of the stale reads of one graph."""

    def __init__(self, graph: Graph, pruned: Graph) -> None:
        self._graph = graph
        self._lost = [
            name
            for name, node in graph.nodes.items()
            if node.op in PLACEHOLDERS and name not in pruned.nodes
        ]

    def read(self, node: NodeDef, variable: str, write: str) -> StaleRead:
        graph = self._graph
        behind = graph.ancestors([write])
        lost = tuple(name for name in self._lost if name in behind)
        is_call = calls_function(graph, node)
        is_average = node.op in CONDITIONALS | CASES and variable in self._averages
        op = graph.nodes[write].op
        return StaleRead(node.name, variable, write, op, is_call, is_average, lost)

    @cached_property
    def _averages(self) -> set[str]:
        return set(MovingAverages(self._graph).averaged.values())


def _reached(graph: Graph, starts: set[str]) -> dict[str, None]:
    """Nodes that wait for one of some nodes, themselves included, in file order."""
    found = graph.descendants(starts & graph.nodes.keys())
    return {name: None for name in graph.nodes if name in found}


def _holders(graph: Graph) -> dict[str, str]:
    """Node whose output is the reference or the handle of a variable -> the variable.

    An Identity of a reference may give what stands there when its readers run, so it counts.
    """
    holders = {name: name for name, node in graph.nodes.items() if node.op in VARIABLES}
    waiting = list(holders)
    while waiting:
        current = waiting.pop()
        for name in graph.consumers.get(current, ()):
            node = graph.nodes[name]
            is_read = (
                node.op == "Identity" and graph.nodes[holders[current]].op in REFERENCE_VARIABLES
            )
            if name not in holders and (is_read or _passes_on(node)):
                holders[name] = holders[current]
                waiting.append(name)
    return holders


def _passes_on(node: NodeDef) -> bool:
    """Whether a node hands on the reference or the handle that it is given."""
    return node.op in VALUE_OPS or passes_handle(node)


def _written(node: NodeDef, holders: dict[str, str]) -> str | None:
    """The variable that a node writes, other than as a step of training."""
    if not writes_variable(node.op) or _TRAINS.fullmatch(node.op) or not node.input:
        return None
    variable = holders.get(tensor_of(node.input[0]).node)
    if variable is None or variable.rpartition("/")[2] == _STEP:
        return None
    return variable


def _before(graph: Graph, name: str, writes: set[str]) -> str | None:
    """One of some writes that a node waits for, directly or through others."""
    seen: set[str] = set()
    waiting = [name] if writes else []
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in writes:
            return current
        node = graph.node(current)
        # A variable has its value, whatever was waited for when it was made.
        if node.op not in VARIABLES:
            waiting.extend(map(node_of, node.input))
    return None
