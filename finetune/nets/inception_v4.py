"""Inception-v4 under the variable names of the published checkpoint.

Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections on
Learning", 2016, figures 3 to 9.
"""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow
from finetune.nets.branches import Branch, Layer, apply_layer, auxiliary_head, join_branches
from finetune.slim import load_slim

STEM = (
    Layer("Conv2d_1a_3x3", 32, stride=2, padding="VALID"),
    Layer("Conv2d_2a_3x3", 32, padding="VALID"),
    Layer("Conv2d_2b_3x3", 64),
)

_POINT = "Conv2d_0a_1x1"

MIXED_3A: tuple[Branch, ...] = (
    (Layer("MaxPool_0a_3x3", stride=2, padding="VALID"),),
    (Layer("Conv2d_0a_3x3", 96, stride=2, padding="VALID"),),
)
MIXED_4A: tuple[Branch, ...] = (
    (Layer(_POINT, 64), Layer("Conv2d_1a_3x3", 96, padding="VALID")),
    (
        Layer(_POINT, 64),
        Layer("Conv2d_0b_1x7", 64),
        Layer("Conv2d_0c_7x1", 64),
        Layer("Conv2d_1a_3x3", 96, padding="VALID"),
    ),
)
MIXED_5A: tuple[Branch, ...] = (
    (Layer("Conv2d_1a_3x3", 192, stride=2, padding="VALID"),),
    (Layer("MaxPool_1a_3x3", stride=2, padding="VALID"),),
)
INCEPTION_A: tuple[Branch, ...] = (
    (Layer(_POINT, 96),),
    (Layer(_POINT, 64), Layer("Conv2d_0b_3x3", 96)),
    (Layer(_POINT, 64), Layer("Conv2d_0b_3x3", 96), Layer("Conv2d_0c_3x3", 96)),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 96)),
)
REDUCTION_A: tuple[Branch, ...] = (
    (Layer("Conv2d_1a_3x3", 384, stride=2, padding="VALID"),),
    (
        Layer(_POINT, 192),
        Layer("Conv2d_0b_3x3", 224),
        Layer("Conv2d_1a_3x3", 256, stride=2, padding="VALID"),
    ),
    (Layer("MaxPool_1a_3x3", stride=2, padding="VALID"),),
)
INCEPTION_B: tuple[Branch, ...] = (
    (Layer(_POINT, 384),),
    (Layer(_POINT, 192), Layer("Conv2d_0b_1x7", 224), Layer("Conv2d_0c_7x1", 256)),
    (
        Layer(_POINT, 192),
        Layer("Conv2d_0b_7x1", 192),
        Layer("Conv2d_0c_1x7", 224),
        Layer("Conv2d_0d_7x1", 224),
        Layer("Conv2d_0e_1x7", 256),
    ),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 128)),
)
REDUCTION_B: tuple[Branch, ...] = (
    (Layer(_POINT, 192), Layer("Conv2d_1a_3x3", 192, stride=2, padding="VALID")),
    (
        Layer(_POINT, 256),
        Layer("Conv2d_0b_1x7", 256),
        Layer("Conv2d_0c_7x1", 320),
        Layer("Conv2d_1a_3x3", 320, stride=2, padding="VALID"),
    ),
    (Layer("MaxPool_1a_3x3", stride=2, padding="VALID"),),
)
INCEPTION_C: tuple[Branch, ...] = (
    (Layer(_POINT, 256),),
    (Layer(_POINT, 384), (Layer("Conv2d_0b_1x3", 256), Layer("Conv2d_0c_3x1", 256))),
    (
        Layer(_POINT, 384),
        Layer("Conv2d_0b_3x1", 448),
        Layer("Conv2d_0c_1x3", 512),
        (Layer("Conv2d_0d_1x3", 256), Layer("Conv2d_0e_3x1", 256)),
    ),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 256)),
)

BLOCKS: tuple[tuple[str, tuple[Branch, ...]], ...] = (
    ("Mixed_3a", MIXED_3A),
    ("Mixed_4a", MIXED_4A),
    ("Mixed_5a", MIXED_5A),
    *((f"Mixed_5{letter}", INCEPTION_A) for letter in "bcde"),
    ("Mixed_6a", REDUCTION_A),
    *((f"Mixed_6{letter}", INCEPTION_B) for letter in "bcdefgh"),
    ("Mixed_7a", REDUCTION_B),
    *((f"Mixed_7{letter}", INCEPTION_C) for letter in "bcd"),
)
"""What follows on the stem: scope, and branches."""


def inception_v4(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.8,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """Inception-v4 with its auxiliary head, which stands on Mixed_6h.

    Args:
      images: float32 [batch, size, size, 3] in [-1, 1]; 299 is the size of the paper, 107 the
        smallest that the auxiliary head can be built for. Its last kernel is as large as what it
        stands on, so that the shape of AuxLogits/Conv2d_2a depends on the size.
      num_classes: length of the logits.
      is_training: training mode for batch norm and dropout.
      dropout_keep_prob: the share of activations kept before the logits.
      depth_multiplier: factor on the number of channels of every layer.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    slim = load_slim()
    end_points: dict[str, Any] = {}
    with (
        v1.variable_scope("InceptionV4", "InceptionV4", [images]),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
        slim.arg_scope(
            [slim.conv2d],
            weights_initializer=slim.variance_scaling_initializer(),
            normalizer_fn=slim.batch_norm,
            normalizer_params={"decay": 0.9997, "epsilon": 0.001},
        ),
    ):
        net = images
        # TF-Slim's graphs have the scope twice in the names of these operations.
        with v1.name_scope("InceptionV4"):
            for layer in STEM:
                net = end_points[layer.scope] = apply_layer(net, layer, depth_multiplier)
            for scope, branches in BLOCKS:
                with v1.variable_scope(scope):
                    net = join_branches(net, branches, depth_multiplier)
                end_points[scope] = net
        with v1.variable_scope("AuxLogits"):
            scopes = ("AvgPool_1a_5x5", "Conv2d_2a", "Aux_logits")
            end_points["AuxLogits"] = auxiliary_head(
                end_points["Mixed_6h"], num_classes, depth_multiplier, *scopes
            )
        with v1.variable_scope("Logits"):
            whole = net.shape.as_list()[1:3]
            net = slim.avg_pool2d(net, whole, padding="VALID", scope="AvgPool_1a")
            end_points["global_pool"] = net
            net = slim.dropout(net, dropout_keep_prob, scope="Dropout_1b")
            net = end_points["PreLogitsFlatten"] = slim.flatten(net, scope="PreLogitsFlatten")
            logits = slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits")
            end_points["Logits"] = logits
            end_points["Predictions"] = tf.nn.softmax(logits, name="Predictions")
    return logits, end_points
