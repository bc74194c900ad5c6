"""Names in graphs: nodes, tensors, control edges, and what people type for them."""

from __future__ import annotations

from typing import NamedTuple

METADATA_NODE = "slimtune/metadata"
"""The Const string node of a .pb that holds class names, preprocessing and the like as JSON."""


IMPORT_PREFIX = "import/"
"""What tf.import_graph_def puts before names where nobody chose another prefix."""


_MOST_DIGITS = 18
"""Of an output's index; more are part of a name, for all that is ever made of them."""


class TensorName(NamedTuple):
    """One output of one node.

    Attributes:
      node: name of the node.
      output_index: which of its outputs.
    """

    node: str
    output_index: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.output_index}"


def is_control(reference: str) -> bool:
    """Whether an entry of NodeDef.input only orders: `^node`."""
    return reference.startswith("^")


def node_of(reference: str) -> str:
    """The node that an entry of NodeDef.input refers to, of the forms `x`, `x:1` and `^x`."""
    if reference.startswith("^"):
        return reference[1:]
    colon = reference.find(":")
    return reference if colon < 0 else reference[:colon]


def tensor_of(reference: str) -> TensorName:
    """The tensor that an entry of NodeDef.input, or a name that a person typed, refers to.

    `x`, `x:0` and `^x` all give output 0 of x.
    """
    text = reference.strip().removeprefix("^")
    node, colon, index = text.rpartition(":")
    if colon and index.isascii() and index.isdigit() and len(index) <= _MOST_DIGITS:
        return TensorName(node, int(index))
    return TensorName(text)


def reference_to(tensor: TensorName) -> str:
    """How NodeDef.input spells a tensor: output 0 without its index."""
    return tensor.node if tensor.output_index == 0 else str(tensor)
