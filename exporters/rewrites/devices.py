"""Takes away where nodes were placed in training: devices, and colocation with other nodes."""

from __future__ import annotations

from checkpoints.messages import FunctionDefLibrary, GraphDef, NodeDef
from exporters.graph import Graph
from exporters.ops import COLOCATION_ATTRIBUTE, COLOCATION_PREFIX, SESSION_ATTRIBUTE


def clear_placement(node: NodeDef) -> None:
    """Takes a node's device and its colocation with other nodes away, in place.

    A call of a function names the devices of the session it was traced in, too.
    """
    node.device = ""
    if SESSION_ATTRIBUTE in node.attr:
        node.attr[SESSION_ATTRIBUTE].s = b""
    if COLOCATION_ATTRIBUTE in node.attr:
        classes = node.attr[COLOCATION_ATTRIBUTE].list.s
        kept = [entry for entry in classes if not entry.startswith(COLOCATION_PREFIX)]
        if kept:
            classes[:] = kept
        else:
            del node.attr[COLOCATION_ATTRIBUTE]


def unplaced_library(graph: Graph) -> FunctionDefLibrary:
    """The functions of a pruned graph, without devices and colocation."""
    library = FunctionDefLibrary()
    library.CopyFrom(graph.graph_def.library)
    for function in library.function:
        for node in function.node_def:
            clear_placement(node)
    return library


def without_devices(graph: Graph) -> Graph:
    """The same graph, as it can be run where none of its devices are."""
    unplaced = GraphDef()
    unplaced.CopyFrom(graph.graph_def)
    for node in unplaced.node:
        clear_placement(node)
    unplaced.library.CopyFrom(unplaced_library(graph))
    return Graph(unplaced, graph.kind, graph.path, graph.meta_graph)
