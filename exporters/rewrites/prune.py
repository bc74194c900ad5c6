"""Keeps what the outputs need, and cuts the edges that only update variables or write summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from checkpoints.messages import FunctionDef, GraphDef, NodeDef
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of
from exporters.ops import VARIABLES, is_bookkeeping


class Pruned(NamedTuple):
    """A pruned graph and what was cut.

    Attributes:
      graph: the nodes that the outputs need, in their old order, and the functions they call.
      cut_edges: (node, node it no longer waits for) of each control edge that was cut.
    """

    graph: Graph
    cut_edges: tuple[tuple[str, str], ...]


def _is_bookkeeping(node: NodeDef) -> bool:
    return is_bookkeeping(node.op)


def prune(
    graph: Graph,
    outputs: Sequence[TensorName],
    is_useless: Callable[[NodeDef], bool] = _is_bookkeeping,
) -> Pruned:
    """Keeps the nodes that the outputs need.

    Data edges are followed without exception. A control edge is kept where it guards
    something a served graph has (an assertion, a branch of a conditional) and cut where
    behind it variables are written, summaries made or checkpoints saved. A NoOp that only
    waited for such nodes goes too.

    Args:
      graph: the graph.
      outputs: the tensors to keep.
      is_useless: what needs not be waited for; writes, summaries and savers where left out.

    Raises:
      GraphError: a node takes an input from a node that is not there.
    """
    updates = _Useless(graph, is_useless)
    kept: dict[str, list[str]] = {}
    cut: list[tuple[str, str]] = []
    waiting = [tensor.node for tensor in outputs]
    while waiting:
        name = waiting.pop()
        if name in kept:
            continue
        kept[name] = inputs = []
        node = graph.node(name)
        # A variable has its value, whatever was waited for when it was made.
        for reference in () if node.op in VARIABLES else node.input:
            if is_control(reference) and updates.lie_behind(node_of(reference)):
                cut.append((name, node_of(reference)))
            else:
                inputs.append(reference)
        waiting.extend(map(node_of, inputs))
    if cut:
        cut += _drop_emptied(graph, kept, {tensor.node for tensor in outputs})
    return Pruned(_subset(graph, kept), tuple(cut))


class _Useless:
    """Tells which nodes lead back to a node that need not be waited for."""

    def __init__(self, graph: Graph, is_useless: Callable[[NodeDef], bool]) -> None:
        self._graph = graph
        self._is_useless = is_useless
        self._clean: set[str] = set()

    def lie_behind(self, name: str) -> bool:
        """Whether a node is, or needs, a useless one. A NoOp is looked at later."""
        if self._graph.node(name).op == "NoOp":
            return False
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in seen or current in self._clean:
                continue
            seen.add(current)
            node = self._graph.node(current)
            if self._is_useless(node):
                return True
            waiting.extend(map(node_of, node.input))
        self._clean |= seen
        return False


def _drop_emptied(
    graph: Graph, kept: dict[str, list[str]], outputs: set[str]
) -> list[tuple[str, str]]:
    """Takes NoOps out of `kept` whose every input was cut, and the edges to them."""
    waiters: dict[str, list[str]] = {}
    for name, inputs in kept.items():
        for reference in inputs:
            if is_control(reference):
                waiters.setdefault(node_of(reference), []).append(name)
    cut: list[tuple[str, str]] = []
    emptied = [
        name
        for name, inputs in kept.items()
        if not inputs and name not in outputs and _is_barrier(graph.node(name))
    ]
    while emptied:
        barrier = emptied.pop()
        del kept[barrier]
        for waiter in waiters.get(barrier, ()):
            kept[waiter].remove(f"^{barrier}")
            cut.append((waiter, barrier))
            if not kept[waiter] and waiter not in outputs and _is_barrier(graph.node(waiter)):
                emptied.append(waiter)
    return cut


def _is_barrier(node: NodeDef) -> bool:
    return node.op == "NoOp" and len(node.input) > 0


def _subset(graph: Graph, kept: dict[str, list[str]]) -> Graph:
    nodes = [node for name, node in graph.nodes.items() if name in kept]
    subset = GraphDef()
    subset.node.extend(nodes)
    for node in subset.node:
        inputs = kept[node.name]
        if len(inputs) != len(node.input):
            node.input[:] = inputs
    subset.versions.CopyFrom(graph.graph_def.versions)
    functions = called_functions(graph, nodes)
    subset.library.function.extend(functions)
    names = {function.signature.name for function in functions}
    subset.library.gradient.extend(
        gradient
        for gradient in graph.graph_def.library.gradient
        if gradient.function_name in names and gradient.gradient_func in names
    )
    return Graph(subset, graph.kind, graph.path, graph.meta_graph)


def called_functions(graph: Graph, nodes: Iterable[NodeDef]) -> list[FunctionDef]:
    """The functions of the library that nodes call, directly or through others, in library order."""
    if not graph.functions:
        return []
    found: set[str] = set()
    waiting = [name for node in nodes for name in function_names(node)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in graph.functions:
            continue
        found.add(name)
        for node in graph.functions[name].node_def:
            waiting.extend(function_names(node))
    return [function for name, function in graph.functions.items() if name in found]


def calls_function(graph: Graph, node: NodeDef) -> bool:
    """Whether a node calls a function of the graph's library."""
    return any(name in graph.functions for name in function_names(node))


def function_names(node: NodeDef) -> Iterator[str]:
    """What a node may call: a function is an op too, and stands in attributes."""
    yield node.op
    for value in node.attr.values():
        yield from _functions_in(value)


def _functions_in(value: Any) -> Iterator[str]:
    kind = value.WhichOneof("value")
    functions = [value.func] if kind == "func" else value.list.func if kind == "list" else ()
    for function in functions:
        yield function.name
        for attribute in function.attr.values():
            yield from _functions_in(attribute)
