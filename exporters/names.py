"""Names in graphs: nodes, tensors, control edges, and what people type for them."""

from __future__ import annotations

from typing import NamedTuple

from checkpoints.numbers import whole_number

METADATA_NODE = "slimtune/metadata"
"""The Const string node of a .pb that holds class names, preprocessing and the like as JSON."""


IMPORT_PREFIX = "import/"
"""What tf.import_graph_def puts before names where nobody chose another prefix."""


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
    node, colon, end = text.rpartition(":")
    index = whole_number(end) if colon else None
    return TensorName(text) if index is None else TensorName(node, index)


def reference_to(tensor: TensorName) -> str:
    """How NodeDef.input spells a tensor: output 0 without its index."""
    return tensor.node if tensor.output_index == 0 else str(tensor)
