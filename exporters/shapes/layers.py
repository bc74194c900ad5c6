"""Shapes behind convolutions, pooling, matrix products and their kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkpoints.messages import NodeDef
from exporters.shapes.sizes import Shape, ShapeError, broadcast, product, written_shape

if TYPE_CHECKING:
    from exporters.shapes.inference import ShapeInference


Shapes = list["Shape | None"]


def _is_channels_first(node: NodeDef) -> bool:
    return "data_format" in node.attr and node.attr["data_format"].s.startswith(b"NC")


def _window(
    node: NodeDef,
    sizes: Shape,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Shape:
    """The spatial sizes behind a convolution or pooling."""
    padding = node.attr["padding"].s if "padding" in node.attr else b""
    explicit = (
        list(node.attr["explicit_paddings"].list.i) if "explicit_paddings" in node.attr else []
    )
    if padding == b"EXPLICIT" and _is_channels_first(node):
        explicit = explicit[4:]
    elif padding == b"EXPLICIT":
        explicit = explicit[2:-2]
    found: list[int | None] = []
    for place, size in enumerate(sizes):
        if size is None:
            found.append(None)
            continue
        if padding == b"SAME":
            found.append(-(-size // stride[place]))
            continue
        if padding == b"EXPLICIT":
            size += sum(explicit[2 * place : 2 * place + 2])
        extent = (window[place] - 1) * dilation[place] + 1
        found.append(max(0, -(-(size - extent + 1) // stride[place])))
    return tuple(found)


def _spatial(node: NodeDef, attribute: str, rank: int) -> list[int]:
    values = list(node.attr[attribute].list.i) if attribute in node.attr else []
    if len(values) != rank:
        return [1] * (rank - 2)
    return values[2:] if _is_channels_first(node) else values[1:-1]


def convolved(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a convolution; filters are HWIO, or HWCM where depthwise."""
    source, kernel = inputs[0], inputs[1]
    if source is None or kernel is None:
        return []
    rank = len(source)
    window = [size for size in kernel[: rank - 2] if size is not None]
    channels = kernel[-1]
    if node.op == "DepthwiseConv2dNative":
        channels = product(kernel[-2:])
    first = _is_channels_first(node)
    sizes = _window(
        node,
        source[2:] if first else source[1:-1],
        window,
        _spatial(node, "strides", rank),
        _spatial(node, "dilations", rank),
    )
    return [(source[0], channels, *sizes) if first else (source[0], *sizes, channels)]


def pooled(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a pooling window."""
    source = inputs[0]
    if source is None:
        return []
    rank = len(source)
    first = _is_channels_first(node)
    sizes = _window(
        node,
        source[2:] if first else source[1:-1],
        _spatial(node, "ksize", rank),
        _spatial(node, "strides", rank),
        [1] * (rank - 2),
    )
    return [(*source[:2], *sizes) if first else (source[0], *sizes, source[-1])]


def transposed_convolution(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a transposed convolution, which is told its shape by its first input."""
    sizes, gradient = inference.value(node, 0), inputs[2]
    if sizes is None:
        return []
    shape = tuple(map(int, sizes))
    if gradient is not None and gradient[0] not in (None, shape[0]):
        raise ShapeError(f"makes {written_shape(shape)} of {written_shape(gradient)}")
    return [shape]


def batch_normalised(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a fused batch norm: y, mean, variance."""
    return [inputs[0], inputs[1], inputs[1]]


def multiplied(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a product of matrices, or of batches of them."""
    first, second = inputs[:2]
    if first is None or second is None:
        return []
    transposes = [
        any(name in node.attr and node.attr[name].b for name in names)
        for names in (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    ]
    rows, inner = (first[-1], first[-2]) if transposes[0] else (first[-2], first[-1])
    other, columns = (second[-1], second[-2]) if transposes[1] else (second[-2], second[-1])
    if inner is not None and other is not None and inner != other:
        raise ShapeError(f"multiplies {written_shape(first)} with {written_shape(second)}")
    batch = broadcast([first[:-2], second[:-2]])
    return [] if batch is None else [(*batch, rows, columns)]


def resized(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """Behind a resized picture, NHWC."""
    shape, size = inputs[0], inference.value(node, 1)
    if shape is None:
        return []
    sizes = (None, None) if size is None else tuple(map(int, size))
    return [(shape[0], *sizes, shape[3])]


def to_batch(inference: ShapeInference, node: NodeDef, inputs: Shapes) -> Shapes:
    """SpaceToBatchND and back: dilated convolutions of TensorFlow 1."""
    shape, block, edges = inputs[0], inference.value(node, 1), inference.value(node, 2)
    if shape is None or block is None or edges is None:
        return []
    blocks = math.prod(int(size) for size in block)
    into = node.op == "SpaceToBatchND"
    sizes: list[int | None] = []
    for place, factor in enumerate(block):
        size = shape[1 + place]
        change = int(edges[place][0]) + int(edges[place][1])
        if size is not None:
            size = (size + change) // int(factor) if into else size * int(factor) - change
        sizes.append(size)
    batch = shape[0]
    if batch is not None:
        batch = batch * blocks if into else batch // blocks
    return [(batch, *sizes, *shape[1 + len(block) :])]
