"""Changes to one graph, collected and then made at once."""

from __future__ import annotations

from collections.abc import Iterable

from checkpoints.messages import GraphDef, NodeDef
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of, reference_to, tensor_of


class Changes:
    """Nodes put in the place of others, nodes that go, tensors whose readers are led to others.

    The graph itself is not touched.
    """

    def __init__(self, graph: Graph, kept: Iterable[TensorName] = ()) -> None:
        """Begins without any change.

        Args:
          graph: the graph.
          kept: tensors that are to be found under their names afterwards: outputs, and where
            the graph will be cut. An Identity stands there for what they were led to.
        """
        self._graph = graph
        self._kept = tuple(dict.fromkeys(kept))
        self._put: dict[str, NodeDef] = {}
        self._led: dict[TensorName, TensorName] = {}
        self._dropped: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._put or self._led or self._dropped)

    def put(self, node: NodeDef) -> None:
        """Adds a node, in the place of the one of its name where there is one."""
        self._put[node.name] = node

    def lead(self, tensor: TensorName, to: TensorName) -> None:
        """Lets the readers of a tensor read another one; a tensor to itself changes nothing."""
        if tensor != to:
            self._led[tensor] = to

    def drop(self, name: str, awaited: Iterable[str] = ()) -> None:
        """Takes a node out.

        Args:
          name: the node; all that reads its outputs is led elsewhere, or goes too.
          awaited: nodes that those wait for who waited for it.
        """
        self._dropped[name] = tuple(awaited)

    def new_name(self, hint: str) -> str:
        """A name no node has: the hint, with a number where that is taken."""
        name, count = hint, 0
        while name in self._graph.nodes or name in self._put:
            count += 1
            name = f"{hint}_{count}"
        return name

    def followed(self, tensor: TensorName) -> TensorName:
        """Where the readers of a tensor are led to, at last."""
        seen = {tensor}
        while tensor in self._led and self._led[tensor] not in seen:
            tensor = self._led[tensor]
            seen.add(tensor)
        return tensor

    def applied(self) -> Graph:
        """The changed graph; the old one where nothing was changed.

        Tensors that are kept and were led elsewhere are output 0 of an Identity of their node's
        name; `renamed` says where others are now.
        """
        if not self:
            return self._graph
        self._stand_in_for_kept()
        changed = GraphDef()
        names = self._graph.nodes.keys()
        changed.node.extend(
            self._put.get(name, node)
            for name, node in self._graph.nodes.items()
            if name not in self._dropped
        )
        changed.node.extend(
            node
            for name, node in self._put.items()
            if name not in names and name not in self._dropped
        )
        for node in changed.node:
            references = self._references(node)
            if references != list(node.input):
                node.input[:] = references
        changed.versions.CopyFrom(self._graph.graph_def.versions)
        changed.library.CopyFrom(self._graph.graph_def.library)
        return Graph(changed, self._graph.kind, self._graph.path, self._graph.meta_graph)

    def renamed(self, tensor: TensorName) -> TensorName:
        """Where a tensor that is kept is found in the changed graph."""
        return tensor if tensor.output_index == 0 else self.followed(tensor)

    def _stand_in_for_kept(self) -> None:
        for tensor in self._kept:
            target = self.followed(tensor)
            if target == tensor or tensor.output_index:
                continue
            stand_in = NodeDef(name=tensor.node, op="Identity", input=[reference_to(target)])
            stand_in.attr["T"].type = self._dtype(tensor) or self._dtype(target) or 0
            del self._led[tensor]
            self._dropped.pop(tensor.node, None)
            self._put[tensor.node] = stand_in

    def _dtype(self, tensor: TensorName) -> int | None:
        node = self._put.get(tensor.node)
        if node is None:
            return self._graph.dtype(tensor)
        for attribute in ("dtype", "T"):
            if attribute in node.attr:
                return int(node.attr[attribute].type)
        return None

    def _references(self, node: NodeDef) -> list[str]:
        data: list[str] = []
        control: dict[str, None] = {}
        for reference in node.input:
            if is_control(reference):
                for name in self._awaited(node_of(reference)):
                    if name != node.name:
                        control[f"^{name}"] = None
            else:
                tensor = tensor_of(reference)
                target = self.followed(tensor)
                data.append(reference if target == tensor else reference_to(target))
        return data + list(control)

    def _awaited(self, name: str) -> list[str]:
        """The nodes to wait for where `name` was waited for."""
        if name not in self._dropped:
            return [name]
        found: list[str] = []
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self._dropped:
                waiting.extend(self._dropped[current])
            else:
                found.append(current)
        return found
