"""Whether the variables of a graph are what a checkpoint holds under their keys."""

from __future__ import annotations

from checkpoints.dtypes import name_of_number
from checkpoints.messages import NodeDef
from checkpoints.numbers import whole_number
from exporters.graph import Graph, dimensions
from exporters.names import node_of
from exporters.ops import VARIABLES
from exporters.values import Header

_FLOATS = frozenset({1, 2, 14, 19})
"""float32, float64, bfloat16, float16."""
_PASSES = frozenset({"Identity", "ReadVariableOp"})


def can_cast(source: int, target: int) -> bool:
    """Whether a Saver may keep values of one dtype in another: floats in floats."""
    return source in _FLOATS and target in _FLOATS


def variable_behind(graph: Graph, reference: str) -> NodeDef | None:
    """The variable whose value a save op takes; None where it takes something else."""
    seen: set[str] = set()
    node = graph.node(node_of(reference))
    while node.op in _PASSES and node.name not in seen and node.input:
        seen.add(node.name)
        node = graph.node(node_of(node.input[0]))
    return node if node.op in VARIABLES else None


def misfit(variable: NodeDef, part: bytes, header: Header) -> str | None:
    """What the graph and the checkpoint say of a variable, where they do not agree.

    Args:
      variable: the variable's node.
      part: the slice of the key that it is, as a Saver spells it: `5 2 0,3:0,2`; empty for all.
      header: dtype and shape of the key in the checkpoint; another float is no misfit.
    """
    own = variable.attr["dtype"].type if "dtype" in variable.attr else 0
    shape = dimensions(variable.attr["shape"].shape) if "shape" in variable.attr else None
    if part:
        *sizes, _ = part.decode("ascii", "replace").split() or [""]
        numbers = map(whole_number, sizes)
        shape = tuple(-1 if number is None else number for number in numbers)
    is_same = own == header.dtype.number or can_cast(own, header.dtype.number)
    if is_same and (
        shape is None
        or (
            len(shape) == len(header.shape)
            and all(size in (None, known) for size, known in zip(shape, header.shape, strict=True))
        )
    ):
        return None
    spelled = "?" if shape is None else ", ".join("?" if n is None else str(n) for n in shape)
    return f"{variable.name}: graph {name_of_number(own)} [{spelled}], checkpoint {header}"
