"""The source's side of the structure proof: what has to stand in the file for each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkpoints.messages import DataType, FunctionDef, FunctionDefLibrary, NodeDef
from exporters import ops
from exporters.graph import Graph


class ProofSource:
    """A graph with variables, seen as what its written form has to be."""

    def __init__(self, graph: Graph, keeps_variables: bool = False) -> None:
        """Takes the source.

        Args:
          graph: the source.
          keeps_variables: whether variables stay, and what reads them; else they are frozen.
        """
        self._source = graph
        self._keeps_variables = keeps_variables

    def expected(self, node: NodeDef) -> NodeDef:
        """What has to stand in the file for a node of the source, control edges all in place."""
        variable = None if self._keeps_variables else self._handle_of(node)
        read = ops.HANDLE_READS.get(node.op) if variable is not None else None
        expected = NodeDef()
        if read is None:
            # Whatever fields a later TensorFlow may have written stay.
            expected.CopyFrom(node)
            if not self._keeps_variables:
                expected.op = ops.VALUE_OPS.get(node.op, node.op)
            expected.device = ""
            if node.op in ops.VARIABLES:
                del expected.input[:]
            for name in ops.DROPPED_ATTRIBUTES:
                expected.attr.pop(name, None)
            _without_placement(expected)
        else:
            expected.name, expected.op = node.name, read.op
            expected.input.extend(node.input)
            for name in read.kept_attributes:
                if name in node.attr:
                    expected.attr[name].CopyFrom(node.attr[name])
        if variable is not None:
            attribute = "T" if read is None else read.dtype_attribute
            expected.attr[attribute].type = variable.attr["dtype"].type
        return expected

    def _handle_of(self, node: NodeDef) -> NodeDef | None:
        """The variable whose handle a node reads or passes on."""
        seen = {node.name}
        if node.op not in ops.HANDLE_READS and not _is_pass(node):
            return None
        while len(node.input) and not node.input[0].startswith("^"):
            node = self._source.node(name_in(node.input[0]))
            if node.op in ops.HANDLE_VARIABLES:
                return node
            if not _is_pass(node) or node.name in seen:
                return None
            seen.add(node.name)
        return None

    def expected_library(self, called: set[str]) -> FunctionDefLibrary:
        """What has to stand in the file as its functions: those called, without devices.

        Args:
          called: names that nodes of the file may call functions by.
        """
        needed: dict[str, FunctionDef] = {}
        waiting = list(called)
        while waiting:
            name = waiting.pop()
            if name in needed or name not in self._source.functions:
                continue
            needed[name] = FunctionDef()
            needed[name].CopyFrom(self._source.functions[name])
            for node in needed[name].node_def:
                node.device = ""
                _without_placement(node)
                waiting.extend(functions_named(node))
        library = FunctionDefLibrary()
        library.function.extend(needed[name] for name in self._source.functions if name in needed)
        library.gradient.extend(
            gradient
            for gradient in self._source.graph_def.library.gradient
            if gradient.function_name in needed and gradient.gradient_func in needed
        )
        return library

    def serves_updates(self, name: str) -> bool:
        """Whether every path behind a control edge, NoOps looked through, leads to an update."""
        targets, waiting, barriers = [], [name], set()
        while waiting:
            current = waiting.pop()
            node = self._source.node(current)
            if node.op == "NoOp" and len(node.input):
                if current not in barriers:
                    barriers.add(current)
                    waiting.extend(map(name_in, node.input))
            else:
                targets.append(current)
        return bool(targets) and all(map(self._needs_update, targets))

    def _needs_update(self, name: str) -> bool:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            node = self._source.node(waiting.pop())
            if node.name not in seen:
                if ops.is_bookkeeping(node.op):
                    return True
                seen.add(node.name)
                waiting.extend(map(name_in, node.input))
        return False


def _is_pass(node: NodeDef) -> bool:
    return (
        node.op in ops.HANDLE_PASSES
        and "T" in node.attr
        and node.attr["T"].type == DataType.DT_RESOURCE
    )


def _without_placement(node: NodeDef) -> None:
    if ops.SESSION_ATTRIBUTE in node.attr:
        node.attr[ops.SESSION_ATTRIBUTE].s = b""
    if ops.COLOCATION_ATTRIBUTE not in node.attr:
        return
    kept = [
        entry
        for entry in node.attr[ops.COLOCATION_ATTRIBUTE].list.s
        if not entry.startswith(ops.COLOCATION_PREFIX)
    ]
    del node.attr[ops.COLOCATION_ATTRIBUTE]
    if kept:
        node.attr[ops.COLOCATION_ATTRIBUTE].list.s.extend(kept)


def functions_named(node: NodeDef) -> Iterator[str]:
    """Names a node may call a function by, attributes of attributes included."""
    yield node.op
    waiting: list[Any] = list(node.attr.values())
    while waiting:
        value = waiting.pop()
        for function in (value.func, *value.list.func):
            if function.name:
                yield function.name
                waiting.extend(function.attr.values())


def name_in(reference: str) -> str:
    """The node in a reference of the forms `x`, `x:1` and `^x`."""
    name = reference.removeprefix("^")
    stem, _, index = name.rpartition(":")
    return stem if stem and index.isdigit() else name
