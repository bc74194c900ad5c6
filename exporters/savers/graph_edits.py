"""Changes to a few nodes of a graph, kept apart from the graph until they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.messages import DataType, NodeDef
from exporters.graph import Graph
from exporters.names import node_of
from exporters.ops import COLOCATION_ATTRIBUTE, COLOCATION_PREFIX


class GraphEdits:
    """What of a graph is changed, removed and added.

    Attributes:
      changed: name -> the node as it is to be; the graph's own is not touched.
      removed: names of nodes that go.
      added: nodes that the graph does not have, in order.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.changed: dict[str, NodeDef] = {}
        self.removed: set[str] = set()
        self.added: dict[str, NodeDef] = {}
        self._numbers: dict[str, int] = {}

    def node(self, name: str) -> NodeDef:
        """A node as it is to be; not to be changed."""
        if name in self.changed:
            return self.changed[name]
        return self.added[name] if name in self.added else self._graph.node(name)

    def original(self, name: str) -> NodeDef:
        """A node as the graph has it; not to be changed."""
        return self._graph.node(name)

    def edit(self, name: str) -> NodeDef:
        """A node to be changed."""
        if name in self.added:
            return self.added[name]
        if name not in self.changed:
            self.changed[name] = NodeDef()
            self.changed[name].CopyFrom(self._graph.node(name))
            # Shapes of outputs that may be others now; TensorFlow infers them anew.
            self.changed[name].attr.pop("_output_shapes", None)
        return self.changed[name]

    def add(self, op: str, hint: str, inputs: Iterable[str] = (), device: str = "") -> NodeDef:
        """A new node; its name is `hint`, with a number where that is taken."""
        # From the last number that was given on: thousands of nodes go by one hint.
        count = self._numbers.get(hint, 0)
        name = f"{hint}_{count}" if count else hint
        while name in self._graph.nodes or name in self.added:
            count += 1
            name = f"{hint}_{count}"
        self._numbers[hint] = count
        self.added[name] = NodeDef(name=name, op=op, input=inputs, device=device)
        return self.added[name]

    def has_node(self, name: str) -> bool:
        """Whether a node of that name is there when all is done."""
        return name in self.added or (name in self._graph.nodes and name not in self.removed)

    def set_inputs(self, name: str, inputs: list[str]) -> None:
        """Gives a node other inputs; one that has them already is not touched."""
        if list(self.node(name).input) != inputs:
            node = self.edit(name)
            del node.input[:]
            node.input.extend(inputs)

    @property
    def users(self) -> dict[str, list[str]]:
        """Node of the graph -> the nodes that take it as an input of any kind."""
        return self._graph.users

    def dangling(self) -> list[str]:
        """Nodes that would take, or be placed with, a node that is removed."""
        found = []
        for used in self.removed:
            for name in self.users.get(used, ()):
                if self.has_node(name) and used in map(node_of, self.node(name).input):
                    found.append(f"{name} takes {used}")
        places = {COLOCATION_PREFIX + name.encode("utf-8"): name for name in self.removed}
        if places:
            for node in self._graph.graph_def.node:
                if COLOCATION_ATTRIBUTE in node.attr and self.has_node(node.name):
                    for entry in self.node(node.name).attr[COLOCATION_ATTRIBUTE].list.s:
                        if entry in places:
                            found.append(f"{node.name} is placed with {places[entry]}")
        return sorted(found)


def set_texts(node: NodeDef, values: list[bytes], is_scalar: bool = False) -> None:
    """Makes a node a constant of strings: one row, or a single one."""
    tensor = _scalar(node, DataType.DT_STRING)
    if not is_scalar:
        tensor.tensor_shape.dim.add(size=len(values))
    tensor.string_val.extend(values)


def set_integer(node: NodeDef, value: int) -> None:
    """Makes a node a constant of one int32."""
    _scalar(node, DataType.DT_INT32).int_val.append(value)


def _scalar(node: NodeDef, dtype: int) -> Any:
    """Makes a node a constant without dimensions; returns its tensor, which is to get a value."""
    node.op = "Const"
    del node.input[:]
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.Clear()
    tensor.dtype = dtype
    tensor.tensor_shape.SetInParent()
    return tensor
