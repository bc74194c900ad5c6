"""Finds what multiplies and shifts a tensor channel by channel: batch norm in evaluation mode."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from checkpoints.messages import NodeDef
from exporters.constants import Array
from exporters.graph import Graph
from exporters.names import is_control, node_of, tensor_of
from exporters.rewrites.fold_constants import known_constant

FUSED_BATCH_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
FIRST_BATCH_NORM = "BatchNormWithGlobalNormalization"
"""The op that batch norm was before it was fused: in graphs of 2015."""

ADDS = frozenset({"Add", "AddV2", "BiasAdd"})
CONVOLUTIONS = frozenset({"Conv2D", "DepthwiseConv2dNative"})
SHAPERS = frozenset({"BatchToSpaceND", "Reshape"})
"""Ops that may move values about and leave each in its channel: the end of a dilated convolution,
and what makes room for a fused batch norm behind a dense layer."""

_SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
"""Ops that read a tensor's shape alone, which folding does not change."""

_EPSILON = 1e-4
"""What FusedBatchNorm takes where its attribute is not written."""


@dataclass(frozen=True)
class Affine:
    """What a batch norm does in evaluation: values * scale + shift, channel by channel.

    Attributes:
      last: the node whose output is the result.
      source: the tensor it is applied to.
      nodes: all of its nodes.
      scale: float64 [channels] or [1].
      shift: float64 [channels] or [1]; None where nothing is added.
      channels_first: whether channels are dimension 1, not the last.
      rank: of the constants, which the layer's output has to have at least.
    """

    last: str
    source: str
    nodes: tuple[str, ...]
    scale: Array
    shift: Array | None
    channels_first: bool
    rank: int = 1


class AffineFinder:
    """Finds the batch norms of one graph.

    Attributes:
      graph: the graph.
      kept: names of nodes whose values stay what they are.
      awaited: names of nodes that others wait for.
    """

    def __init__(self, graph: Graph, kept: Collection[str]) -> None:
        self.graph = graph
        self.kept = kept
        self.awaited = {
            node_of(reference)
            for node in graph.nodes.values()
            for reference in node.input
            if is_control(reference)
        }

    def find(self, node: NodeDef) -> Affine | None:
        """The batch norm, or the multiplication by constants, that begins at a node, or None."""
        if any(map(is_control, node.input)):
            return None
        if node.op in FUSED_BATCH_NORMS:
            return self._fused(node)
        if node.op == FIRST_BATCH_NORM:
            return self._first_form(node)
        if node.op == "Mul":
            return self._multiplied(node)
        return None

    def _fused(self, node: NodeDef) -> Affine | None:
        # The attribute is true where it is not written.
        if "is_training" not in node.attr or node.attr["is_training"].b:
            return None
        if any(
            tensor_of(r).output_index and node_of(r) == node.name
            for reader in self.graph.consumers.get(node.name, ())
            for r in self.graph.nodes[reader].input
        ):
            return None
        scale, offset, mean, variance = (self.constant(node.input[place]) for place in range(1, 5))
        if scale is None or offset is None or mean is None or variance is None:
            return None
        epsilon = node.attr["epsilon"].f if "epsilon" in node.attr else _EPSILON
        multiplier = scale / np.sqrt(variance + epsilon)
        return Affine(
            last=node.name,
            source=node.input[0],
            nodes=(node.name,),
            scale=multiplier,
            shift=offset - mean * multiplier,
            channels_first=is_channels_first(node),
        )

    def _first_form(self, node: NodeDef) -> Affine | None:
        mean, variance, beta, gamma = (self.constant(node.input[place]) for place in range(1, 5))
        if mean is None or variance is None or beta is None or gamma is None:
            return None
        multiplier = 1 / np.sqrt(variance + node.attr["variance_epsilon"].f)
        if node.attr["scale_after_normalization"].b:
            multiplier = multiplier * gamma
        return Affine(
            last=node.name,
            source=node.input[0],
            nodes=(node.name,),
            scale=multiplier,
            shift=beta - mean * multiplier,
            channels_first=False,
        )

    def _multiplied(self, node: NodeDef) -> Affine | None:
        """A multiplication by a constant, and the addition or subtraction of one behind it."""
        scale, source = self.constant_operand(node)
        if scale is None or source is None:
            return None
        channels_first = self._comes_channels_first(source)
        per_channel = _per_channel(scale, channels_first)
        if per_channel is None:
            return None
        nodes: tuple[str, ...] = (node.name,)
        shift, rank = None, scale.ndim
        reader = self._only_reader(node.name)
        if reader is not None and not any(map(is_control, reader.input)):
            shift, shift_rank = self._added_behind(reader, node.name, channels_first)
            if shift is not None:
                nodes, rank = (node.name, reader.name), max(rank, shift_rank)
        return Affine(
            last=nodes[-1],
            source=source,
            nodes=nodes,
            scale=per_channel,
            shift=shift,
            channels_first=channels_first,
            rank=rank,
        )

    def _added_behind(
        self, node: NodeDef, name: str, channels_first: bool
    ) -> tuple[Array | None, int]:
        """The constant that a node adds to another one's output, as [channels], and its rank."""
        added, _ = self.constant_operand(node)
        if added is None:
            return None, 0
        if node.op == "Sub" and node_of(node.input[0]) == name:
            added = -added
        elif node.op not in ADDS:
            return None, 0
        return self.shift_of(node, added, channels_first), added.ndim

    def shift_of(self, node: NodeDef, added: Array, channels_first: bool) -> Array | None:
        """A constant that a node adds, as [channels] or [1]; None where it is something else."""
        if node.op == "BiasAdd":
            return added if is_channels_first(node) == channels_first else None
        return _per_channel(added, channels_first)

    def count_readers(self, name: str) -> int:
        """How many edges lead away from a node, control edges as one, those to its shape as none."""
        count = 0
        for reader in self.graph.consumers.get(name, ()):
            node = self.graph.nodes[reader]
            if node.op not in _SHAPES:
                count += sum(not is_control(r) and node_of(r) == name for r in node.input)
        return count + (name in self.awaited)

    def _only_reader(self, name: str) -> NodeDef | None:
        readers = [
            reader
            for reader in self.graph.consumers.get(name, ())
            if self.graph.nodes[reader].op not in _SHAPES
        ]
        if len(readers) != 1 or self.count_readers(name) != 1 or name in self.kept:
            return None
        return self.graph.nodes[readers[0]]

    def constant(self, reference: str) -> Array | None:
        """A constant of floats as float64, or None."""
        tensor = tensor_of(reference)
        if tensor.output_index or is_control(reference):
            return None
        value = known_constant(self.graph, tensor.node)
        return value.astype(np.float64) if value is not None and value.dtype.kind == "f" else None

    def constant_operand(self, node: NodeDef) -> tuple[Array | None, str | None]:
        """Of two operands the constant one, and what the other reads."""
        if len(node.input) != 2:
            return None, None
        first, second = node.input
        constant = self.constant(second)
        if constant is not None:
            return constant, first
        if node.op == "BiasAdd":
            return None, None
        return self.constant(first), second

    def _comes_channels_first(self, reference: str) -> bool:
        node = self.graph.node(node_of(reference))
        for _ in range(len(ADDS)):
            if node.op in CONVOLUTIONS or node.op == "BiasAdd" or not len(node.input):
                break
            if node.op not in ADDS | SHAPERS:
                break
            node = self.graph.node(node_of(node.input[0]))
        return node.op in (*CONVOLUTIONS, "BiasAdd") and is_channels_first(node)


def is_channels_first(node: NodeDef) -> bool:
    """Whether a node holds channels in dimension 1 (NCHW), not in the last."""
    return "data_format" in node.attr and node.attr["data_format"].s == b"NCHW"


def _per_channel(value: Array, channels_first: bool) -> Array | None:
    """[channels] or [1] of a constant that is broadcast over the other dimensions, else None.

    Args:
      value: of any shape; missing leading dimensions count as 1.
      channels_first: whether the channels of [batch, channels, height, width] are meant.
    """
    place = -3 if channels_first else -1
    if value.ndim > 4:
        return None
    sizes = (1,) * (4 - value.ndim) + value.shape
    if any(size != 1 for index, size in enumerate(sizes) if index - 4 != place):
        return None
    return value.reshape(-1)
