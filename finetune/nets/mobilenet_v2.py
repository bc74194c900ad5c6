"""MobileNet-v2 under the variable names of the published checkpoints.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018, table 2.
"""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow
from finetune.nets.mobilenet_v1 import convolutions, pooled_logits
from finetune.slim import load_slim

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, number of blocks, and stride of the first of them; the rest have stride 1."""

FIRST_CHANNELS = 32
LAST_CHANNELS = 1280
DIVISOR = 8


def rounded(channels: float) -> int:
    """The nearest multiple of 8 that is at least 8 and loses at most a tenth of the channels."""
    nearest = max(DIVISOR, int(channels + DIVISOR / 2) // DIVISOR * DIVISOR)
    return nearest if nearest >= 0.9 * channels else nearest + DIVISOR


def mobilenet_v2(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.8,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """MobileNet-v2.

    Args:
      images: float32 [batch, size, size, 3] in [-1, 1]; 224 is the size of the paper.
      num_classes: length of the logits.
      is_training: training mode for batch norm and dropout.
      dropout_keep_prob: the share of activations kept before the logits.
      depth_multiplier: factor on the number of channels of every layer; below 1 the last
        convolution keeps its 1280, as the paper says in section 6.1.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    tf = load_tensorflow()
    slim = load_slim()
    end_points: dict[str, Any] = {}
    with (
        tf.compat.v1.variable_scope("MobilenetV2", "MobilenetV2", [images]),
        convolutions(is_training, batch_norm_decay=0.997),
    ):
        channels = rounded(FIRST_CHANNELS * depth_multiplier)
        net = slim.conv2d(images, channels, [3, 3], stride=2, scope="Conv")
        end_points["layer_1"] = net
        index = 0
        for expansion, channels, num_blocks, first_stride in STAGES:
            for stride in [first_stride] + [1] * (num_blocks - 1):
                net = _block(
                    net, index, expansion, rounded(channels * depth_multiplier), stride, end_points
                )
                index += 1
        channels = rounded(LAST_CHANNELS * max(depth_multiplier, 1.0))
        net = slim.conv2d(net, channels, [1, 1], scope="Conv_1")
        end_points[f"layer_{index + 2}"] = net
        net = tf.identity(net, "embedding")
        with tf.compat.v1.variable_scope("Logits"):
            scopes = ("AvgPool", "Dropout")
            end_points["global_pool"], net = pooled_logits(
                net, num_classes, is_training, dropout_keep_prob, *scopes
            )
            logits = tf.identity(tf.squeeze(net, [1, 2]), "output")
        end_points["Logits"] = logits
        end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
    return logits, end_points


def _block(
    inputs: Any,
    index: int,
    expansion: int,
    num_channels: int,
    stride: int,
    end_points: dict[str, Any],
) -> Any:
    """An inverted residual: wider, a depthwise convolution, narrower without an activation.

    Where the shape stays the input is added. The end points are named as TF-Slim names them:
    the first convolution of the net is layer_1, so that this block is layer_(index + 2).
    """
    tf = load_tensorflow()
    slim = load_slim()
    layer = f"layer_{index + 2}"
    num_inputs = inputs.shape.as_list()[3]
    with tf.compat.v1.variable_scope(f"expanded_conv_{index}" if index else "expanded_conv"):
        net = inputs
        if expansion > 1:
            net = slim.conv2d(net, rounded(num_inputs * expansion), [1, 1], scope="expand")
            net = end_points[f"{layer}/expansion_output"] = tf.identity(net, "expansion_output")
        net = slim.separable_conv2d(net, None, [3, 3], 1, stride=stride, scope="depthwise")
        net = end_points[f"{layer}/depthwise_output"] = tf.identity(net, "depthwise_output")
        net = slim.conv2d(net, num_channels, [1, 1], activation_fn=None, scope="project")
        if stride == 1 and num_inputs == num_channels:
            net = tf.add(net, inputs, "add")
        net = end_points[layer] = end_points[f"{layer}/output"] = tf.identity(net, "output")
    return net
