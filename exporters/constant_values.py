"""The constants of a graph, seen as variables of a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping

from checkpoints import dtypes
from checkpoints.errors import GraphError, NotFoundError, listed
from checkpoints.mapping import SavedVariables
from checkpoints.messages import NodeDef
from checkpoints.tensors import Array, describe, read_shape
from exporters.constants import constant_value
from exporters.graph import MAX_MESSAGE_BYTES


class ConstantValues(SavedVariables):
    """Values of Const nodes by name; each is read when it is asked for."""

    def __init__(self, label: str, nodes: Mapping[str, NodeDef]) -> None:
        """Takes constants under the names they are to have.

        Args:
          label: how messages call them: the path of the graph's file.
          nodes: name -> Const node.

        Raises:
          GraphError: a shape is larger than any graph's variables could have been.
        """
        self._nodes = nodes
        self.label = label
        self.metadata = {}
        self.variables = {}
        too_large = []
        for name, node in nodes.items():
            tensor = node.attr["value"].tensor
            dtype, shape = dtypes.of_number(tensor.dtype), read_shape(tensor.tensor_shape)
            self.variables[name] = describe(name, dtype, shape)
            itemsize = 1 if dtype.is_string else dtype.numpy.itemsize
            if math.prod(shape) * itemsize > MAX_MESSAGE_BYTES:
                too_large.append(f"{name}: {dtype.name} {list(shape)}")
        if too_large:
            # A constant may say one value for all of its elements, however many they are.
            raise GraphError(
                f"{label}: constants are larger than variables of a frozen graph can have been:\n"
                f"{listed(too_large)}",
                expected=f"at most {MAX_MESSAGE_BYTES} bytes each, protobuf's limit for one graph",
            )

    def __getitem__(self, name: str) -> Array:
        """The value of a constant.

        Raises:
          NotFoundError: there is none of that name.
          GraphError: its bytes and its shape contradict each other.
        """
        if name not in self._nodes:
            raise NotFoundError(f"{self.label} has no constant {name!r}.")
        return constant_value(self._nodes[name])
