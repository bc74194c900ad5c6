"""Which variable keeps the moving average of which tensor, told from the assignments of a graph.

An update is a linear form of the variable's own value and of what is averaged. Frameworks write
it in many ways: `v -= (v - x) * 0.1`, `v = 0.9 * v + 0.1 * x`, a quotient where the zero at the
start is taken out of the average, or a new value that batch norm itself computes.
"""

from __future__ import annotations

from typing import NamedTuple

from checkpoints.messages import NodeDef
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.names import TensorName, is_control
from exporters.ops import VARIABLES, is_assignment

_PASSES = frozenset(
    {
        "Cast",
        "Enter",
        "Identity",
        "PreventGradient",
        "RefIdentity",
        "RefSwitch",
        "Snapshot",
        "StopGradient",
        "Switch",
    }
)
_READS = _PASSES | {"ReadVariableOp"}
_ADDS = frozenset({"Add", "AddN", "AddV2"})
_DIVIDES = frozenset({"Div", "DivNoNan", "RealDiv"})
_SELECTS = frozenset({"Select", "SelectV2"})
_MAX_DEPTH = 32
_TOLERANCE = 1e-3


class _Form(NamedTuple):
    """Tensor -> its factor, None where that is a scalar that is not known."""

    factors: dict[TensorName, float | None]


class MovingAverages:
    """The moving averages that the assignments of a graph keep."""

    def __init__(self, graph: Graph) -> None:
        """Looks at every assignment of the graph."""
        self._graph = graph
        self._evaluator = Evaluator(graph)
        self._kept: dict[TensorName, list[str]] = {}
        quotients: dict[str, list[str]] = {}
        for node in graph.nodes.values():
            if not is_assignment(node.op):
                continue
            inputs = graph.data_inputs(node.name)
            variable = variable_behind(graph, inputs[0]) if len(inputs) > 1 else None
            if variable is None:
                continue
            averaged, is_quotient = self._averaged(node, inputs[1], variable)
            if averaged is None:
                continue
            if is_quotient:
                source = variable_behind(graph, averaged)
                if source is not None and source != variable:
                    quotients.setdefault(source, []).append(variable)
            elif variable_behind(graph, averaged) is None:
                self._kept.setdefault(averaged, []).append(variable)
        for tensor, variables in self._kept.items():
            # The average that starts at zero is of use only divided by what it lacks.
            self._kept[tensor] = [
                final for variable in variables for final in quotients.get(variable, [variable])
            ]

    @property
    def averaged(self) -> dict[TensorName, str]:
        """Tensor -> the node of the one variable that keeps its moving average."""
        return {
            tensor: variables[0]
            for tensor, variables in self._kept.items()
            if len(set(variables)) == 1
        }

    def of(self, tensor: TensorName) -> str | None:
        """The variable that keeps a tensor's moving average; None where there is not just one."""
        return self.averaged.get(tensor)

    def _averaged(
        self, node: NodeDef, value: TensorName, variable: str
    ) -> tuple[TensorName | None, bool]:
        """What an assignment averages, and whether it replaces the variable by a multiple of it."""
        form = self._form(value, variable, _MAX_DEPTH)
        if form is None:
            return None, False
        own = TensorName(variable)
        factors = dict(form.factors)
        if "Add" in node.op or "Sub" in node.op:
            sign = -1.0 if "Sub" in node.op else 1.0
            factors = {tensor: None if f is None else sign * f for tensor, f in factors.items()}
            before = factors.get(own, 0.0)
            factors[own] = None if before is None else 1.0 + before
        remains = factors.pop(own, 0.0)
        others = [tensor for tensor, factor in factors.items() if factor != 0.0]
        if len(others) != 1:
            return None, False
        share = factors[others[0]]
        if remains is not None and abs(remains) < _TOLERANCE and (share is None or share != 1.0):
            return others[0], True
        if remains is not None and not 0 <= remains < 1 + _TOLERANCE:
            return None, False
        if share is not None and not 0 < share < 1 + _TOLERANCE:
            return None, False
        if remains is not None and share is not None and abs(remains + share - 1) > _TOLERANCE:
            return None, False
        return others[0], False

    def _form(self, tensor: TensorName, variable: str, depth: int) -> _Form | None:
        """A tensor as a sum of multiples of others; of itself alone where it is no such sum."""
        node = self._graph.nodes.get(tensor.node)
        if node is None:
            return None
        if variable_behind(self._graph, tensor) == variable:
            return _Form({TensorName(variable): 1.0})
        itself = _Form({tensor: 1.0})
        if depth == 0 or tensor.output_index:
            return itself
        inputs = self._graph.data_inputs(node.name)
        if node.op in _PASSES and inputs:
            return self._form(inputs[0], variable, depth - 1)
        if node.op in _ADDS or node.op == "Sub" or node.op == "Neg":
            forms = [self._form(read, variable, depth - 1) for read in inputs]
            signs = [1.0] * len(forms)
            if node.op == "Neg":
                signs = [-1.0]
            elif node.op == "Sub":
                signs = [1.0, -1.0]
            return _sum(forms, signs)
        if node.op == "Mul" and len(inputs) == 2:
            for scalar, other in (inputs, inputs[::-1]):
                if self._is_scalar(scalar, depth):
                    return self._scaled(other, scalar, variable, depth, inverse=False)
        if node.op in _DIVIDES and len(inputs) == 2 and self._is_scalar(inputs[1], depth):
            return self._scaled(inputs[0], inputs[1], variable, depth, inverse=True)
        if node.op in _SELECTS and len(inputs) == 3:
            # A batch of no pictures changes nothing.
            moving = [read for read in inputs[1:] if not self._is_zero(read)]
            if len(moving) == 1:
                return self._form(moving[0], variable, depth - 1)
        return itself

    def _scaled(
        self, tensor: TensorName, scalar: TensorName, variable: str, depth: int, inverse: bool
    ) -> _Form | None:
        form = self._form(tensor, variable, depth - 1)
        if form is None:
            return None
        value = self._evaluator.scalar(scalar)
        if value is not None and inverse:
            value = 1 / value if value else None
        return _Form(
            {
                read: None if factor is None or value is None else factor * float(value)
                for read, factor in form.factors.items()
            }
        )

    def _is_scalar(self, tensor: TensorName, depth: int) -> bool:
        value = self._evaluator.value(tensor)
        if value is not None:
            return value.size == 1
        shape = self._graph.shape(tensor)
        if shape is not None:
            return shape == ()
        node = self._graph.nodes.get(tensor.node)
        if node is None or depth == 0:
            return False
        inputs = self._graph.data_inputs(node.name)
        if node.op in VARIABLES or not inputs or is_assignment(node.op):
            variable = variable_behind(self._graph, tensor)
            return variable is not None and self._graph.shape(TensorName(variable)) == ()
        if node.op not in _READS | _ADDS | _DIVIDES | {"Mul", "Pow", "Sub", "Minimum", "Maximum"}:
            return False
        return all(self._is_scalar(read, depth - 1) for read in inputs)

    def _is_zero(self, tensor: TensorName) -> bool:
        node = self._graph.nodes.get(tensor.node)
        if node is not None and node.op == "ZerosLike":
            return True
        value = self._evaluator.value(tensor)
        return value is not None and value.dtype.kind == "f" and not value.any()


def variable_behind(graph: Graph, tensor: TensorName) -> str | None:
    """The variable that a tensor is the value, the reference or the handle of; None for others.

    The output of an assignment by reference counts as the variable.
    """
    seen: set[str] = set()
    while True:
        node = graph.nodes.get(tensor.node)
        if node is None or node.name in seen:
            return None
        seen.add(node.name)
        if node.op in VARIABLES:
            return str(node.name)
        inputs = [reference for reference in node.input if not is_control(reference)]
        if not inputs or (node.op not in _READS and not is_assignment(node.op)):
            return None
        tensor = graph.data_inputs(node.name)[0]


def _sum(forms: list[_Form | None], signs: list[float]) -> _Form | None:
    total: dict[TensorName, float | None] = {}
    for form, sign in zip(forms, signs, strict=True):
        if form is None:
            return None
        for tensor, factor in form.factors.items():
            before = total.get(tensor, 0.0)
            total[tensor] = None if factor is None or before is None else before + sign * factor
    return _Form(total)
