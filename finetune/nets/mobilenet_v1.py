"""MobileNet-v1 under the variable names of the published checkpoints.

Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
Applications", 2017, table 1.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from exporters.runtime import load_tensorflow
from finetune.slim import load_slim

BLOCKS = (
    (1, 64),
    (2, 128),
    (1, 128),
    (2, 256),
    (1, 256),
    (2, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (2, 1024),
    (1, 1024),
)
"""Stride of each depthwise convolution and channels of the pointwise one after it."""

MINIMUM_DEPTH = 8


def convolutions(is_training: bool, batch_norm_decay: float) -> AbstractContextManager[Any]:
    """How the convolutions of both MobileNets are built: batch norm, then relu6.

    Args:
      is_training: training mode for batch norm.
      batch_norm_decay: share of the old moving average that an update keeps.
    """
    tf = load_tensorflow()
    slim = load_slim()
    batch_norm = {
        "center": True,
        "scale": True,
        "decay": batch_norm_decay,
        "epsilon": 0.001,
        "is_training": is_training,
    }
    scope: AbstractContextManager[Any] = slim.arg_scope(
        [slim.conv2d, slim.separable_conv2d],
        activation_fn=tf.nn.relu6,
        normalizer_fn=slim.batch_norm,
        normalizer_params=batch_norm,
        weights_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.09),
        padding="SAME",
    )
    return scope


def pooled_logits(
    net: Any, num_classes: int, is_training: bool, keep_prob: float, pool: str, dropout: str
) -> tuple[Any, Any]:
    """The head of both MobileNets, in the current variable scope.

    Args:
      net: float32 [batch, height, width, channels].
      num_classes: length of the logits.
      is_training: training mode for dropout.
      keep_prob: the share of activations kept before the logits.
      pool: scope of the average over height and width.
      dropout: scope of the dropout.

    Returns:
      The averages [batch, 1, 1, channels], and logits [batch, 1, 1, num_classes].
    """
    slim = load_slim()
    pooled = slim.avg_pool2d(net, net.shape.as_list()[1:3], padding="VALID", scope=pool)
    kept = slim.dropout(pooled, keep_prob=keep_prob, is_training=is_training, scope=dropout)
    plain = {"activation_fn": None, "normalizer_fn": None, "scope": "Conv2d_1c_1x1"}
    return pooled, slim.conv2d(kept, num_classes, [1, 1], **plain)


def mobilenet_v1(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.999,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """MobileNet-v1.

    Args:
      images: float32 [batch, size, size, 3] in [-1, 1]; 224 is the size of the paper.
      num_classes: length of the logits.
      is_training: training mode for batch norm and dropout.
      dropout_keep_prob: the share of activations kept before the logits.
      depth_multiplier: factor on the number of channels of every layer.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    tf = load_tensorflow()
    slim = load_slim()
    end_points: dict[str, Any] = {}

    def depth(channels: int) -> int:
        return max(int(channels * depth_multiplier), MINIMUM_DEPTH)

    with (
        tf.compat.v1.variable_scope("MobilenetV1", "MobilenetV1", [images]),
        convolutions(is_training, batch_norm_decay=0.9997),
    ):
        net = slim.conv2d(images, depth(32), [3, 3], stride=2, scope="Conv2d_0")
        end_points["Conv2d_0"] = net
        for index, (stride, channels) in enumerate(BLOCKS, start=1):
            name = f"Conv2d_{index}_depthwise"
            net = slim.separable_conv2d(net, None, [3, 3], 1, stride=stride, scope=name)
            end_points[name] = net
            name = f"Conv2d_{index}_pointwise"
            net = slim.conv2d(net, depth(channels), [1, 1], scope=name)
            end_points[name] = net
        with tf.compat.v1.variable_scope("Logits"):
            scopes = ("AvgPool_1a", "Dropout_1b")
            end_points["AvgPool_1a"], net = pooled_logits(
                net, num_classes, is_training, dropout_keep_prob, *scopes
            )
            logits = tf.squeeze(net, [1, 2], name="SpatialSqueeze")
        end_points["Logits"] = logits
        end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
    return logits, end_points
