"""Shapes of tensors, followed from the inputs through a graph without running it.

Every dimension is a number or unknown. With a batch size that divides no other number of the
graph, a dimension that is a multiple of it is one that grows with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from checkpoints.messages import NodeDef
from exporters.constants import Array
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.names import TensorName
from exporters.shapes.functions import SHAPE_FUNCTIONS
from exporters.shapes.sizes import Shape, ShapeError

ReshapeRepair = Callable[[NodeDef, Shape, Sequence[int]], "Shape | None"]


class ShapeProblem(NamedTuple):
    """A node whose inputs do not go together.

    Attributes:
      node: its name.
      text: what does not go together.
    """

    node: str
    text: str


class ShapeInference:
    """The shapes of one graph for given shapes of its inputs.

    Attributes:
      shapes: tensor -> its shape, as far as it is known.
      problems: nodes whose inputs do not go together, in order.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[TensorName, Shape],
        repair_reshape: ReshapeRepair | None = None,
    ) -> None:
        """Follows the shapes.

        Args:
          graph: a pruned graph; ops that are not known, loops and functions end the following.
          given: shapes of inputs.
          repair_reshape: asked where a Reshape's input does not fit the sizes it is to have;
            returns the shape that it will have, or None where that is a problem.
        """
        self.graph = graph
        self.shapes: dict[TensorName, Shape] = dict(given)
        self.problems: list[ShapeProblem] = []
        self.repair_reshape = repair_reshape
        self.evaluator = Evaluator(graph, shape_of=self.shapes.get)
        for name in _producers_first(graph):
            if TensorName(name) not in given:
                self._follow(graph.nodes[name])

    def value(self, node: NodeDef, place: int) -> Array | None:
        """The value of one input of a node, as far as it follows from constants and shapes."""
        inputs = self.graph.data_inputs(node.name)
        return self.evaluator.value(inputs[place]) if place < len(inputs) else None

    def _follow(self, node: NodeDef) -> None:
        function = SHAPE_FUNCTIONS.get(node.op)
        inputs = [self.shapes.get(tensor) for tensor in self.graph.data_inputs(node.name)]
        try:
            outputs = [] if function is None else function(self, node, inputs)
        except ShapeError as error:
            self.problems.append(ShapeProblem(node.name, error.message))
            return
        except (IndexError, ValueError, TypeError, ZeroDivisionError):
            return
        for index, shape in enumerate(outputs):
            if shape is not None:
                self.shapes[TensorName(node.name, index)] = shape


def _producers_first(graph: Graph) -> list[str]:
    """Nodes after those they read; those in and behind loops are left out."""
    missing = {name: len({read.node for read in graph.data_inputs(name)}) for name in graph.nodes}
    ready = [name for name, count in missing.items() if count == 0]
    order = []
    while ready:
        name = ready.pop()
        order.append(name)
        for reader in graph.consumers.get(name, ()):
            missing[reader] -= 1
            if missing[reader] == 0:
                ready.append(reader)
    return order
