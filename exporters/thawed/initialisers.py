"""Nodes that give variables values to begin with, for whoever trains a graph from scratch.

Values of a net that was trained come from its checkpoint; the initialisers are what TensorFlow
wants every variable to have. Weights get random numbers whose deviation is one over the root of
how many numbers a sum is made of, so that a net begins with answers of a sensible size.

Source:
  LeCun et al. 1998, Efficient BackProp, section 4.6.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from checkpoints import dtypes
from checkpoints.messages import DataType, NodeDef
from checkpoints.tensors import set_shape
from exporters.savers.graph_edits import GraphEdits
from exporters.values import Header

Initial: TypeAlias = Literal["zeros", "ones", "normal"]

_ONES = {
    "bfloat16": ("half_val", 0x3F80),
    "float16": ("half_val", 0x3C00),
    "float32": ("float_val", 1.0),
    "float64": ("double_val", 1.0),
}
_TRUNCATED_DEVIATION = 0.87962566103423978
"""The deviation that is left of 1 when what is beyond two deviations is drawn again."""


def add_initialiser(edits: GraphEdits, scope: str, header: Header, initial: Initial) -> str:
    """Adds the nodes of a value to begin with.

    Args:
      edits: takes the nodes.
      scope: the variable's name.
      header: its dtype and shape.
      initial: "normal" needs a float dtype and a rank of 1 at least, "ones" a float dtype.

    Returns:
      The node whose output 0 is the value.
    """
    if initial == "normal":
        return _add_normal(edits, f"{scope}/Initializer/truncated_normal", header)
    node = edits.add("Const", f"{scope}/Initializer/{initial}")
    field, one = _ONES.get(header.dtype.name, ("", 0))
    _fill(node, header.dtype.number, header.shape, field if initial == "ones" else "", one)
    return str(node.name)


def initial_for(name: str, header: Header, roles: frozenset[str] = frozenset()) -> Initial:
    """How a variable begins, by what ops take it as, else by its name and shape."""
    last = name.rpartition("/")[2]
    if header.dtype.name not in _ONES:
        return "zeros"
    if roles & {"scale", "variance"} or last in ("gamma", "moving_variance"):
        return "ones"
    return "normal" if len(header.shape) > 1 and not roles & {"offset", "mean"} else "zeros"


def _add_normal(edits: GraphEdits, scope: str, header: Header) -> str:
    sizes = edits.add("Const", f"{scope}/shape")
    sizes.attr["dtype"].type = DataType.DT_INT32
    tensor = sizes.attr["value"].tensor
    tensor.dtype = DataType.DT_INT32
    set_shape(tensor.tensor_shape, (len(header.shape),))
    tensor.int_val.extend(header.shape)
    drawn = edits.add("TruncatedNormal", f"{scope}/TruncatedNormal", [sizes.name])
    drawn.attr["T"].type = DataType.DT_INT32
    drawn.attr["dtype"].type = header.dtype.number
    for seed in ("seed", "seed2"):
        drawn.attr[seed].i = 0
    summands = max(math.prod(header.shape[:-1]), 1)
    deviation = edits.add("Const", f"{scope}/stddev")
    field, value = _number(header.dtype, 1 / math.sqrt(summands) / _TRUNCATED_DEVIATION)
    _fill(deviation, header.dtype.number, (), field, value)
    scaled = edits.add("Mul", scope, [drawn.name, deviation.name])
    scaled.attr["T"].type = header.dtype.number
    return str(scaled.name)


def _number(dtype: dtypes.DType, value: float) -> tuple[str, float | int]:
    """The field of a TensorProto for a number of a float dtype, and what stands in it."""
    import numpy as np

    field, _ = _ONES[dtype.name]
    if field == "half_val":
        return field, int(np.array(value, dtype.numpy).view(np.uint16))
    return field, value


def _fill(
    node: NodeDef, dtype: int, shape: tuple[int, ...], field: str, value: float | int
) -> None:
    """Makes a node a constant of one value everywhere; zero where no field is named."""
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype
    set_shape(tensor.tensor_shape, shape)
    if field:
        getattr(tensor, field).append(value)
