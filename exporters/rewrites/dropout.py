"""Takes dropout out: its output becomes its input.

Dropout multiplies by a mask of zeros and ones and scales by one over the share of ones, so that
the mean stays. How frameworks write this has changed often: floor(keep_prob + noise), a
comparison that is cast, a choice between value and zero; the scale before or behind the mask. So
the mask is evaluated: with noise that takes every value from 0 to 1 it has to be zeros and ones,
and scale times their share has to be 1.

Source:
  Srivastava et al. 2014; tf.nn.dropout of TensorFlow 0.5 to 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import counted
from checkpoints.messages import NodeDef
from exporters.constants import Array
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS
from exporters.moving_averages import variable_behind
from exporters.names import TensorName
from exporters.rewrites.draft import Draft

NOISE = frozenset({"RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2"})
"""Ops that draw floats from 0 to 1, evenly."""

_MASKING = frozenset(
    {
        "Add",
        "AddV2",
        "Cast",
        "Ceil",
        "Div",
        "Enter",
        "Floor",
        "Greater",
        "GreaterEqual",
        "Identity",
        "Less",
        "LessEqual",
        "LogicalNot",
        "Mul",
        "Neg",
        "RealDiv",
        "Reciprocal",
        "Round",
        "Select",
        "SelectV2",
        "StopGradient",
        "Sub",
        "Switch",
    }
)
"""Ops that make a mask of noise, or apply it."""

_CHOICES = frozenset({"Select", "SelectV2"})
_DIVISIONS = frozenset({"Div", "RealDiv"})
_PROBES = (0.37, 0.81)
"""Values that an unknown keep_prob is tried with; what holds for both holds for all."""

_LEVELS = {"bfloat16": 1 << 7, "float16": 1 << 10}
"""Into how many levels noise of a dtype is cut, where it holds fewer than float32's."""

_MOST_LEVELS = 1 << 12


class _Mask(NamedTuple):
    """A mask and where it is applied.

    Attributes:
      node: the Mul or the choice that applies it.
      masked: the tensor it is applied to.
      shares: how much of a value stays in the mean, for each probe.
      is_idle: whether it lets everything through as it is.
      tolerance: how far the shares may be from the truth.
    """

    node: str
    masked: TensorName
    shares: tuple[float, ...]
    is_idle: bool
    tolerance: float


def remove_dropout(draft: Draft) -> Draft:
    """Leads the readers of every dropout to what dropout was applied to.

    Masks of another kind, and noise that is added, stay.
    """
    dropouts = _Dropouts(draft.graph)
    changes = draft.changes()
    removed = 0
    idle = True
    for mask in dropouts.masks():
        whole = dropouts.whole(mask)
        if whole is not None:
            changes.lead(*whole)
            removed += 1
            idle = idle and mask.is_idle
    if not removed:
        return draft
    changed = draft.changed(changes, f"{counted(removed, 'dropout')} taken out.")
    return replace(changed, is_faithful=changed.is_faithful and idle)


def placeholders_of_dropout(graph: Graph) -> frozenset[str]:
    """The placeholders that masks are made of: keep_prob and its like, whatever their names."""
    waiting: list[str] = []
    for mask in _Dropouts(graph).masks():
        inputs = graph.data_inputs(mask.node)
        waiting += [tensor.node for tensor in inputs if tensor != mask.masked]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        node = graph.nodes[name]
        # Behind the noise lies its shape, which is that of the data.
        if name not in seen and node.op not in NOISE:
            seen.add(name)
            waiting.extend(tensor.node for tensor in graph.data_inputs(name))
    return frozenset(name for name in seen if graph.nodes[name].op in PLACEHOLDERS)


class _Dropouts:
    """The dropouts of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._scalars = [Evaluator(graph, assumed=self._assume(probe)) for probe in _PROBES]

    def masks(self) -> list[_Mask]:
        """Every place where a mask that is made of noise is applied to something else."""
        found: dict[str, _Mask] = {}
        for node in self._graph.nodes.values():
            if node.op in NOISE and "dtype" in node.attr and node.attr["dtype"].type:
                for mask in self._masks_of(node):
                    found.setdefault(mask.node, mask)
        return list(found.values())

    def whole(self, mask: _Mask) -> tuple[TensorName, TensorName] | None:
        """Output and input of the dropout that a mask belongs to; None where the mean changes."""
        output = TensorName(mask.node)
        scaled = self._unscaled(mask.masked)
        if scaled is not None and self._keeps_mean(mask, scaled[1]):
            return output, scaled[0]
        if self._keeps_mean(mask, (1.0,) * len(_PROBES)):
            return output, mask.masked
        readers = self._graph.consumers.get(mask.node, ())
        if len(readers) == 1:
            scaled = self._unscaled(TensorName(readers[0]))
            if scaled is not None and scaled[0] == output and self._keeps_mean(mask, scaled[1]):
                return TensorName(readers[0]), mask.masked
        return None

    def _masks_of(self, noise: NodeDef) -> list[_Mask]:
        dtype = dtypes.of_number(noise.attr["dtype"].type)
        levels = _LEVELS.get(dtype.name, _MOST_LEVELS)
        samples = (np.arange(levels) / levels).astype(dtype.numpy)
        evaluators = [
            Evaluator(self._graph, {TensorName(noise.name): samples}, assumed=self._assume(probe))
            for probe in _PROBES
        ]
        made = {noise.name}
        waiting = [noise.name]
        found = []
        while waiting:
            for name in self._graph.consumers.get(waiting.pop(), ()):
                node = self._graph.nodes[name]
                if name in made or node.op not in _MASKING:
                    continue
                applied = self._applied(node, made, evaluators)
                if applied is None:
                    made.add(name)
                    waiting.append(name)
                    continue
                mask = _mask(name, *applied, 1.5 / levels)
                found += [] if mask is None else [mask]
        return found

    def _applied(
        self, node: NodeDef, made: set[str], evaluators: list[Evaluator]
    ) -> tuple[TensorName, list[Array | None]] | None:
        """What a node applies a mask to, and that mask for each probe.

        None where the node still belongs to the making of a mask.
        """
        inputs = self._graph.data_inputs(node.name)
        others = [tensor for tensor in inputs if tensor.node not in made]
        if node.op == "Mul" and len(others) == 1 and not self._is_scalar(others[0]):
            mask = next(tensor for tensor in inputs if tensor.node in made)
            return others[0], [evaluator.value(mask) for evaluator in evaluators]
        if node.op in _CHOICES and len(others) == 2 and inputs[0].node in made:
            zeros = [self._is_zero(tensor) for tensor in others]
            if zeros.count(True) == 1:
                values = [evaluator.value(inputs[0]) for evaluator in evaluators]
                if zeros[0]:
                    values = [None if value is None else ~value for value in values]
                return others[zeros.index(False)], values
        return None

    def _unscaled(self, tensor: TensorName) -> tuple[TensorName, tuple[float, ...]] | None:
        """Of a tensor times or by a scalar: what is scaled, and the factor for each probe."""
        node = self._graph.nodes[tensor.node]
        inputs = self._graph.data_inputs(node.name)
        if node.op == "Mul" and len(inputs) == 2:
            for scalar, other in (inputs, inputs[::-1]):
                if self._is_scalar(scalar):
                    return other, self._factors(scalar)
        if node.op in _DIVISIONS and len(inputs) == 2 and self._is_scalar(inputs[1]):
            factors = self._factors(inputs[1])
            return inputs[0], tuple(1 / factor if factor else 0.0 for factor in factors)
        return None

    def _factors(self, scalar: TensorName) -> tuple[float, ...]:
        return tuple(float(evaluator.scalar(scalar)) for evaluator in self._scalars)

    def _keeps_mean(self, mask: _Mask, scales: tuple[float, ...]) -> bool:
        return all(
            share > 0 and abs(scale * share - 1) <= abs(scale) * mask.tolerance + 1e-3
            for scale, share in zip(scales, mask.shares, strict=True)
        )

    def _is_scalar(self, tensor: TensorName) -> bool:
        value = self._scalars[0].value(tensor)
        return value is not None and value.size == 1 and value.dtype.kind not in "OSUb"

    def _is_zero(self, tensor: TensorName) -> bool:
        if self._graph.nodes[tensor.node].op == "ZerosLike":
            return True
        value = self._scalars[0].value(tensor)
        return value is not None and not value.any()

    def _assume(self, probe: float) -> Callable[[TensorName], Array | None]:
        """Gives scalars that are not known, as placeholders for keep_prob are, a value to try."""

        def assumed(tensor: TensorName) -> Array | None:
            node = self._graph.nodes.get(tensor.node)
            if node is None:
                return None
            shape = self._graph.shape(tensor)
            variable = variable_behind(self._graph, tensor)
            if variable is not None:
                shape = self._graph.shape(TensorName(variable))
            if shape == () or (shape is None and node.op in PLACEHOLDERS):
                return np.array(probe, np.float32)
            return None

        return assumed


def _mask(
    node: str, masked: TensorName, masks: list[Array | None], tolerance: float
) -> _Mask | None:
    """A mask of zeros and one other value for each probe; None where it is something else."""
    shares = []
    is_idle = True
    for mask in masks:
        if mask is None or mask.ndim != 1:
            return None
        numbers = mask.astype(np.float64)
        if len(np.unique(numbers[numbers != 0])) != 1:
            return None
        shares.append(float(numbers.mean()))
        is_idle = is_idle and bool(np.all(numbers == 1))
    return _Mask(node, masked, tuple(shares), is_idle, tolerance)
