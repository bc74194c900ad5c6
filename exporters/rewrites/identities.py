"""Takes out what only passes values on: Identity and its kin, and NoOp."""

from __future__ import annotations

from collections.abc import Collection

from checkpoints.messages import GraphDef
from exporters.graph import Graph
from exporters.names import is_control, node_of, reference_to, tensor_of

PASSES = frozenset({"Identity", "PreventGradient", "Snapshot", "StopGradient"})
"""Ops whose output is their input wherever nothing is differentiated."""

_BRANCHES = frozenset({"RefSwitch", "Switch"})


def remove_identities(graph: Graph, kept: Collection[str]) -> Graph:
    """Leads readers of an Identity to what it reads, and waiters for a NoOp to what it waits for.

    One stays where it waits for another node, and where others wait for it behind a Switch:
    there it stands for the branch.

    Args:
      graph: any graph; its functions are not looked into.
      kept: names of nodes that stay whatever they are: outputs and inputs.

    Returns:
      A new graph with the same inputs and outputs.
    """
    awaited = {
        node_of(reference)
        for node in graph.nodes.values()
        for reference in node.input
        if is_control(reference)
    }
    passed: dict[str, str] = {}
    barriers: dict[str, list[str]] = {}
    for name, node in graph.nodes.items():
        if name in kept:
            continue
        if node.op == "NoOp":
            barriers[name] = list(node.input)
        elif node.op in PASSES and len(node.input) == 1 and not is_control(node.input[0]):
            source = graph.node(node_of(node.input[0]))
            if name not in awaited or source.op not in _BRANCHES:
                passed[name] = node.input[0]
    if not passed and not barriers:
        return graph
    return _without(graph, passed, barriers)


def _without(graph: Graph, passed: dict[str, str], barriers: dict[str, list[str]]) -> Graph:
    removed = passed.keys() | barriers.keys()
    changed = GraphDef()
    changed.node.extend(node for name, node in graph.nodes.items() if name not in removed)
    for node in changed.node:
        if any(node_of(reference) in removed for reference in node.input):
            data = [
                _followed(reference, passed)
                for reference in node.input
                if not is_control(reference)
            ]
            control = [reference for reference in node.input if is_control(reference)]
            node.input[:] = data + _awaited(control, passed, barriers)
    changed.versions.CopyFrom(graph.graph_def.versions)
    changed.library.CopyFrom(graph.graph_def.library)
    return Graph(changed, graph.kind, graph.path, graph.meta_graph)


def _followed(reference: str, passed: dict[str, str]) -> str:
    """The tensor that a data edge leads to once the passes are gone."""
    seen: set[str] = set()
    while node_of(reference) in passed and node_of(reference) not in seen:
        seen.add(node_of(reference))
        reference = passed[node_of(reference)]
    return reference_to(tensor_of(reference))


def _awaited(
    control: list[str], passed: dict[str, str], barriers: dict[str, list[str]]
) -> list[str]:
    """The control edges once passes and barriers are gone, each once."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = control[::-1]
    while waiting:
        name = node_of(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        if name in passed:
            waiting.append(passed[name])
        elif name in barriers:
            waiting.extend(reversed(barriers[name]))
        else:
            found[f"^{name}"] = None
    return list(found)
