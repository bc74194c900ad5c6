"""Puts the nodes of a function in the place of a node that calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from checkpoints.errors import GraphError
from checkpoints.messages import FunctionDef, NodeDef
from checkpoints.numbers import whole_number
from exporters.calls import calls_of, producer_in_function
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of, reference_to
from exporters.op_outputs import output_index
from exporters.rewrites.changes import Changes
from exporters.rewrites.devices import clear_placement
from exporters.rewrites.draft import Draft
from exporters.rewrites.prune import called_functions

MAX_NODES = 1 << 16
"""A file of a few bytes can hold functions that would become more nodes than any net has."""


def inline_calls(draft: Draft, is_wanted: Callable[[FunctionDef], bool]) -> Draft:
    """Inlines the functions that are wanted, or call one that is, until none is called any more.

    Functions of loops and of conditionals stay where they are, and so does what calls itself.

    Args:
      draft: any draft.
      is_wanted: whether a function's nodes have to be seen.

    Raises:
      GraphError: a function and its call do not fit.
    """
    wanted = _wanted_functions(draft.graph, is_wanted)
    inlined = 0
    while True:
        changes = draft.changes()
        count = 0
        for node in draft.graph.nodes.values():
            call = next(iter(calls_of(node, draft.graph.functions)), None)
            if call is None or call.attribute not in ("", "f") or call.function not in wanted:
                continue
            inline(draft.graph, changes, node, call.function, draft.graph.data_inputs(node.name))
            count += 1
        if not count:
            break
        draft = draft.changed(changes)
        inlined += count
    if not inlined:
        return draft
    return replace(draft, said=(*draft.said, f"{inlined} calls of functions were inlined."))


def inline(
    graph: Graph, changes: Changes, call: NodeDef, name: str, arguments: Sequence[TensorName]
) -> None:
    """Adds a function's nodes under `CALL/`, and leads readers of the call to them.

    Args:
      graph: the graph that has the call and the function.
      changes: where this is noted.
      call: the node that goes.
      name: of the function.
      arguments: what it is given.

    Raises:
      GraphError: function and call do not fit, or there would be too many nodes.
    """
    function = graph.functions.get(name)
    if function is None:
        raise GraphError(
            f"{graph.label}: {call.name} calls {name!r}, and there is no such function."
        )
    if len(graph.nodes) + len(function.node_def) > MAX_NODES:
        raise GraphError(
            f"{graph.label} would have too many nodes once its functions are inlined.",
            expected=f"at most {MAX_NODES}",
        )
    body = _Body(graph, changes, call, function, arguments)
    body.add_nodes()
    for index, result in enumerate(body.results()):
        changes.lead(TensorName(call.name, index), result)
    changes.drop(call.name, body.awaited())


def _wanted_functions(graph: Graph, is_wanted: Callable[[FunctionDef], bool]) -> set[str]:
    """Functions that are wanted, or call one that is; those that call themselves never."""
    found = set()
    for name, function in graph.functions.items():
        called = {other.signature.name for other in called_functions(graph, function.node_def)}
        if name in called:
            continue
        if any(is_wanted(graph.functions[other]) for other in (name, *called)):
            found.add(name)
    return found


class _Body:
    """The nodes of one function as they are to stand in a graph."""

    def __init__(
        self,
        graph: Graph,
        changes: Changes,
        call: NodeDef,
        function: FunctionDef,
        arguments: Sequence[TensorName],
    ) -> None:
        self._graph = graph
        self._changes = changes
        self._call = call
        self._function = function
        self._nodes = {node.name: node for node in function.node_def}
        self._arguments = self._match(arguments)
        self._names: dict[str, str] = {}

    def add_nodes(self) -> None:
        """Adds every node; those that come first wait for what the call waited for."""
        control = [reference for reference in self._call.input if is_control(reference)]
        for name in self._nodes:
            self._names[name] = self._changes.new_name(f"{self._call.name}/{name}")
            # The name is taken from here on.
            self._changes.put(NodeDef(name=self._names[name]))
        for name, node in self._nodes.items():
            inlined = NodeDef()
            inlined.CopyFrom(node)
            inlined.name = self._names[name]
            inlined.input[:] = [self._reference(reference) for reference in node.input]
            if not any(producer_in_function(reference) in self._nodes for reference in node.input):
                inlined.input.extend(control)
            clear_placement(inlined)
            self._fill_attributes(inlined)
            self._changes.put(inlined)

    def results(self) -> list[TensorName]:
        """The tensors that are the call's outputs, in order."""
        found = []
        for output in self._function.signature.output_arg:
            if output.number_attr or output.type_list_attr:
                raise self._misfit(f"its output {output.name} is a list")
            if output.name not in self._function.ret:
                raise self._misfit(f"it does not say what its output {output.name} is")
            found.append(self._tensor(self._function.ret[output.name]))
        return found

    def awaited(self) -> list[str]:
        """The nodes to wait for where the call was waited for."""
        names = [
            self._names[node] for node in self._function.control_ret.values() if node in self._names
        ]
        return list(dict.fromkeys([*names, *(result.node for result in self.results())]))

    def _match(self, arguments: Sequence[TensorName]) -> Mapping[str, list[TensorName]]:
        """Argument -> the tensors it is."""
        matched: dict[str, list[TensorName]] = {}
        rest = list(arguments)
        for argument in self._function.signature.input_arg:
            attribute = argument.number_attr or argument.type_list_attr
            if attribute and attribute not in self._call.attr:
                raise self._misfit(f"the call does not say how many {argument.name} are")
            value: Any = self._call.attr[attribute] if attribute else None
            count = 1
            if value is not None:
                count = len(value.list.type) if value.HasField("list") else int(value.i)
            matched[argument.name] = rest[:count]
            if len(matched[argument.name]) < count:
                raise self._misfit(f"the call gives it no {argument.name}")
            rest = rest[count:]
        if rest:
            raise self._misfit(f"the call gives it {len(rest)} arguments too many")
        return matched

    def _reference(self, reference: str) -> str:
        if not is_control(reference):
            return reference_to(self._tensor(reference))
        name = node_of(reference)
        if name in self._arguments:
            return f"^{self._arguments[name][0].node}"
        if name not in self._names:
            raise self._misfit(f"it has no node {name!r}")
        return f"^{self._names[name]}"

    def _tensor(self, reference: str) -> TensorName:
        name, *rest = reference.split(":")
        index = whole_number(rest[-1] if rest else "") or 0
        if name in self._arguments:
            if index >= len(self._arguments[name]):
                raise self._misfit(f"{reference} is no argument")
            return self._arguments[name][index]
        if name not in self._names or len(rest) != 2:
            raise self._misfit(f"it has no tensor {reference!r}")
        place = output_index(self._graph, self._nodes[name], rest[0], index)
        return TensorName(self._names[name], place)

    def _fill_attributes(self, node: NodeDef) -> None:
        """Attributes that the function takes from its call."""
        for key, value in list(node.attr.items()):
            if value.WhichOneof("value") == "placeholder":
                if value.placeholder not in self._call.attr:
                    raise self._misfit(f"the call does not say its {value.placeholder}")
                node.attr[key].CopyFrom(self._call.attr[value.placeholder])

    def _misfit(self, problem: str) -> GraphError:
        return GraphError(
            f"{self._graph.label}: {self._call.name} and the function"
            f" {self._function.signature.name} do not fit: {problem}.",
            next_step="The file is damaged; export the graph again.",
        )
