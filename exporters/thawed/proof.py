"""Proof that a thawed graph computes what the frozen one does, and holds its constants' bytes.

Every node of the frozen graph has to be there again, as it was but for its placement; what takes
the place of a constant has to read a variable whose value is that constant. Nothing else may have
come between: what a node takes is either a node of the frozen graph or such a read. The proof
shares tables of ops with the writer, not its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from checkpoints import dtypes
from checkpoints.errors import VerificationError
from checkpoints.mapping import SavedVariables
from checkpoints.messages import MetaGraphDef, NodeDef, VariableDef, is_same
from checkpoints.tensors import as_strings, little_endian_bytes
from exporters import ops
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.proofs.source import name_in
from exporters.values import first_difference

_KEPT_BYTES = ("variables", "trainable_variables")


def prove_thawed(
    frozen: Graph, written: bytes, values: SavedVariables, trainable: Sequence[str], label: str
) -> None:
    """Compares a thawed graph and its variables with the graph they were made from.

    Args:
      frozen: the frozen graph.
      written: the MetaGraphDef of the thawed one; its Saver is proved elsewhere.
      values: what the checkpoint holds, the keys being names of variables' nodes.
      trainable: the variables that gradients are to change.
      label: how messages call what was written.

    Raises:
      VerificationError: a node or value differs; it is named.
    """
    message = MetaGraphDef.FromString(written)
    _Proof(frozen, message, values, label).check(set(trainable))


class _Proof:
    def __init__(
        self, frozen: Graph, message: MetaGraphDef, values: SavedVariables, label: str
    ) -> None:
        self._frozen = frozen
        self._message = message
        self._nodes = {node.name: node for node in message.graph_def.node}
        self._values = values
        self._label = label
        self._compared: dict[str, str] = {}
        self._checked: set[str] = set()

    def check(self, trainable: set[str]) -> None:
        """Goes through the nodes of the frozen graph."""
        if len(self._nodes) != len(self._message.graph_def.node):
            self._fail("the graph", "several nodes have one name")
        for name, node in self._frozen.nodes.items():
            written = self._nodes.get(name)
            if written is None:
                self._fail(name, "the node is missing")
            if node.op == "Const" and written.op != "Const":
                self._check_value(name, self._variable_at(name))
            elif written.op == "ReadVariableOp" and node.op == "Identity":
                self._check_read(node, written)
            else:
                self._check_node(node, written)
        if self._compared.keys() != self._values.variables.keys():
            extra = self._values.variables.keys() ^ self._compared.keys()
            self._fail(min(extra), "the checkpoint has other variables than the graph")
        self._check_collections(trainable)
        library, expected = self._message.graph_def.library, self._frozen.graph_def.library
        if len(library.function) != len(expected.function):
            self._fail("the library", "functions are missing or were added")

    def _check_node(self, node: NodeDef, written: NodeDef) -> None:
        if node.op != written.op:
            self._fail(node.name, "the op differs", node.op, written.op)
        for key in set(node.attr) | set(written.attr):
            if key in (ops.COLOCATION_ATTRIBUTE, ops.SESSION_ATTRIBUTE, *ops.DROPPED_ATTRIBUTES):
                continue
            if (
                key not in node.attr
                or key not in written.attr
                or not is_same(node.attr[key], written.attr[key])
            ):
                self._fail(node.name, f"the attribute {key} differs")
        self._check_inputs(node.name, list(node.input), list(written.input))

    def _check_read(self, node: NodeDef, written: NodeDef) -> None:
        """An identity of a constant that is now a read of its variable."""
        self._check_value(name_in(node.input[0]), self._variable_at(written.name))
        self._check_inputs(node.name, list(node.input)[1:], list(written.input)[1:])

    def _check_inputs(self, name: str, expected: Sequence[str], found: Sequence[str]) -> None:
        if len(expected) != len(found):
            self._fail(name, "the number of inputs differs", expected, found)
        for reference, other in zip(expected, found, strict=True):
            if reference == other and not self._is_handle(reference):
                continue
            producer = self._nodes.get(name_in(other))
            if reference.startswith("^") or producer is None or producer.op != "ReadVariableOp":
                self._fail(name, f"the input {reference} became another", expected, found)
            if len(producer.input) != 1:
                self._fail(name, f"its input {producer.name} waits for other nodes")
            self._check_value(name_in(reference), self._variable_at(producer.name))

    def _is_handle(self, reference: str) -> bool:
        """Whether a data edge would give a handle where a value was."""
        node = self._nodes.get(name_in(reference))
        return (
            not reference.startswith("^")
            and node is not None
            and node.op in ops.HANDLE_VARIABLES
            and self._frozen.nodes[node.name].op == "Const"
        )

    def _variable_at(self, name: str) -> str:
        """The variable that a node is or reads."""
        node = self._nodes[name]
        if node.op == "ReadVariableOp" and node.input:
            node = self._nodes.get(name_in(node.input[0]), node)
        if node.op not in ops.HANDLE_VARIABLES:
            self._fail(name, "no variable stands behind it", received=node.op)
        return str(node.name)

    def _check_value(self, constant: str, variable: str) -> None:
        """A variable has the dtype, shape and values of a constant."""
        if self._compared.setdefault(variable, constant) != constant:
            self._fail(variable, f"it stands for {constant} and for {self._compared[variable]}")
        if variable in self._checked:
            return
        self._checked.add(variable)
        node = self._frozen.nodes.get(constant)
        if node is None or node.op != "Const" or variable not in self._values:
            self._fail(variable, f"it stands for {constant}, which is no constant")
        expected = constant_value(node)
        known = self._values.variables[variable]
        declared = self._nodes[variable].attr
        sizes = [dimension.size for dimension in declared["shape"].shape.dim]
        if known.shape != expected.shape or sizes != list(expected.shape):
            self._fail(variable, "the shape differs", expected.shape, known.shape)
        # A constant may say that it is a reference; its variable holds the same values.
        number = dtypes.of_number(node.attr["value"].tensor.dtype).number
        if declared["dtype"].type != number:
            self._fail(variable, "the dtype differs")
        if known.dtype_name == "string":
            if as_strings(self._values[variable], variable) != as_strings(expected, constant):
                self._fail(variable, "the strings differ")
        else:
            found, bytes_of_constant = (
                self._values.bytes_of(variable),
                little_endian_bytes(expected),
            )
            if len(found) != len(bytes_of_constant) or (
                first_difference(found, bytes_of_constant) is not None
            ):
                self._fail(variable, "the values differ from the constant's")

    def _check_collections(self, trainable: set[str]) -> None:
        listed = {
            name: {
                VariableDef.FromString(data).variable_name.removesuffix(":0")
                for data in self._message.collection_def[name].bytes_list.value
            }
            for name in _KEPT_BYTES
        }
        if listed["variables"] != set(self._compared):
            self._fail("the collection variables", "it does not list the variables")
        if listed["trainable_variables"] != trainable:
            self._fail("the collection trainable_variables", "it lists others")

    def _fail(
        self, name: str, message: str, expected: object = None, received: object = None
    ) -> NoReturn:
        raise VerificationError(
            f"{self._label} is not what its source says. Node {name}: {message}.",
            expected=None if expected is None else str(expected),
            received=received,
            next_step="Nothing was written. Please report it, with the graph.",
        )
