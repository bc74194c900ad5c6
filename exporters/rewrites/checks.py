"""Takes out what only checks or prints: Assert, CheckNumerics, Print and their kin."""

from __future__ import annotations

from dataclasses import replace

from checkpoints.errors import counted
from checkpoints.messages import FunctionDef, NodeDef
from exporters.graph import Graph
from exporters.names import TensorName, is_control, tensor_of
from exporters.rewrites.draft import Draft
from exporters.rewrites.prune import called_functions, function_names, prune

_PASSING = frozenset({"CheckNumerics", "CheckNumericsV2", "EnsureShape", "Print"})
_WAITED_FOR = frozenset({"Abort", "Assert", "PrintV2"})


def is_check(node: NodeDef) -> bool:
    """Whether a node only checks or prints."""
    return node.op in _PASSING or node.op in _WAITED_FOR


def drop_checks(draft: Draft) -> Draft:
    """Leads readers of a check to what it checks, and lets nothing wait for one any more.

    A graph without them gives the same answers wherever no check would fail.
    """
    graph = draft.graph
    checking = {
        name
        for name in graph.functions
        if any(
            node.op in _WAITED_FOR
            for function in (graph.functions[name], *_called(graph, name))
            for node in function.node_def
        )
    }
    waited_for, cut_edges = prune(graph, draft.outputs, lambda node: _is_waited_for(node, checking))
    dropped = len(graph.nodes) - len(waited_for.nodes) if cut_edges else 0
    draft = replace(draft, graph=waited_for)
    changes = draft.changes()
    for name, node in draft.graph.nodes.items():
        data = [reference for reference in node.input if not is_control(reference)]
        if node.op in _PASSING and data:
            changes.lead(TensorName(name), tensor_of(data[0]))
            changes.drop(name, [tensor_of(data[0]).node])
            dropped += 1
    changed = draft.changed(changes)
    if not dropped:
        return changed
    return replace(
        changed, said=(*changed.said, f"Checks were taken out, {counted(dropped, 'node')}.")
    )


def _called(graph: Graph, name: str) -> list[FunctionDef]:
    return called_functions(graph, graph.functions[name].node_def)


def _is_waited_for(node: NodeDef, checking: set[str]) -> bool:
    return node.op in _WAITED_FOR or not checking.isdisjoint(function_names(node))
