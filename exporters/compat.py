"""Writes a graph so that TensorFlows older than the one at hand read it, with the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from checkpoints.errors import counted, listed
from checkpoints.messages import DataType, GraphDef, NodeDef
from exporters.freezing import FrozenGraph
from exporters.graph import Graph
from exporters.names import node_of, tensor_of
from exporters.optimising import with_constants
from exporters.runtime import load_tensorflow

PRODUCER = 24
"""The graph version of TensorFlow 1.4. Before it a placeholder of shape [] had any shape."""

_LOWERED = {
    "AddV2": "Add",
    "FusedBatchNormV2": "FusedBatchNorm",
    "FusedBatchNormV3": "FusedBatchNorm",
}
"""Op -> the older one that does the same for float32."""

_LOWERED_ONLY = frozenset({"U"})
"""Attributes that the older op does not have, and needs not for float32."""

LATER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "T": ("AdjustContrastv2", "AdjustHue", "AdjustSaturation", "Where"),
    "Tcomplex": ("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"),
    "Tindex": ("MatrixBandPart",),
    "Tindices": ("SparseTensorDenseMatMul",),
    "Tk": ("TopKV2",),
    "Tnumsegments": ("UnsortedSegmentSum",),
    "Tsegmentids": ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"),
    "Truncate": ("Cast",),
    "axis": ("Dequantize", "QuantizeV2"),
    "bad_indices_policy": ("GatherNd", "ScatterNd"),
    "batch_dims": ("GatherV2", "ResourceGather"),
    "data_format": (
        "AvgPool3D",
        "Conv3D",
        "DepthToSpace",
        "DepthwiseConv2dNative",
        "MaxPool3D",
        "SpaceToDepth",
    ),
    "dilations": (
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv3D",
        "Conv3DBackpropInputV2",
        "DepthwiseConv2dNative",
        "QuantizedConv2D",
    ),
    "dtype": ("Dequantize",),
    "explicit_paddings": ("Conv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative", "MaxPool"),
    "exponential_avg_factor": ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
    "grad_a": ("MatMul",),
    "grad_b": ("MatMul",),
    "grad_x": ("BatchMatMul", "BatchMatMulV2"),
    "grad_y": ("BatchMatMul", "BatchMatMulV2"),
    "half_pixel_centers": ("ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor"),
    "identical_element_shapes": ("TensorArrayV3",),
    "include_batch_in_index": ("MaxPoolWithArgmax",),
    "incompatible_shape_error": ("Equal", "NotEqual"),
    "index_type": ("Fill", "TopKV2"),
    "message": ("PreventGradient",),
    "narrow_range": (
        "Dequantize",
        "FakeQuantWithMinMaxArgs",
        "FakeQuantWithMinMaxVars",
        "FakeQuantWithMinMaxVarsPerChannel",
        "QuantizeV2",
    ),
    "noise": ("ExtractGlimpse",),
    "num_bits": (
        "FakeQuantWithMinMaxArgs",
        "FakeQuantWithMinMaxVars",
        "FakeQuantWithMinMaxVarsPerChannel",
    ),
    "output_dtype": ("Multinomial",),
    "output_type": ("ArgMax", "ArgMin"),
    "skip_empty": ("StringSplit",),
    "sparse_gradient": ("SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"),
    "unit": ("Substr",),
}
"""Attribute -> ops that got it after TensorFlow 1.0, as far as a served graph has them."""

_LATER_OPS = frozenset(
    {
        "AddV2",
        "BatchMatMulV2",
        "BatchMatMulV3",
        "Einsum",
        "FusedBatchNormV2",
        "FusedBatchNormV3",
        "GatherV2",
        "LeakyRelu",
        "PartitionedCall",
        "SelectV2",
        "StatefulPartitionedCall",
        "StatelessIf",
        "StatelessWhile",
    }
)
"""Ops that came after TensorFlow 1.0 and are often met."""


def for_older_readers(frozen: FrozenGraph) -> FrozenGraph:
    """Drops attributes that have their op's default value, and takes older ops where they do the same.

    A reader fills in the defaults of attributes that are absent, and refuses attributes that it
    does not know. Defaults are those of TensorFlow's op registry, which never change.

    Args:
      frozen: any frozen graph.

    Returns:
      A frozen graph without variables. What was dropped, and what an older reader may stumble
      over still, stands in `said`.
    """
    constant = with_constants(frozen)
    defaults = _Defaults()
    changed = GraphDef()
    changed.CopyFrom(constant.graph.graph_def)
    read_further = {
        node_of(reference)
        for node in changed.node
        for reference in node.input
        if tensor_of(reference).output_index
    } | {tensor.node for tensor in frozen.outputs if tensor.output_index}
    dropped, lowered = 0, 0
    for prefix, node in _nodes(changed):
        if not prefix and _is_lowered(node, read_further):
            node.op = _LOWERED[node.op]
            for name in _LOWERED_ONLY:
                node.attr.pop(name, None)
            lowered += 1
        for name in defaults.held_by(node):
            del node.attr[name]
            dropped += 1
    changed.versions.producer = min(changed.versions.producer, PRODUCER)
    graph = Graph(changed, "graph-def", constant.graph.path, constant.graph.meta_graph)
    said = [f"For older readers: {counted(dropped, 'attribute')} with default values dropped"]
    said[0] += f", {counted(lowered, 'op')} put in older terms." if lowered else "."
    kept = list(_stumbles(changed))
    if kept:
        said.append(f"An older TensorFlow may not know these:\n{listed(kept)}")
    return replace(constant, source=graph, graph=graph, said=(*frozen.said, *said))


class _Defaults:
    """The default values of attributes, from TensorFlow's op registry."""

    def __init__(self) -> None:
        load_tensorflow()
        from tensorflow.python.framework import op_def_registry

        self._registry = op_def_registry
        self._by_op: dict[str, dict[str, bytes]] = {}

    def held_by(self, node: NodeDef) -> list[str]:
        """Names of a node's attributes whose values are the defaults of its op."""
        defaults = self._of(node.op)
        return [
            name
            for name, value in node.attr.items()
            if name in defaults and value.SerializeToString(deterministic=True) == defaults[name]
        ]

    def _of(self, op: str) -> dict[str, bytes]:
        if op not in self._by_op:
            definition: Any = self._registry.get(op)
            self._by_op[op] = (
                {}
                if definition is None
                else {
                    attribute.name: attribute.default_value.SerializeToString(deterministic=True)
                    for attribute in definition.attr
                    if attribute.HasField("default_value")
                }
            )
        return self._by_op[op]


def _nodes(graph_def: GraphDef) -> Iterator[tuple[str, NodeDef]]:
    for node in graph_def.node:
        yield "", node
    for function in graph_def.library.function:
        for node in function.node_def:
            yield f"{function.signature.name}/", node


def _is_lowered(node: NodeDef, read_further: set[str]) -> bool:
    """Whether an older op does the same: for float32, where only the first output is read."""
    is_float = "T" in node.attr and node.attr["T"].type == DataType.DT_FLOAT
    return node.op in _LOWERED and is_float and node.name not in read_further


def _stumbles(graph_def: GraphDef) -> Iterator[str]:
    """Attributes and ops that are left and came after TensorFlow 1.0."""
    for prefix, node in _nodes(graph_def):
        for name in sorted(node.attr):
            if node.op in LATER_ATTRIBUTES.get(name, ()):
                yield f"{prefix}{node.name} ({node.op}): {name}"
        if node.op in _LATER_OPS:
            yield f"{prefix}{node.name}: the op {node.op}"
