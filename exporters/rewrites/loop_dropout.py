"""Takes dropout out of the bodies of loops, which are functions and stay where they are."""

from __future__ import annotations

from dataclasses import replace

from checkpoints.errors import GraphError, counted
from checkpoints.messages import FunctionDef, GraphDef, NodeDef
from checkpoints.numbers import whole_number
from exporters.calls import calls_of
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of, reference_to, tensor_of
from exporters.op_outputs import output_index
from exporters.rewrites.draft import Draft
from exporters.rewrites.dropout import NOISE, remove_dropout


def remove_dropout_in_loops(draft: Draft) -> Draft:
    """Writes the functions of loops without the dropouts in them, under their old names.

    A function whose references cannot be followed stays as it is; noise that is left is refused
    later.
    """
    graph = draft.graph
    written: dict[str, FunctionDef] = {}
    loops: dict[str, None] = {}
    for node in graph.nodes.values():
        for call in calls_of(node, graph.functions):
            function = graph.functions.get(call.function) if call.is_loop else None
            if function is None or not any(inner.op in NOISE for inner in function.node_def):
                continue
            if function.signature.name not in written:
                try:
                    changed = _Body(graph, function).without_dropout()
                except GraphError:
                    continue
                if changed is None:
                    continue
                written[function.signature.name] = changed
            loops[node.name] = None
    if not written:
        return draft
    graph_def = GraphDef()
    graph_def.CopyFrom(graph.graph_def)
    for function in graph_def.library.function:
        if function.signature.name in written:
            function.CopyFrom(written[function.signature.name])
    line = f"Dropout taken out of {counted(len(loops), 'loop')}: {', '.join(loops)}."
    return replace(
        draft,
        graph=Graph(graph_def, graph.kind, graph.path, graph.meta_graph),
        said=(*draft.said, line),
        is_faithful=False,
    )


class _Body:
    """A function, and the same as a graph whose placeholders are its arguments."""

    def __init__(self, graph: Graph, function: FunctionDef) -> None:
        self._graph = graph
        self._function = function
        self._nodes = {node.name: node for node in function.node_def}
        self._arguments = {argument.name for argument in function.signature.input_arg}
        self._spelt: dict[TensorName, str] = {}

    def without_dropout(self) -> FunctionDef | None:
        """The function as it is without dropout; None where it has none that is known."""
        results = {key: self._tensor(text) for key, text in self._function.ret.items()}
        before = Draft(self._as_graph(), tuple(dict.fromkeys(results.values())))
        after = remove_dropout(before)
        if after is before or after.outputs != before.outputs:
            return None
        changed = FunctionDef()
        changed.CopyFrom(self._function)
        awaited = {
            key: name
            for key, name in self._function.control_ret.items()
            if self._nodes[name].op not in NOISE
        }
        starts = [tensor.node for tensor in results.values()] + list(awaited.values())
        needed = after.graph.ancestors(starts, control=True)
        del changed.node_def[:]
        for name, node in after.graph.nodes.items():
            if name in needed and name not in self._arguments:
                copy = changed.node_def.add()
                copy.CopyFrom(node)
                copy.input[:] = [self._text(after.graph, reference) for reference in node.input]
        for key, tensor in results.items():
            changed.ret[key] = self._text(after.graph, reference_to(tensor))
        changed.control_ret.clear()
        changed.control_ret.update(awaited)
        outputs = changed.signature.control_output
        outputs[:] = [key for key in outputs if key in awaited]
        return changed

    def _as_graph(self) -> Graph:
        graph_def = GraphDef()
        for argument in self._function.signature.input_arg:
            placeholder = graph_def.node.add(name=argument.name, op="Placeholder")
            placeholder.attr["dtype"].type = argument.type
        for node in self._function.node_def:
            copy = graph_def.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [
                reference if is_control(reference) else reference_to(self._tensor(reference))
                for reference in node.input
            ]
        return Graph(graph_def)

    def _tensor(self, reference: str) -> TensorName:
        """The tensor that a reference of the function means, and remembers how it is spelt."""
        name, *rest = reference.split(":")
        index = whole_number(rest[-1] if rest else "") or 0
        if name in self._arguments:
            tensor = TensorName(name, index)
        else:
            node = self._nodes.get(name)
            if node is None or len(rest) != 2:
                raise GraphError(f"{self._function.signature.name} has no tensor {reference!r}.")
            tensor = TensorName(name, output_index(self._graph, node, rest[0], index))
        self._spelt[tensor] = reference
        return tensor

    def _text(self, graph: Graph, reference: str) -> str:
        """A reference as the function spells it."""
        if is_control(reference):
            return reference
        tensor = tensor_of(reference)
        node: NodeDef | None = self._nodes.get(tensor.node)
        if node is not None and graph.nodes[tensor.node].op != node.op:
            # What was led elsewhere has an Identity in its place.
            return f"{node_of(reference)}:output:0"
        return self._spelt[tensor]
