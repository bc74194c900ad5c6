"""Takes away the `import/` that tf.import_graph_def puts before names."""

from __future__ import annotations

from checkpoints.messages import GraphDef
from exporters.graph import Graph
from exporters.names import IMPORT_PREFIX, METADATA_NODE
from exporters.ops import COLOCATION_ATTRIBUTE, COLOCATION_PREFIX

_PLACED = COLOCATION_PREFIX + IMPORT_PREFIX.encode("utf-8")


def without_import_prefix(graph: Graph) -> Graph:
    """The graph under the names it had before it was imported; itself where it was not.

    It was imported where every node, the metadata aside, has the prefix; once for each time.
    """
    names = [name for name in graph.nodes if name != METADATA_NODE]
    while names and all(name.startswith(IMPORT_PREFIX) for name in names):
        graph = _without_prefix(graph)
        names = [name for name in graph.nodes if name != METADATA_NODE]
    return graph


def _without_prefix(graph: Graph) -> Graph:
    changed = GraphDef()
    changed.CopyFrom(graph.graph_def)
    for node in changed.node:
        node.name = node.name.removeprefix(IMPORT_PREFIX)
        node.input[:] = [_reference(reference) for reference in node.input]
        if COLOCATION_ATTRIBUTE in node.attr:
            places = node.attr[COLOCATION_ATTRIBUTE].list.s
            places[:] = [
                COLOCATION_PREFIX + place.removeprefix(_PLACED)
                if place.startswith(_PLACED)
                else place
                for place in places
            ]
    # What stands around the graph names its nodes with the prefix.
    return Graph(changed, graph.kind, graph.path)


def _reference(reference: str) -> str:
    if reference.startswith("^"):
        return f"^{reference[1:].removeprefix(IMPORT_PREFIX)}"
    return reference.removeprefix(IMPORT_PREFIX)
