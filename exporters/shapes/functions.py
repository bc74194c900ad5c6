"""Shapes behind ops, op by op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from checkpoints.messages import NodeDef
from exporters.evaluation import integer_attribute, strided_index
from exporters.graph import dimensions
from exporters.moving_averages import variable_behind
from exporters.names import TensorName
from exporters.ops import VARIABLES
from exporters.shapes.layers import (
    batch_normalised,
    convolved,
    multiplied,
    pooled,
    resized,
    to_batch,
    transposed_convolution,
)
from exporters.shapes.sizes import Shape, ShapeError, broadcast, product, written_shape

if TYPE_CHECKING:
    from exporters.shapes.inference import ShapeInference


Shapes = list["Shape | None"]


def _declared(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """What a placeholder, variable or constant says of itself."""
    if node.op in VARIABLES or node.op.startswith("Placeholder"):
        return [dimensions(node.attr["shape"].shape)] if "shape" in node.attr else []
    return [inference.graph.shape(TensorName(node.name))]


def _read(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    variable = variable_behind(inference.graph, TensorName(node.name))
    if variable is None:
        return []
    node = inference.graph.nodes[variable]
    return [dimensions(node.attr["shape"].shape)] if "shape" in node.attr else []


def _same(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return inputs[:1]


def _switched(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [inputs[0], inputs[0]]


def _merged(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [inputs[0] if all(shape == inputs[0] for shape in inputs) else None, ()]


def _each(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return list(inputs)


def _broadcast(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [broadcast(inputs)]


def _selected(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [inputs[1] if inputs[1] is not None else inputs[2]]


def _reduced(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, axes = inputs[0], inference.value(node, 1)
    if shape is None or axes is None:
        return []
    reduced = {int(axis) % len(shape) for axis in axes.reshape(-1)} if shape else set()
    if "keep_dims" in node.attr and node.attr["keep_dims"].b:
        return [tuple(1 if place in reduced else size for place, size in enumerate(shape))]
    return [tuple(size for place, size in enumerate(shape) if place not in reduced)]


def _largest(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, axis = inputs[0], inference.value(node, 1)
    if shape is None or axis is None:
        return []
    place = int(axis.reshape(())) % len(shape)
    return [(*shape[:place], *shape[place + 1 :])]


def _reshaped(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, target = inputs[0], inference.value(node, 1)
    if target is None:
        return []
    sizes = [int(size) for size in target.reshape(-1)]
    known = math.prod(size for size in sizes if size != -1)
    elements = None if shape is None else product(shape)
    if -1 not in sizes:
        if elements is not None and elements != known and shape is not None:
            return [_repaired(inference, node, shape, sizes)]
        return [tuple(sizes)]
    if elements is None or known == 0:
        return [tuple(None if size == -1 else size for size in sizes)]
    if elements % known:
        return [_repaired(inference, node, shape or (), sizes)]
    return [tuple(elements // known if size == -1 else size for size in sizes)]


def _repaired(
    inference: ShapeInference, node: NodeDef, shape: Shape, sizes: Sequence[int]
) -> Shape:
    repaired = None
    if inference.repair_reshape is not None:
        repaired = inference.repair_reshape(node, shape, sizes)
    if repaired is None:
        raise ShapeError(f"makes {list(sizes)} of {written_shape(shape)}")
    return repaired


def _squeezed(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape = inputs[0]
    if shape is None:
        return []
    axes = list(node.attr["squeeze_dims"].list.i) if "squeeze_dims" in node.attr else []
    if axes:
        places = {axis % len(shape) for axis in axes}
    elif None in shape:
        return []
    else:
        places = {place for place, size in enumerate(shape) if size == 1}
    return [tuple(size for place, size in enumerate(shape) if place not in places)]


def _expanded(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, axis = inputs[0], inference.value(node, 1)
    if shape is None or axis is None:
        return []
    place = int(axis.reshape(())) % (len(shape) + 1)
    return [(*shape[:place], 1, *shape[place:])]


def _transposed(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, order = inputs[0], inference.value(node, 1)
    if shape is None or order is None:
        return []
    return [tuple(shape[int(place)] for place in order)]


def _concatenated(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    axis_place = 0 if node.op == "Concat" else len(inputs) - 1
    axis = inference.value(node, axis_place)
    parts = [shape for place, shape in enumerate(inputs) if place != axis_place]
    known = [shape for shape in parts if shape is not None]
    if axis is None or len(known) != len(parts) or not known:
        return []
    place = int(axis.reshape(())) % len(known[0])
    others = {(*shape[:place], *shape[place + 1 :]) for shape in known}
    if len({sizes for sizes in others if None not in sizes}) > 1:
        raise ShapeError(f"joins {' and '.join(map(written_shape, known[:4]))}")
    lengths = [shape[place] for shape in known]
    total = None if None in lengths else sum(size for size in lengths if size is not None)
    return [(*known[0][:place], total, *known[0][place + 1 :])]


def _padded(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, paddings = inputs[0], inference.value(node, 1)
    if shape is None or paddings is None:
        return []
    return [
        tuple(
            None if size is None else size + int(before) + int(after)
            for size, (before, after) in zip(shape, paddings, strict=True)
        )
    ]


def _packed(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape = inputs[0]
    if shape is None:
        return []
    if any(other is not None and len(other) != len(shape) for other in inputs):
        raise ShapeError("stacks tensors of different ranks")
    place = integer_attribute(node, "axis") % (len(shape) + 1)
    return [(*shape[:place], len(inputs), *shape[place:])]


def _unpacked(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape = inputs[0]
    if shape is None:
        return []
    count = integer_attribute(node, "num")
    place = integer_attribute(node, "axis") % len(shape)
    if shape[place] not in (None, count):
        raise ShapeError(f"takes {written_shape(shape)} apart into {count}")
    return [(*shape[:place], *shape[place + 1 :])] * count


def _split(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, axis = inputs[1], inference.value(node, 0)
    if shape is None or axis is None:
        return []
    count = integer_attribute(node, "num_split", 1)
    place = int(axis.reshape(())) % len(shape)
    size = shape[place]
    if size is not None and size % count:
        raise ShapeError(f"splits {written_shape(shape)} into {count} parts")
    part = None if size is None else size // count
    return [(*shape[:place], part, *shape[place + 1 :])] * count


def _split_by_sizes(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, sizes, axis = inputs[0], inference.value(node, 1), inference.value(node, 2)
    if shape is None or sizes is None or axis is None:
        return []
    place = int(axis.reshape(())) % len(shape)
    lengths = [int(size) for size in sizes]
    whole = shape[place]
    if -1 in lengths:
        rest = None if whole is None else whole - sum(lengths) - 1
        parts: list[int | None] = [rest if size == -1 else size for size in lengths]
    else:
        if whole not in (None, sum(lengths)):
            raise ShapeError(f"splits {written_shape(shape)} into parts of {lengths}")
        parts = list(lengths)
    return [(*shape[:place], part, *shape[place + 1 :]) for part in parts]


def _sliced(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, begin, size = inputs[0], inference.value(node, 1), inference.value(node, 2)
    if shape is None or size is None:
        return []
    if begin is None:
        return [tuple(None if length < 0 else int(length) for length in size)]
    return [
        tuple(
            int(length) if length >= 0 else None if whole is None else whole - int(start)
            for whole, start, length in zip(shape, begin, size, strict=True)
        )
    ]


def _strided(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    bounds = [inference.value(node, place) for place in (1, 2, 3)]
    shape = inputs[0]
    if shape is None or None in shape or any(bound is None for bound in bounds):
        return []
    begin, end, strides = (np.asarray(bound) for bound in bounds)
    # An array of no bytes, whose slices have the shapes that TensorFlow's have.
    whole = np.broadcast_to(np.zeros((), np.bool_), tuple(size or 0 for size in shape))
    return [whole[strided_index(node, begin, end, strides)].shape]


def _tiled(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, counts = inputs[0], inference.value(node, 1)
    if shape is None or counts is None:
        return []
    return [
        tuple(
            None if size is None else size * int(count)
            for size, count in zip(shape, counts, strict=True)
        )
    ]


def _gathered(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, indices = inputs[0], inputs[1]
    axis = inference.value(node, 2) if node.op == "GatherV2" else np.zeros((), np.int32)
    batch_dims = integer_attribute(node, "batch_dims")
    if shape is None or indices is None or axis is None or batch_dims:
        return []
    place = int(axis.reshape(())) % len(shape)
    return [(*shape[:place], *indices, *shape[place + 1 :])]


def _one_hot(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, depth = inputs[0], inference.value(node, 1)
    if shape is None or depth is None:
        return []
    axis = integer_attribute(node, "axis", -1)
    place = axis % (len(shape) + 1)
    return [(*shape[:place], int(depth), *shape[place:])]


def _as_told(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Fill: the shape is its first input."""
    sizes = inference.value(node, 0)
    return [] if sizes is None else [tuple(map(int, sizes))]


def _broadcast_to(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    sizes = inference.value(node, 1)
    if sizes is None or inputs[0] is None:
        return []
    target: Shape = tuple(map(int, sizes))
    if broadcast([inputs[0], target]) != target:
        raise ShapeError(f"broadcasts {written_shape(inputs[0])} to {written_shape(target)}")
    return [target]


def _rank(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [None if shape is None else (len(shape),) for shape in inputs]


def _scalar(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    return [()]


def _top(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    shape, count = inputs[0], inference.value(node, 1)
    if node.op == "TopK":
        count = np.asarray(integer_attribute(node, "k"))
    if shape is None or count is None:
        return []
    return [(*shape[:-1], int(count))] * 2


_KEEPING_SHAPE = """
Abs BiasAdd Cast Ceil CheckNumerics CheckNumericsV2 ClipByValue Cos Cumsum Elu Enter Erf Exp Expm1
FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars Floor Identity Inv IsFinite IsNan L2Normalize LRN
LeakyRelu Log Log1p LogSoftmax LogicalNot MatrixBandPart Neg OnesLike PlaceholderWithDefault
PreventGradient Print QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 Reciprocal RefEnter
RefIdentity Relu Relu6 ReverseV2 Rint Round Rsqrt Selu Sigmoid Sign Sin Snapshot Softmax Softplus
Softsign Sqrt Square StopGradient Tanh ZerosLike
"""

_BROADCASTING = """
Add AddN AddV2 Atan2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less LessEqual
LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NotEqual Pow RealDiv SelectV2
SquaredDifference Sub TruncateDiv Xdivy Xlogy
"""

_Function = Callable[["ShapeInference", NodeDef, Shapes], Shapes]
SHAPE_FUNCTIONS: dict[str, _Function] = {
    **dict.fromkeys(_KEEPING_SHAPE.split(), _same),
    **dict.fromkeys(_BROADCASTING.split(), _broadcast),
    **dict.fromkeys(("AutoReloadVariable", "Const", "Placeholder", "PlaceholderV2"), _declared),
    **dict.fromkeys(("Variable", "VariableV2"), _declared),
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), convolved),
    **dict.fromkeys(("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D"), pooled),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_normalised),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "MatMul"), multiplied),
    **dict.fromkeys(("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"), _reduced),
    **dict.fromkeys(("ArgMax", "ArgMin"), _largest),
    **dict.fromkeys(("Concat", "ConcatV2"), _concatenated),
    **dict.fromkeys(("MirrorPad", "Pad", "PadV2"), _padded),
    **dict.fromkeys(("Gather", "GatherV2"), _gathered),
    **dict.fromkeys(("ResizeArea", "ResizeBicubic", "ResizeBilinear"), resized),
    **dict.fromkeys(("BatchToSpaceND", "SpaceToBatchND"), to_batch),
    **dict.fromkeys(("RefSwitch", "Switch"), _switched),
    **dict.fromkeys(("Merge", "RefMerge"), _merged),
    **dict.fromkeys(("L2Loss", "Rank", "Size"), _scalar),
    **dict.fromkeys(("Shape", "ShapeN"), _rank),
    **dict.fromkeys(("TopK", "TopKV2"), _top),
    "BroadcastTo": _broadcast_to,
    "Conv2DBackpropInput": transposed_convolution,
    "ExpandDims": _expanded,
    "Fill": _as_told,
    "IdentityN": _each,
    "OneHot": _one_hot,
    "Pack": _packed,
    "ReadVariableOp": _read,
    "Reshape": _reshaped,
    "ResizeNearestNeighbor": resized,
    "Select": _selected,
    "Slice": _sliced,
    "Split": _split,
    "SplitV": _split_by_sizes,
    "Squeeze": _squeezed,
    "StridedSlice": _strided,
    "Tile": _tiled,
    "Transpose": _transposed,
    "Unpack": _unpacked,
}
