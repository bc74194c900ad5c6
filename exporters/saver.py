"""Under which names a graph's own Saver keeps its variables."""

from __future__ import annotations

from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import node_of, tensor_of
from exporters.ops import VARIABLES

_TENSORS_FROM = {"Save": 2, "SaveSlices": 3, "SaveV2": 3}
"""Save op -> the index of its first input that is a variable; input 1 holds the names."""

_PASSES = frozenset({"Identity", "ReadVariableOp"})


def saved_names(graph: Graph) -> dict[str, str]:
    """Variable's node -> its name in a checkpoint, as the SaverDef of a .meta has it.

    A Saver may be made with names of its own, as Saver({"w": variable}) does. Empty where
    the graph has no SaverDef, or its nodes are not what a Saver makes.
    """
    if graph.meta_graph is None or not graph.meta_graph.HasField("saver_def"):
        return {}
    start = tensor_of(graph.meta_graph.saver_def.save_tensor_name).node
    if start not in graph.nodes:
        return {}
    names: dict[str, str] = {}
    for name in graph.ancestors([start], control=True):
        node = graph.nodes[name]
        if node.op in _TENSORS_FROM:
            names.update(_names_of(graph, list(node.input), _TENSORS_FROM[node.op]))
    return names


def _names_of(graph: Graph, inputs: list[str], first: int) -> dict[str, str]:
    keys = graph.node(node_of(inputs[1])) if len(inputs) > first else None
    if keys is None or keys.op != "Const":
        return {}
    names = [bytes(key).decode("utf-8", "replace") for key in constant_value(keys).reshape(-1)]
    variables = [_variable_behind(graph, reference) for reference in inputs[first:]]
    return {
        variable: name
        for variable, name in zip(variables, names, strict=False)
        if variable is not None
    }


def _variable_behind(graph: Graph, reference: str) -> str | None:
    seen: set[str] = set()
    node = graph.node(node_of(reference))
    while node.op in _PASSES and node.name not in seen and node.input:
        seen.add(node.name)
        node = graph.node(node_of(node.input[0]))
    return node.name if node.op in VARIABLES else None
