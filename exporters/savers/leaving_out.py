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
    readers: dict[str, list[str]] = {}
    for name, node in graph.nodes.items():
        for reference in node.input:
            readers.setdefault(node_of(reference), []).append(name)
    gone = {name for name, node in graph.nodes.items() if is_saving(node.op)}
    waiting = list(gone)
    while waiting:
        for name in readers.get(waiting.pop(), ()):
            if name not in gone:
                gone.add(name)
                waiting.append(name)
    before = {node_of(reference) for name in gone for reference in graph.nodes[name].input}
    waiting = list(before - gone)
    while waiting:
        name = waiting.pop()
        node = graph.nodes.get(name)
        if node is None or name in gone or node.op not in _SERVANTS:
            continue
        if all(reader in gone for reader in readers.get(name, ())):
            gone.add(name)
            waiting.extend(map(node_of, node.input))
    changes = Changes(graph)
    for name in gone:
        changes.drop(name)
    return changes.applied()
