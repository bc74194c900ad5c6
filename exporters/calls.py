"""Which functions of the library a node calls, and which of its inputs become their arguments.

Source:
  Inputs and attributes as in TensorFlow's functional_ops.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from checkpoints.messages import FunctionDef, NodeDef

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
CONDITIONALS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
_LOOPS = frozenset({"While", "StatelessWhile"})


class Call(NamedTuple):
    """One function that a node may call.

    Attributes:
      function: its name.
      attribute: the node's attribute that names it; empty where the function is the op.
      first_input: the node's input that is its argument 0; the others follow.
    """

    function: str
    attribute: str
    first_input: int

    @property
    def is_loop(self) -> bool:
        """Whether its results, or those of the function beside it, are its next arguments."""
        return self.attribute in ("body", "cond")


def calls_of(node: NodeDef, functions: Mapping[str, FunctionDef]) -> list[Call]:
    """The functions a node calls with its own inputs; none where it is no call of a known kind."""
    if node.op in functions:
        return [Call(node.op, "", 0)]
    if node.op in _CALLS:
        return _named(node, ("f",), 0)
    if node.op in CONDITIONALS:
        return _named(node, ("then_branch", "else_branch"), 1)
    if node.op in _LOOPS:
        return _named(node, ("cond", "body"), 0)
    if node.op in CASES and "branches" in node.attr:
        return [Call(branch.name, "branches", 1) for branch in node.attr["branches"].list.func]
    return []


def argument_of(function: FunctionDef, index: int) -> Any | None:
    """The argument that is one tensor at a place of the call; None where there is none such.

    A function whose arguments are lists of tensors has no place for each tensor that stands
    still, so it has none.
    """
    arguments = function.signature.input_arg
    if any(argument.number_attr or argument.type_list_attr for argument in arguments):
        return None
    return arguments[index] if 0 <= index < len(arguments) else None


def producer_in_function(reference: str) -> str:
    """The node or argument that a reference inside a function means: `x`, `x:y:0` or `^x`."""
    return reference.removeprefix("^").partition(":")[0]


def _named(node: NodeDef, attributes: tuple[str, ...], first_input: int) -> list[Call]:
    return [
        Call(node.attr[attribute].func.name, attribute, first_input)
        for attribute in attributes
        if attribute in node.attr
    ]
