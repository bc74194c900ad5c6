"""Inception blocks as data: branches of convolutions and pools side by side, joined by channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from exporters.runtime import load_tensorflow
from finetune.slim import load_slim

MINIMUM_DEPTH = 16
"""Narrower nets keep this many channels, as TF-Slim's Inception-v2 and -v3 do."""


class Layer(NamedTuple):
    """A convolution or a pool.

    Attributes:
      scope: as TF-Slim names it: the kind, a place, and height x width of its kernel, as in
        Conv2d_0b_1x7 or MaxPool_1a_3x3.
      channels: of its output; a pool keeps those of its input.
      stride: in both directions, in pixels.
      padding: what stands around its input.
    """

    scope: str
    channels: int = 0
    stride: int = 1
    padding: Literal["SAME", "VALID"] = "SAME"

    @property
    def kernel(self) -> list[int]:
        """Height and width, in pixels."""
        return [int(size) for size in self.scope.rpartition("_")[2].split("x")]


Branch = Sequence["Layer | Sequence[Layer]"]
"""Layers one after the other; a sequence in place of a layer: all of them on the same input."""


def apply_layer(net: Any, layer: Layer, depth_multiplier: float) -> Any:
    """Puts one layer on a net; activation and batch norm are those of the arg_scope around it.

    Args:
      net: float32 [batch, height, width, channels].
      layer: what is put on it.
      depth_multiplier: factor on its number of channels.
    """
    slim = load_slim()
    place = {"stride": layer.stride, "padding": layer.padding, "scope": layer.scope}
    if layer.scope.startswith("AvgPool"):
        return slim.avg_pool2d(net, layer.kernel, **place)
    if layer.scope.startswith("MaxPool"):
        return slim.max_pool2d(net, layer.kernel, **place)
    channels = max(int(layer.channels * depth_multiplier), MINIMUM_DEPTH)
    return slim.conv2d(net, channels, layer.kernel, **place)


def auxiliary_head(
    net: Any, num_classes: int, depth_multiplier: float, pool: str, whole: str, logits: str
) -> Any:
    """The second head of the later Inceptions, in the current variable scope.

    Args:
      net: float32 [batch, height, width, channels], what it stands on.
      num_classes: length of its logits.
      depth_multiplier: factor on the channels of its first convolution.
      pool: scope of the pooling, by 5 x 5 with stride 3.
      whole: scope of the convolution whose kernel is as large as what the pooling leaves.
      logits: scope of the logits.

    Returns:
      Logits [batch, num_classes].
    """
    slim = load_slim()
    net = slim.avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope=pool)
    net = apply_layer(net, Layer("Conv2d_1b_1x1", 128), depth_multiplier)
    net = slim.conv2d(net, 768, net.shape.as_list()[1:3], padding="VALID", scope=whole)
    return slim.fully_connected(slim.flatten(net), num_classes, activation_fn=None, scope=logits)


def join_branches(net: Any, branches: Sequence[Branch], depth_multiplier: float) -> Any:
    """Branch_0, Branch_1, ... on the same input, in the current variable scope, joined by channels.

    Args:
      net: float32 [batch, height, width, channels].
      branches: each with at least one layer.
      depth_multiplier: factor on the number of channels of every layer.
    """
    tf = load_tensorflow()
    outputs = []
    for number, branch in enumerate(branches):
        with tf.compat.v1.variable_scope(f"Branch_{number}"):
            output = net
            for layer in branch:
                if isinstance(layer, Layer):
                    output = apply_layer(output, layer, depth_multiplier)
                else:
                    sides = [apply_layer(output, side, depth_multiplier) for side in layer]
                    output = tf.concat(sides, axis=3)
            outputs.append(output)
    return tf.concat(outputs, axis=3)
