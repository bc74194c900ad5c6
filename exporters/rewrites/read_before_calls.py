"""Reads variables before the calls that took their handles.

A node that calls a function with a variable's handle (PartitionedCall, If, While, Case, or the
function itself as an op) gets the value instead, and the function is written anew for it. What
only reads the variable answers the same; a function that writes it is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from checkpoints.errors import UnsupportedError, listed
from checkpoints.messages import GraphDef, NodeDef
from exporters.calls import calls_of
from exporters.graph import Graph, dimensions
from exporters.names import is_control, node_of, reference_to, tensor_of
from exporters.ops import HANDLE_READS, VARIABLES
from exporters.rewrites.function_values import FunctionValues, Value, held_inputs, in_order
from exporters.rewrites.prune import called_functions
from exporters.variables import follow_handles


class ReadBeforeCalls(NamedTuple):
    """A graph whose functions take values.

    Attributes:
      graph: the graph; the old one where no function took a handle.
      calls: the nodes that were changed.
    """

    graph: Graph
    calls: tuple[str, ...]


def read_before_calls(graph: Graph) -> ReadBeforeCalls:
    """Gives functions the values of variables where they took handles.

    Args:
      graph: a pruned graph.

    Raises:
      UnsupportedError: a function does something with a handle that has no answer for a value,
        or makes a variable of its own; all are listed.
      GraphError: functions call each other endlessly.
    """
    if not graph.functions:
        return ReadBeforeCalls(graph, ())
    _refuse_variables_in_functions(graph)
    rewriting = _Rewriting(graph)
    rewriting.run()
    if rewriting.functions.problems:
        raise UnsupportedError(
            f"{graph.label} has functions that use variables in ways that values have no answer"
            f" for:\n{listed(rewriting.functions.problems)}",
            expected=f"variables read by {', '.join(HANDLE_READS)}",
            next_step="Name outputs that do without these functions: --outputs",
        )
    if not rewriting.calls:
        return ReadBeforeCalls(graph, ())
    return ReadBeforeCalls(rewriting.changed(), tuple(rewriting.calls))


def _refuse_variables_in_functions(graph: Graph) -> None:
    found = [
        f"{name}/{node.name} ({node.op})"
        for name, function in graph.functions.items()
        for node in function.node_def
        if node.op in VARIABLES
    ]
    if found:
        raise UnsupportedError(
            f"{graph.label} has variables that are made inside functions:\n{listed(found)}",
            expected="variables of the graph itself, which functions take as arguments",
            next_step="Name outputs that do without these functions: --outputs",
        )


class _Rewriting:
    """Goes through the graph's own nodes.

    Attributes:
      calls: the names of the calls that were changed.
      functions: writes functions anew.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._handles = follow_handles(graph)
        self._nodes: dict[str, NodeDef] = {}
        self._reads: dict[str, NodeDef] = {}
        self.calls: list[str] = []
        self.functions = FunctionValues(graph)

    def run(self) -> None:
        """Changes the calls, and what takes handles from them."""
        values: dict[str, Value] = {}
        for node in in_order(self._graph.nodes.values(), node_of):
            held = held_inputs(node, values, _canonical)
            is_call = bool(calls_of(node, self._graph.functions))
            changed = NodeDef()
            changed.CopyFrom(node)
            if is_call:
                held |= self._read_handles(changed)
            if not held:
                continue
            for (name, index), value in self.functions.use(changed, held).items():
                place = index + (name == "output_true")
                values[f"{node.name}:{place}" if place else node.name] = value
            self._nodes[node.name] = changed
            if is_call:
                self.calls.append(node.name)

    def changed(self) -> Graph:
        """The graph with the changed nodes, and the functions that are called now."""
        graph_def = GraphDef()
        graph_def.versions.CopyFrom(self._graph.graph_def.versions)
        graph_def.node.extend(
            self._nodes.get(name, node) for name, node in self._graph.nodes.items()
        )
        graph_def.node.extend(self._reads.values())
        graph_def.library.function.extend(self._graph.graph_def.library.function)
        graph_def.library.function.extend(self.functions.functions.values())
        whole = Graph(graph_def)
        kept = called_functions(whole, whole.nodes.values())
        names = {function.signature.name for function in kept}
        del graph_def.library.function[:]
        graph_def.library.function.extend(kept)
        graph_def.library.gradient.extend(
            gradient
            for gradient in self._graph.graph_def.library.gradient
            if gradient.function_name in names and gradient.gradient_func in names
        )
        return Graph(graph_def, self._graph.kind, self._graph.path, self._graph.meta_graph)

    def _read_handles(self, call: NodeDef) -> dict[int, Value]:
        """Gives a call the values of variables; index of an input -> the value."""
        held = {}
        for index, reference in enumerate(call.input):
            variable = None if is_control(reference) else self._handles.get(node_of(reference))
            if variable is not None:
                node = self._graph.nodes[variable]
                shape = dimensions(node.attr["shape"].shape) if "shape" in node.attr else None
                sizes = None if shape is None else tuple(-1 if n is None else n for n in shape)
                number = int(node.attr["dtype"].type) if "dtype" in node.attr else 0
                held[index] = Value(number, sizes)
                call.input[index] = self._read(node_of(reference), held[index])
        return held

    def _read(self, handle: str, value: Value) -> str:
        """A node that reads a handle before calls; one for each."""
        if handle not in self._reads:
            hint = f"{handle}/Read/ReadVariableOp"
            name, count = hint, 0
            while name in self._graph.nodes:
                count += 1
                name = f"{hint}_{count}"
            read = NodeDef(name=name, op="ReadVariableOp", input=[handle])
            read.attr["dtype"].type = value.dtype
            self._reads[handle] = read
        return str(self._reads[handle].name)


def _canonical(reference: str) -> str:
    return reference_to(tensor_of(reference))
