"""Under which names a graph's own Saver keeps its variables."""

from __future__ import annotations

from typing import Any

from checkpoints.numbers import whole_number
from exporters.calls import calls_of, producer_in_function
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import is_control, node_of, tensor_of
from exporters.savers.fit import variable_behind

_TENSORS_FROM = {"Save": 2, "SaveSlices": 3, "SaveV2": 3}
"""Save op -> the index of its first input that is a variable; input 1 holds the names."""

_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_PASSES = frozenset({"Identity", "ReadVariableOp"})


def saved_names(graph: Graph) -> dict[str, str]:
    """Variable's node -> its name in a checkpoint, as the SaverDef of a .meta has it.

    A Saver may be made with names of its own, as Saver({"w": variable}) does. In a SavedModel of
    TensorFlow 2 it restores within a function, by the keys of an object-based checkpoint. Empty
    where the graph has no SaverDef, or its nodes are not what a Saver makes.
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
    return names or _restored_by_function(graph, graph.meta_graph.saver_def.restore_op_name)


def _restored_by_function(graph: Graph, reference: str) -> dict[str, str]:
    """Variable's node -> the key that a call of a restoring function reads it under."""
    call = graph.nodes.get(tensor_of(reference).node)
    function = None
    if call is not None:
        function = next(
            (graph.functions.get(entry.function) for entry in calls_of(call, graph.functions)), None
        )
    if call is None or function is None:
        return {}
    inputs = [entry for entry in call.input if not is_control(entry)]
    arguments = [argument.name for argument in function.signature.input_arg]
    given = dict(zip(arguments, inputs, strict=False))
    nodes = {node.name: node for node in function.node_def}
    names = {}
    for node in function.node_def:
        if node.op in _ASSIGNMENTS and len(node.input) > 1 and node.input[0] in given:
            variable = variable_behind(graph, given[node.input[0]])
            key = _restored_key(nodes, node.input[1])
            if variable is not None and key is not None:
                names[variable.name] = key
    return names


def _restored_key(nodes: dict[str, Any], reference: str) -> str | None:
    """The key under which RestoreV2 reads the tensor that a reference in a function means."""
    seen: set[str] = set()
    node = nodes.get(producer_in_function(reference))
    while node is not None and node.op in _PASSES and node.name not in seen and node.input:
        seen.add(node.name)
        reference = node.input[0]
        node = nodes.get(producer_in_function(reference))
    if node is None or node.op != "RestoreV2" or len(node.input) < 2:
        return None
    keys = nodes.get(producer_in_function(node.input[1]))
    index = whole_number(reference.rpartition(":")[2])
    if keys is None or keys.op != "Const" or index is None:
        return None
    values = constant_value(keys)
    value = values.flat[index] if index < values.size else None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _names_of(graph: Graph, inputs: list[str], first: int) -> dict[str, str]:
    keys = graph.node(node_of(inputs[1])) if len(inputs) > first else None
    if keys is None or keys.op != "Const":
        return {}
    values = constant_value(keys)
    if not values.dtype.hasobject:
        return {}
    variables = [variable_behind(graph, reference) for reference in inputs[first:]]
    return {
        variable.name: key.decode("utf-8", "replace")
        for variable, key in zip(variables, values.flat, strict=False)
        if variable is not None
    }
