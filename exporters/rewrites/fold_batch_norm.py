"""Multiplies each batch norm into the convolution or dense layer before it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from checkpoints.messages import GraphDef, NodeDef
from exporters.constants import Array
from exporters.graph import Graph
from exporters.names import is_control, node_of, tensor_of
from exporters.rewrites.affine import (
    ADDS,
    CONVOLUTIONS,
    FIRST_BATCH_NORM,
    FUSED_BATCH_NORMS,
    SHAPERS,
    Affine,
    AffineFinder,
    is_channels_first,
)
from exporters.rewrites.fold_constants import constant_node, known_constant

_NO_LAYER = "no convolution or dense layer stands before it"


class FoldedBatchNorm(NamedTuple):
    """A graph without the batch norms that could be folded.

    Attributes:
      graph: the new graph; constants that nothing reads any more are still in it.
      folded: how many batch norms, and other multiplications by constants, went.
      left: batch norms that stay, each with the reason.
    """

    graph: Graph
    folded: int
    left: tuple[str, ...]


class _Layer(NamedTuple):
    """What stands before a batch norm.

    Attributes:
      product: the convolution or MatMul.
      shapers: nodes between the two that move values about.
      bias_node: the node between the two that adds a bias, or None.
      bias: its float64 [channels] or [1].
      rank: of the bias as it is written.
    """

    product: NodeDef
    shapers: tuple[NodeDef, ...]
    bias_node: NodeDef | None
    bias: Array | None
    rank: int


class _Product(NamedTuple):
    """How a product's filter holds its output channels.

    Attributes:
      channels: how many.
      scaled: (filter, scale [channels]) -> the filter whose output is scaled.
    """

    channels: int
    scaled: Callable[[Array, Array], Array]


def fold_batch_norm(graph: Graph, kept: Collection[str]) -> FoldedBatchNorm:
    """Multiplies each batch norm into the convolution, depthwise convolution or MatMul before it.

    Fused and unfused forms alike: a multiplication by a constant a channel, and an addition
    behind it. A bias between the two is kept: it is multiplied as well. Left alone are a batch
    norm without such a layer before it, filters that something else reads too, layers whose
    answers something else reads, and batch norm in training mode.

    Args:
      graph: a frozen graph whose constants were folded and whose Identities were taken out;
        filters are [height, width, in, out] (HWIO), depthwise [height, width, in, multiplier].
      kept: names of nodes whose values stay what they are: outputs and inputs.

    Returns:
      A new graph; same inputs and outputs, one BiasAdd where each batch norm stood.

    Source:
      Ioffe and Szegedy 2015, section 3.1; epsilon as in tf.compat.v1.nn.fused_batch_norm.
    """
    folder = _Folder(graph, kept)
    for name in graph.nodes:
        folder.fold(name)
    return folder.result()


class _Folder:
    def __init__(self, graph: Graph, kept: Collection[str]) -> None:
        self._graph = graph
        self._kept = kept
        self._find = AffineFinder(graph, kept)
        self._replaced: dict[str, list[NodeDef]] = {}
        self._removed: set[str] = set()
        self._redirected: dict[str, str] = {}
        self._left: list[str] = []
        self._folded = 0

    def fold(self, name: str) -> None:
        """Folds the batch norm that ends at a node, where one does."""
        node = self._graph.nodes[name]
        if name in self._removed or name in self._replaced:
            return
        affine = self._find.find(node)
        if affine is None:
            return
        reason = self._fold_into_product(affine)
        if reason is None:
            self._folded += 1
        elif node.op in FUSED_BATCH_NORMS or node.op == FIRST_BATCH_NORM:
            self._left.append(f"{name}: {reason}")

    def result(self) -> FoldedBatchNorm:
        """The graph with everything that was folded so far."""
        if not self._folded:
            return FoldedBatchNorm(self._graph, 0, tuple(self._left))
        changed = GraphDef()
        for name, node in self._graph.nodes.items():
            if name in self._replaced:
                changed.node.extend(self._replaced[name])
            elif name not in self._removed:
                changed.node.append(node)
        for node in changed.node:
            for index, reference in enumerate(node.input):
                while not is_control(reference) and node_of(reference) in self._redirected:
                    reference = node.input[index] = self._redirected[node_of(reference)]
        changed.versions.CopyFrom(self._graph.graph_def.versions)
        changed.library.CopyFrom(self._graph.graph_def.library)
        graph = Graph(changed, self._graph.kind, self._graph.path, self._graph.meta_graph)
        return FoldedBatchNorm(graph, self._folded, tuple(self._left))

    def _fold_into_product(self, affine: Affine) -> str | None:
        """Changes the layer before a batch norm; returns why that cannot be done, or None."""
        layer = self._layer_before(affine)
        if isinstance(layer, str):
            return layer
        product, bias, shift = layer.product, layer.bias, affine.shift
        filter_name = node_of(product.input[1])
        weights = known_constant(self._graph, filter_name)
        if weights is None or tensor_of(product.input[1]).output_index:
            return "the filter of the layer before it is not a constant"
        if self._find.count_readers(filter_name) != 1 or filter_name in self._kept:
            return "the filter of the layer before it is read by others too"
        held = _output_channels(product, weights)
        sizes = {value.size for value in (affine.scale, shift, bias) if value is not None}
        if held is None or not sizes <= {1, held.channels}:
            return "the layer before it has another number of channels"
        if not self._keep_channels_apart(layer.shapers, held.channels):
            return "what lies between it and the layer before it mixes channels"
        if product.op == "MatMul" and not layer.shapers and max(affine.rank, layer.rank) > 2:
            return _NO_LAYER
        scale = np.broadcast_to(affine.scale, held.channels)
        scaled = held.scaled(weights.astype(np.float64), scale).astype(weights.dtype)
        self._replaced[filter_name] = [constant_node(filter_name, scaled)]
        total: Array | None = None
        if shift is not None or bias is not None:
            total = np.zeros(held.channels)
            total += 0 if bias is None else bias * scale
            total += 0 if shift is None else shift
            total = total.astype(weights.dtype)
        self._place(affine, layer, total)
        return None

    def _keep_channels_apart(self, shapers: tuple[NodeDef, ...], channels: int) -> bool:
        for node in shapers:
            if node.op == "Reshape":
                shape = known_constant(self._graph, node_of(node.input[1]))
                if shape is None or not shape.size or shape[-1] != channels:
                    return False
        return True

    def _place(self, affine: Affine, layer: _Layer, bias: Array | None) -> None:
        """Puts one BiasAdd where the batch norm ended; nothing where there is nothing to add."""
        source = affine.source
        self._removed |= set(affine.nodes)
        if layer.bias_node is not None:
            name = layer.bias_node.name
            self._removed.add(name)
            _, before = self._find.constant_operand(layer.bias_node)
            if before is not None:
                self._redirected[name] = before
        # What reads the shape of a value within a batch norm finds the same one before it.
        self._redirected |= dict.fromkeys(affine.nodes[:-1], source)
        dtype = layer.product.attr["T"]
        if bias is None:
            if affine.last in self._kept or affine.last in self._find.awaited:
                identity = NodeDef(name=affine.last, op="Identity", input=[source])
                identity.attr["T"].CopyFrom(dtype)
                self._replaced[affine.last] = [identity]
            else:
                self._redirected[affine.last] = source
            return
        name = self._unused(f"{affine.last}/folded_bias")
        added = NodeDef(name=affine.last, op="BiasAdd", input=[source, name])
        added.attr["T"].CopyFrom(dtype)
        if affine.channels_first:
            added.attr["data_format"].s = b"NCHW"
        self._replaced[affine.last] = [constant_node(name, bias), added]

    def _layer_before(self, affine: Affine) -> _Layer | str:
        """The layer before a batch norm; where there is none that may be changed, the reason."""
        if any(name in self._kept or name in self._find.awaited for name in affine.nodes[:-1]):
            return "something else reads a value within it"
        bias_node: NodeDef | None = None
        bias: Array | None = None
        rank = 1
        shapers: list[NodeDef] = []
        reference = affine.source
        while True:
            node, reason = self._before(reference)
            if node is None:
                return reason
            if node.op in ADDS and bias_node is None:
                added, source = self._find.constant_operand(node)
                bias = (
                    None
                    if added is None
                    else self._find.shift_of(node, added, affine.channels_first)
                )
                if added is None or bias is None or source is None:
                    return _NO_LAYER
                bias_node, rank, reference = node, added.ndim, source
            elif node.op in SHAPERS and not affine.channels_first and not shapers:
                shapers.append(node)
                reference = node.input[0]
            else:
                break
        if node.op not in _PRODUCTS:
            return _NO_LAYER
        if node.op != "MatMul" and is_channels_first(node) != affine.channels_first:
            return "it holds channels in another dimension than the layer before it"
        if node_of(node.input[1]) in self._replaced:
            return "the layer before it was folded already"
        return _Layer(node, tuple(shapers), bias_node, bias, rank)

    def _before(self, reference: str) -> tuple[NodeDef | None, str]:
        """The node before, where nothing else reads it; else None, and why it may not be changed."""
        tensor = tensor_of(reference)
        node = self._graph.node(tensor.node)
        known = node.op in _PRODUCTS | ADDS | SHAPERS
        if tensor.output_index or not known or any(map(is_control, node.input)):
            return None, _NO_LAYER
        if tensor.node in self._removed or tensor.node in self._replaced:
            return None, "the layer before it was folded already"
        if tensor.node in self._kept or self._find.count_readers(tensor.node) != 1:
            return None, "something else reads the layer before it too"
        return node, ""

    def _unused(self, name: str) -> str:
        while name in self._graph.nodes:
            name += "_"
        return name


def _output_channels(product: NodeDef, weights: Array) -> _Product | None:
    if weights.dtype.kind != "f":
        return None
    if product.op == "MatMul":
        if weights.ndim != 2:
            return None
        is_transposed = "transpose_b" in product.attr and product.attr["transpose_b"].b
        if is_transposed:
            return _Product(weights.shape[0], lambda w, scale: w * scale[:, None])
        return _Product(weights.shape[1], lambda w, scale: w * scale)
    if weights.ndim != 4:
        return None
    if product.op == "DepthwiseConv2dNative":
        # Output channel c * multiplier + m comes from input channel c alone.
        return _Product(
            weights.shape[2] * weights.shape[3],
            lambda w, scale: w * scale.reshape(w.shape[2:]),
        )
    return _Product(weights.shape[3], lambda w, scale: w * scale)


_PRODUCTS = CONVOLUTIONS | {"MatMul"}
