"""What a placeholder of one value is for: to choose between branches, or how much dropout drops."""

from __future__ import annotations

from functools import cached_property

from checkpoints.messages import NodeDef
from exporters.graph import Graph
from exporters.inspecting.training_ops import has_training_nodes
from exporters.rewrites.dropout import placeholders_of_dropout
from exporters.rewrites.prune import called_functions

_PREDICATES = {
    "Case": 0,
    "If": 0,
    "RefSwitch": 1,
    "Select": 0,
    "SelectV2": 0,
    "StatelessCase": 0,
    "StatelessIf": 0,
    "Switch": 1,
}
"""Op that chooses -> the input that it chooses by."""

_LOGIC = frozenset(
    {
        "All",
        "Any",
        "Cast",
        "Enter",
        "Equal",
        "Greater",
        "GreaterEqual",
        "Identity",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "Merge",
        "NotEqual",
        "PlaceholderWithDefault",
        "Reshape",
        "Select",
        "SelectV2",
        "Squeeze",
        "StopGradient",
        "Switch",
    }
)
"""Ops between a setting and what it decides on."""


class SettingUses:
    """How the placeholders of one graph are used."""

    def __init__(self, graph: Graph) -> None:
        """Looks at nothing yet."""
        self._graph = graph

    def chooses(self, name: str) -> bool:
        """Whether a conditional decides by a placeholder, or by what logic makes of it."""
        return self._reaches(name, with_calls=False)

    def drops(self, name: str) -> bool:
        """Whether a placeholder says how much a dropout lets through."""
        return name in self._of_dropout

    def is_setting(self, name: str) -> bool:
        """Whether a placeholder does either, be it in a function that trains or chooses."""
        return self.drops(name) or self._reaches(name, with_calls=True)

    @cached_property
    def _of_dropout(self) -> frozenset[str]:
        return placeholders_of_dropout(self._graph)

    def _reaches(self, start: str, with_calls: bool) -> bool:
        seen = {start}
        waiting = [start]
        while waiting:
            current = waiting.pop()
            for name in self._graph.consumers.get(current, ()):
                node = self._graph.nodes[name]
                inputs = self._graph.data_inputs(name)
                place = _PREDICATES.get(node.op, len(inputs))
                if place < len(inputs) and inputs[place].node == current:
                    return True
                if with_calls and self._is_call(node):
                    return True
                if node.op in _LOGIC and name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return False

    def _is_call(self, node: NodeDef) -> bool:
        """Whether a node calls a function in which something is chosen, or belongs to training."""
        return any(
            has_training_nodes(function)
            or any(inner.op in _PREDICATES for inner in function.node_def)
            for function in called_functions(self._graph, [node])
        )
