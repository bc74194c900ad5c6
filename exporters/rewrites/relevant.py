"""The part of a training graph that matters for inference: its net, and its moving averages."""

from __future__ import annotations

from checkpoints.messages import GraphDef
from exporters.graph import Graph
from exporters.names import is_control, node_of
from exporters.ops import is_assignment
from exporters.rewrites.prune import called_functions

CALLS = frozenset(
    {"Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf"}
)
"""Ops that run functions of the library once."""

_STATISTICS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Mean", "Sum"})
"""Ops that moving averages are taken of."""

_LINEAR = frozenset(
    {
        "Add",
        "AddN",
        "AddV2",
        "Cast",
        "Div",
        "DivNoNan",
        "ExpandDims",
        "Identity",
        "Merge",
        "Mul",
        "Neg",
        "Pow",
        "ReadVariableOp",
        "RealDiv",
        "Reciprocal",
        "Reshape",
        "Select",
        "SelectV2",
        "Snapshot",
        "Sqrt",
        "Square",
        "Squeeze",
        "StopGradient",
        "Sub",
        "Switch",
    }
)
"""Ops between a statistic and the assignment of its moving average."""


def relevant(graph: Graph, pruned: Graph) -> Graph:
    """Adds to a pruned graph the assignments that may hold moving averages of its statistics.

    Args:
      graph: the whole graph.
      pruned: the part its outputs need.

    Returns:
      A graph whose nodes are those of `pruned`, and the assignments with what they need;
      control edges to other nodes are left out.
    """
    assignments = _assignments(graph, pruned)
    behind = graph.ancestors(assignments) if assignments else set()
    added = [graph.nodes[name] for name in graph.nodes if name in behind - pruned.nodes.keys()]
    if not added:
        return pruned
    names = pruned.nodes.keys() | behind
    together = GraphDef()
    together.node.extend(
        pruned.nodes.get(name, node) for name, node in graph.nodes.items() if name in names
    )
    for node in together.node:
        references = [
            reference
            for reference in node.input
            if not is_control(reference) or node_of(reference) in names
        ]
        if len(references) != len(node.input):
            node.input[:] = references
    together.versions.CopyFrom(graph.graph_def.versions)
    functions = called_functions(graph, together.node)
    together.library.function.extend(functions)
    return Graph(together, graph.kind, graph.path, graph.meta_graph)


def _assignments(graph: Graph, pruned: Graph) -> set[str]:
    """Assignments that are reached from statistics of the net by ops that keep them linear."""
    found: set[str] = set()
    waiting = [
        name
        for name, node in pruned.nodes.items()
        if node.op in _STATISTICS or node.op in CALLS or node.op in graph.functions
    ]
    seen = set(waiting)
    while waiting:
        for name in graph.consumers.get(waiting.pop(), ()):
            op = graph.nodes[name].op
            if name in seen:
                continue
            if is_assignment(op):
                found.add(name)
                waiting.extend(_read_afterwards(graph, name))
            elif op not in _LINEAR and op not in CALLS and op not in graph.functions:
                continue
            seen.add(name)
            waiting.append(name)
    return found


def _read_afterwards(graph: Graph, assignment: str) -> list[str]:
    """Reads of a variable that wait for it to be assigned."""
    handle = node_of(graph.nodes[assignment].input[0])
    return [
        reader
        for reader in graph.consumers.get(handle, ())
        if graph.nodes[reader].op == "ReadVariableOp"
        and f"^{assignment}" in graph.nodes[reader].input
    ]
