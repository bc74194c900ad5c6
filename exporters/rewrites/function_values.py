"""Functions written anew for values where they took handles of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from checkpoints.errors import GraphError
from checkpoints.messages import DataType, FunctionDef, NodeDef
from checkpoints.tensors import set_shape
from exporters.calls import Call, argument_of, calls_of, producer_in_function
from exporters.graph import Graph
from exporters.names import is_control
from exporters.ops import HANDLE_PASSES, HANDLE_READS

MAX_DEPTH = 100
"""How many functions may call each other, one inside the other."""
MAX_FUNCTIONS = 10_000
"""How many functions are written anew at most."""

_SUFFIX = "_with_values"
_ABOUT_HANDLES = (
    "_handle_dtypes",
    "_handle_shapes",
    "_output_shapes",
    "_read_only_resource_inputs",
)
_OUTPUT_NAMES = {"Switch": ("output_false", "output_true")}
_READ = "ReadVariableOp"


class Value(NamedTuple):
    """What stands where a handle stood.

    Attributes:
      dtype: the number of the variable's dtype.
      shape: the variable's shape, -1 for an open dimension; None where it is not known.
    """

    dtype: int
    shape: tuple[int, ...] | None


class Rewritten(NamedTuple):
    """A function that takes values.

    Attributes:
      name: its new name.
      outputs: place among its results -> the value that is handed back there.
    """

    name: str
    outputs: dict[int, Value]


class FunctionValues:
    """Writes functions anew, each once for the arguments that become values.

    Attributes:
      functions: the new functions by name.
      problems: what has no answer for a value, a line each.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[str, tuple[tuple[int, Value], ...]], Rewritten] = {}
        self._open: list[str] = []
        self.functions: dict[str, FunctionDef] = {}
        self.problems: list[str] = []

    def use(
        self, node: NodeDef, held: Mapping[int, Value], scope: str = ""
    ) -> dict[tuple[str, int], Value]:
        """Changes a node that takes values where it took handles, in place.

        Args:
          node: the node.
          held: index of an input -> what is given there now.
          scope: what problems put before the node's name.

        Returns:
          Its outputs that are values now where they were handles: (argument, index) -> value.
        """
        calls = calls_of(node, self._graph.functions)
        if calls:
            outputs = self._call(node, calls, held, scope)
            return {("output", index): value for index, value in outputs.items()}
        read = HANDLE_READS.get(node.op)
        is_first = held.keys() == {0}
        if read is not None and is_first and not _is_set(node, read.zero_attribute):
            kept = {key: node.attr[key] for key in read.kept_attributes if key in node.attr}
            changed = NodeDef(name=node.name, op=read.op, input=node.input, device=node.device)
            for key, attribute in kept.items():
                changed.attr[key].CopyFrom(attribute)
            changed.attr[read.dtype_attribute].type = held[0].dtype
            node.CopyFrom(changed)
            return {}
        if node.op in HANDLE_PASSES and is_first and node.attr["T"].type == DataType.DT_RESOURCE:
            node.attr["T"].type = held[0].dtype
            _forget_handles(node)
            return {(name, 0): held[0] for name in _OUTPUT_NAMES.get(node.op, ("output",))}
        self.problems.append(f"{scope}{node.name} ({node.op}) uses the handle of a variable")
        return {}

    def _call(
        self, node: NodeDef, calls: list[Call], held: Mapping[int, Value], scope: str
    ) -> dict[int, Value]:
        outputs: dict[int, Value] = {}
        branch = 0
        for call in calls:
            arguments = {index - call.first_input: value for index, value in held.items()}
            rewritten = self._rewritten(call.function, arguments)
            if rewritten is None:
                self.problems.append(
                    f"{scope}{node.name} ({node.op}) gives a handle to {call.function}, which has"
                    " no such argument"
                )
                continue
            if call.attribute == "branches":
                node.attr["branches"].list.func[branch].name = rewritten.name
                branch += 1
            elif call.attribute:
                node.attr[call.attribute].func.name = rewritten.name
            else:
                node.op = rewritten.name
            if call.attribute == "body" and rewritten.outputs != arguments:
                self.problems.append(
                    f"{scope}{node.name} ({node.op}) does not hand its variables on as they came"
                )
            if call.attribute != "cond":
                outputs |= rewritten.outputs
        for index, value in held.items():
            place = index - calls[0].first_input
            _set_type(node, ("T" if calls[0].is_loop else "Tin"), place, value)
        for index, value in outputs.items():
            _set_type(node, "Tout", index, value)
            _set_output_shape(node, index, value)
        _forget_handles(node)
        return outputs

    def _rewritten(self, name: str, arguments: Mapping[int, Value]) -> Rewritten | None:
        """The function for values at these places; None where it has no such arguments."""
        key = (name, tuple(sorted(arguments.items())))
        if key in self._known:
            return self._known[key]
        function = self._graph.functions.get(name)
        if function is None or any(argument_of(function, index) is None for index in arguments):
            return None
        if name in self._open or len(self._open) >= MAX_DEPTH or len(self._known) >= MAX_FUNCTIONS:
            raise GraphError(
                f"{self._graph.label}: functions call each other endlessly, or too deeply:"
                f" {' calls '.join([*self._open[-3:], name])}.",
                expected=f"at most {MAX_DEPTH} functions, one inside the other",
            )
        self._open.append(name)
        copy = FunctionDef()
        copy.CopyFrom(function)
        outputs = self._rewrite(copy, arguments)
        self._open.pop()
        copy.signature.name = self._free_name(f"{name}{_SUFFIX}")
        self.functions[copy.signature.name] = copy
        self._known[key] = Rewritten(str(copy.signature.name), outputs)
        return self._known[key]

    def _rewrite(self, function: FunctionDef, arguments: Mapping[int, Value]) -> dict[int, Value]:
        """Changes a function in place; returns its results that are values now."""
        values: dict[str, Value] = {}
        for index, value in arguments.items():
            argument = function.signature.input_arg[index]
            argument.type = value.dtype
            values[argument.name] = value
            function.resource_arg_unique_id.pop(index, None)
            if index in function.arg_attr:
                for attribute in _ABOUT_HANDLES:
                    function.arg_attr[index].attr.pop(attribute, None)
        renamed: dict[str, str] = {}
        scope = f"{function.signature.name}/"
        for node in in_order(function.node_def, producer_in_function):
            held = held_inputs(node, values, str)
            if held:
                was_read = node.op == _READ
                for (name, index), value in self.use(node, held, scope).items():
                    values[f"{node.name}:{name}:{index}"] = value
                if was_read and node.op != _READ:
                    renamed[f"{node.name}:value:0"] = f"{node.name}:output:0"
        for node in function.node_def:
            inputs = [renamed.get(reference, reference) for reference in node.input]
            if inputs != list(node.input):
                node.input[:] = inputs
        outputs = {}
        for index, output in enumerate(function.signature.output_arg):
            reference = function.ret[output.name]
            function.ret[output.name] = renamed.get(reference, reference)
            if reference in values:
                outputs[index] = values[reference]
                output.type = values[reference].dtype
        return outputs

    def _free_name(self, hint: str) -> str:
        name, count = hint, 0
        while name in self._graph.functions or name in self.functions:
            count += 1
            name = f"{hint}_{count}"
        return name


def held_inputs(
    node: NodeDef, values: Mapping[str, Value], canonical: Callable[[str], str]
) -> dict[int, Value]:
    """Index of an input -> the value that is given there in place of a handle."""
    return {
        index: values[canonical(reference)]
        for index, reference in enumerate(node.input)
        if not is_control(reference) and canonical(reference) in values
    }


def in_order(nodes: Iterable[NodeDef], producer: Callable[[str], str]) -> list[NodeDef]:
    """Nodes, producers first; where they form a loop, in the order they were reached."""
    by_name = {node.name: node for node in nodes}
    order: list[NodeDef] = []
    seen: set[str] = set()
    for start in by_name:
        waiting = [(start, False)]
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                order.append(by_name[name])
            elif name not in seen and name in by_name:
                seen.add(name)
                waiting.append((name, True))
                waiting.extend((producer(reference), False) for reference in by_name[name].input)
    return order


def _is_set(node: NodeDef, attribute: str) -> bool:
    return bool(attribute) and attribute in node.attr and bool(node.attr[attribute].i)


def _set_type(node: NodeDef, attribute: str, index: int, value: Value) -> None:
    if attribute in node.attr and index < len(node.attr[attribute].list.type):
        node.attr[attribute].list.type[index] = value.dtype


def _set_output_shape(node: NodeDef, index: int, value: Value) -> None:
    """A handle is a scalar; the shape of what stands there now is the variable's."""
    if "output_shapes" in node.attr and index < len(node.attr["output_shapes"].list.shape):
        shape = node.attr["output_shapes"].list.shape[index]
        shape.Clear()
        if value.shape is None:
            shape.unknown_rank = True
        else:
            set_shape(shape, value.shape)


def _forget_handles(node: NodeDef) -> None:
    for attribute in _ABOUT_HANDLES:
        node.attr.pop(attribute, None)
