"""Makes up for what 8-bit weights do to the means of a net's values.

Rounding a filter to 8 bits moves the mean of each of its outputs, and the moves add up from
layer to layer. How far is known from the means of a layer's inputs, so the bias takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkpoints.errors import counted
from checkpoints.messages import DataType, GraphDef
from exporters.freezing import FrozenGraph
from exporters.graph import Graph
from exporters.names import node_of
from exporters.rewrites.affine import CONVOLUTIONS, is_channels_first
from exporters.rewrites.fold_constants import constant_node, known_constant
from exporters.runtime import GraphRunner
from exporters.values import Array

_STEPS = 127
"""A weight is one of -127 to 127 steps of its output channel."""

_AXES_NODE = "slimtune/mean_axes"
_MEAN_SUFFIX = "/slimtune_mean"


@dataclass(frozen=True)
class _Convolution:
    """A convolution whose bias can take a correction.

    Attributes:
      node: its node.
      source: the tensor it reads, as a reference.
      filter: the node of its filter, float32 HWIO, or [height, width, in, multiplier].
      bias: the node of its bias, float32 [out].
      is_depthwise: which of the two.
    """

    node: str
    source: str
    filter: str
    bias: str
    is_depthwise: bool


def correct_biases(
    frozen: FrozenGraph, batches: Sequence[Array], trust: bool = False
) -> FrozenGraph:
    """Rounds filters to 8 bits and corrects the biases behind them.

    Args:
      frozen: an optimised graph, without variables; [batch, height, width, channels].
      batches: inputs of the kind the net will see; their first dimension fits the graph.
      trust: whether ops that reach files, the network or Python are run.

    Returns:
      A graph of the same nodes; its filters are float32 still, and 8 bits hold them exactly.

    Source:
      Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias Correction,
      section 4.2, with means measured on pictures; weights as in TensorFlow Lite's 8-bit
      quantization specification: symmetric, a scale for each output channel.
    """
    found = _convolutions(frozen.graph)
    if not found:
        return frozen
    means = _input_means(frozen, found, batches, trust)
    replaced = {}
    for convolution, mean in zip(found, means, strict=True):
        weights = known_constant(frozen.graph, convolution.filter)
        bias = known_constant(frozen.graph, convolution.bias)
        if weights is None or bias is None:
            continue
        rounded = round_to_bytes(weights, convolution.is_depthwise)
        moved = (rounded.astype(np.float64) - weights).sum(axis=(0, 1))
        if convolution.is_depthwise:
            shift = (moved * mean[:, None]).reshape(-1)
        else:
            shift = mean @ moved
        replaced[convolution.filter] = constant_node(convolution.filter, rounded)
        corrected = (bias - shift).astype(bias.dtype)
        replaced[convolution.bias] = constant_node(convolution.bias, corrected)
    changed = GraphDef()
    changed.node.extend(replaced.get(name, node) for name, node in frozen.graph.nodes.items())
    changed.library.CopyFrom(frozen.graph.graph_def.library)
    changed.versions.CopyFrom(frozen.graph.graph_def.versions)
    graph = Graph(changed, "graph-def", frozen.graph.path, frozen.graph.meta_graph)
    said = f"The bias of {counted(len(found), 'convolution')} was corrected for 8-bit filters."
    return replace(frozen, source=graph, graph=graph, said=(*frozen.said, said))


def round_to_bytes(weights: Array, is_depthwise: bool) -> Array:
    """A filter as 8 bits hold it: symmetric, a scale for each output channel.

    Args:
      weights: float32 [height, width, in, out], depthwise [height, width, in, multiplier].
      is_depthwise: which of the two.
    """
    axes = (0, 1) if is_depthwise else (0, 1, 2)
    scale = np.abs(weights).max(axis=axes, keepdims=True) / _STEPS
    scale = np.where(scale == 0, 1, scale)
    return np.asarray(np.round(weights / scale) * scale, weights.dtype)


def _convolutions(graph: Graph) -> list[_Convolution]:
    """Convolutions with a filter of their own and a bias of its own behind them."""
    found = []
    for name, node in graph.nodes.items():
        if node.op not in CONVOLUTIONS or is_channels_first(node) or len(node.input) != 2:
            continue
        readers = graph.consumers.get(name, [])
        weights = node_of(node.input[1])
        if len(readers) != 1 or graph.consumers.get(weights) != [name]:
            continue
        adder = graph.nodes[readers[0]]
        if adder.op != "BiasAdd" or node_of(adder.input[0]) != name:
            continue
        bias = node_of(adder.input[1])
        values = known_constant(graph, weights), known_constant(graph, bias)
        if graph.consumers.get(bias) != [adder.name] or any(
            value is None or value.dtype != np.float32 for value in values
        ):
            continue
        is_depthwise = node.op != "Conv2D"
        found.append(_Convolution(name, node.input[0], weights, bias, is_depthwise))
    return found


def _input_means(
    frozen: FrozenGraph, found: list[_Convolution], batches: Iterable[Array], trust: bool
) -> list[Array]:
    """For each convolution the mean of what it reads, float64 [in], over all pictures and places."""
    with_means = GraphDef()
    with_means.CopyFrom(frozen.graph.graph_def)
    with_means.node.append(constant_node(_AXES_NODE, np.array([0, 1, 2], np.int32)))
    for convolution in found:
        mean = with_means.node.add(name=convolution.node + _MEAN_SUFFIX, op="Mean")
        mean.input.extend((convolution.source, _AXES_NODE))
        mean.attr["T"].type = DataType.DT_FLOAT
        mean.attr["Tidx"].type = DataType.DT_INT32
        mean.attr["keep_dims"].b = False
    totals: list[Array] = [np.zeros(1) for _ in found]
    count = 0
    outputs = [convolution.node + _MEAN_SUFFIX for convolution in found]
    with GraphRunner(with_means, list(map(str, frozen.inputs)), outputs, trust=trust) as runner:
        for batch in batches:
            for place, mean in enumerate(runner.run(batch)):
                totals[place] = totals[place] + mean.astype(np.float64) * len(batch)
            count += len(batch)
    return [total / max(count, 1) for total in totals]
