"""A graph without the nodes that save and restore it."""

from __future__ import annotations

from exporters.graph import Graph
from exporters.names import node_of
from exporters.ops import is_saving
from exporters.rewrites.changes import Changes

_SERVANTS = frozenset(
    {"Const", "Identity", "NoOp", "Pack", "Placeholder", "PlaceholderWithDefault"}
)
"""Ops that a Saver has beside those that save: names of files, shards, what to wait for."""


def without_saver(graph: Graph) -> Graph:
    """Takes out what saves and restores, what comes after it, and what serves nothing else."""
    gone = graph.descendants(name for name, node in graph.nodes.items() if is_saving(node.op))
    before = {node_of(reference) for name in gone for reference in graph.nodes[name].input}
    waiting = list(before - gone)
    while waiting:
        name = waiting.pop()
        node = graph.nodes.get(name)
        if node is None or name in gone or node.op not in _SERVANTS:
            continue
        if gone.issuperset(graph.users.get(name, ())):
            gone.add(name)
            waiting.extend(map(node_of, node.input))
    changes = Changes(graph)
    for name in gone:
        changes.drop(name)
    return changes.applied()
