"""What keeps a frozen graph from becoming a TFLite or ONNX model, found before a converter runs.

Needs neither TensorFlow nor the converters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from checkpoints.errors import UnsupportedError, counted, listed
from checkpoints.messages import NodeDef
from exporters.freezing import FrozenGraph
from exporters.inspecting.endpoints import placeholders
from exporters.names import METADATA_NODE

_SHOWN_NODES = 3

_CONTROL_FLOW = re.compile(r"(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond")
_BEYOND_ARRAYS = re.compile(
    r"Decode\w*|Encode\w*|Parse\w*|\w*HashTable\w*|Lookup\w*|InitializeTable\w*|PyFunc\w*"
    r"|EagerPyFunc|ReadFile|WriteFile|\w*Dataset\w*|\w*Iterator\w*|\w*Queue\w*|\w*Reader\w*"
    r"|Assert|Print(V2)?|String\w+|SampleDistortedBoundingBox\w*|\w*Summary\w*"
)

_ONNX_OPS = """
    Abs Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation All Any ArgMax ArgMin
    Asin Asinh Atan Atan2 Atanh AvgPool AvgPool3D BatchMatMul BatchMatMulV2 BatchMatMulV3
    BatchToSpaceND BiasAdd BiasAddV1 Bincount BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Cast Ceil
    CheckNumerics ClipByValue CombinedNonMaxSuppression ComplexAbs Concat ConcatV2 Const ConstV2
    Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 Cos Cosh CropAndResize Cumprod Cumsum
    DenseBincount DepthToSpace DepthwiseConv2dNative Div DivNoNan DynamicPartition DynamicStitch
    Einsum Elu EnsureShape Equal Erf Exp ExpandDims ExtractImagePatches FFT
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars Fill Flatten Floor FloorDiv FloorMod
    FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 Gather GatherNd GatherV2 Greater GreaterEqual
    Identity IdentityN If Invert InvertPermutation IsFinite IsInf IsNan LRN LSTMBlockCell LeakyRelu
    LeftShift Less LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart
    MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
    MatrixDiagV3 MatrixInverse MatrixSetDiagV3 Max MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax
    Maximum Mean Min Minimum MirrorPad Mul Neg NoOp NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NotEqual OneHot OnesLike Pack Pad PadV2
    ParallelDynamicStitch Placeholder PlaceholderV2 PlaceholderWithDefault Pow Prod RFFT RFFT2D
    Range Rank RealDiv Reciprocal Relu Relu6 Reshape ResizeArea ResizeBicubic ResizeBilinear
    ResizeNearestNeighbor ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum Select SelectV2 Selu Shape Sigmoid
    Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToBatchND SpaceToDepth Split SplitV
    Sqrt Square SquaredDifference Squeeze StatelessIf StatelessWhile StopGradient StridedSlice
    Sub Sum Tan Tanh TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
    TensorScatterUpdate Tile TopKV2 Transpose TruncateDiv Unique UniqueWithCounts Unpack
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum Where While
    ZerosLike
"""

ONNX_OPS = frozenset(_ONNX_OPS.split())
"""Ops of a served graph that tf2onnx has a translation for."""

MOST_ONNX_NODES = 30_000
"""A chain of 4,000 nodes takes tf2onnx half a minute more than one of 2,000."""

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Ops that TensorFlow puts the functions of in their place before tf2onnx sees them."""


def refuse_blockers(frozen: FrozenGraph, form: str, asked_for: Iterable[str]) -> None:
    """Raises UnsupportedError with everything that keeps a graph from becoming another form.

    Args:
      frozen: the frozen graph.
      form: "tflite" or "onnx".
      asked_for: names of the inputs that a person named; empty where nobody did.
    """
    found = [*_op_blockers(frozen, form), *_input_blockers(frozen, bool(list(asked_for)))]
    if form == "onnx" and frozen.num_nodes > MOST_ONNX_NODES:
        found.append(
            f"{frozen.num_nodes} nodes: tf2onnx needs time with the square of their number, and"
            f" hours beyond {MOST_ONNX_NODES}"
        )
    if found:
        raise UnsupportedError(
            f"The graph cannot become a {form} model, for {counted(len(found), 'reason')}:\n"
            f"{listed(found)}",
            expected="plain operations on numbers, and one input of known shape",
            next_step="Name outputs and inputs that leave these nodes out (--outputs,"
            " --inputs 'NAME=?x224x224x3'), or fold what is a setting (--set NAME=VALUE).",
        )


def _op_blockers(frozen: FrozenGraph, form: str) -> Iterator[str]:
    nodes: dict[tuple[str, str], list[str]] = {}
    for prefix, node in _all_nodes(frozen):
        reason = _reason_against(node, form)
        if reason is not None:
            nodes.setdefault((node.op, reason), []).append(prefix + node.name)
    for (op, reason), names in nodes.items():
        more = len(names) - _SHOWN_NODES
        shown = ", ".join(names[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")
        yield f"{op} ({shown}): {reason}"


def _reason_against(node: NodeDef, form: str) -> str | None:
    if _CONTROL_FLOW.fullmatch(node.op):
        return "a branch or loop of TensorFlow 1 that was not folded"
    if _BEYOND_ARRAYS.fullmatch(node.op):
        return "does more than compute on numbers"
    if form == "onnx" and node.op not in ONNX_OPS | CALLS:
        return "tf2onnx has no translation for it"
    return None


def _all_nodes(frozen: FrozenGraph) -> Iterator[tuple[str, NodeDef]]:
    for node in frozen.nodes():
        # A variable stands for its constant.
        if isinstance(node, NodeDef) and node.name != METADATA_NODE:
            yield "", node
    for function in frozen.graph.graph_def.library.function:
        for node in function.node_def:
            if node.op not in frozen.graph.functions:
                yield f"{function.signature.name}/", node


def _input_blockers(frozen: FrozenGraph, are_asked_for: bool) -> Iterator[str]:
    inputs = frozen.inputs if are_asked_for else placeholders(frozen.graph, frozen.metadata)
    for place, tensor in enumerate(inputs):
        shape = frozen.graph.shape(tensor)
        if place and not are_asked_for:
            yield f"{tensor}: a further input beside {inputs[0]}; fold it, or name both as --inputs"
        elif shape is None:
            yield f"{tensor}: an input of unknown shape"
        elif None in shape[1:]:
            sizes = ", ".join("?" if size is None else str(size) for size in shape)
            yield f"{tensor}: an input of the shape [{sizes}], of which only the first may be open"
