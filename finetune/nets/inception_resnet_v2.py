"""Inception-ResNet-v2 under the variable names of the published checkpoint.

Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections on
Learning", 2016, figures 15 to 19 and section 3.3. The published weights have twice as many blocks
of each kind as the paper's figure, and Inception-v3's stem with Mixed_5b after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from exporters.runtime import load_tensorflow
from finetune.nets.branches import Branch, Layer, apply_layer, auxiliary_head, join_branches
from finetune.slim import load_slim

STEM = (
    Layer("Conv2d_1a_3x3", 32, stride=2, padding="VALID"),
    Layer("Conv2d_2a_3x3", 32, padding="VALID"),
    Layer("Conv2d_2b_3x3", 64),
    Layer("MaxPool_3a_3x3", stride=2, padding="VALID"),
    Layer("Conv2d_3b_1x1", 80, padding="VALID"),
    Layer("Conv2d_4a_3x3", 192, padding="VALID"),
    Layer("MaxPool_5a_3x3", stride=2, padding="VALID"),
)

_POINT = "Conv2d_0a_1x1"

MIXED_5B: tuple[Branch, ...] = (
    (Layer("Conv2d_1x1", 96),),
    (Layer(_POINT, 48), Layer("Conv2d_0b_5x5", 64)),
    (Layer(_POINT, 64), Layer("Conv2d_0b_3x3", 96), Layer("Conv2d_0c_3x3", 96)),
    (Layer("AvgPool_0a_3x3"), Layer("Conv2d_0b_1x1", 64)),
)
MIXED_6A: tuple[Branch, ...] = (
    (Layer("Conv2d_1a_3x3", 384, stride=2, padding="VALID"),),
    (
        Layer(_POINT, 256),
        Layer("Conv2d_0b_3x3", 256),
        Layer("Conv2d_1a_3x3", 384, stride=2, padding="VALID"),
    ),
    (Layer("MaxPool_1a_3x3", stride=2, padding="VALID"),),
)
MIXED_7A: tuple[Branch, ...] = (
    (Layer(_POINT, 256), Layer("Conv2d_1a_3x3", 384, stride=2, padding="VALID")),
    (Layer(_POINT, 256), Layer("Conv2d_1a_3x3", 288, stride=2, padding="VALID")),
    (
        Layer(_POINT, 256),
        Layer("Conv2d_0b_3x3", 288),
        Layer("Conv2d_1a_3x3", 320, stride=2, padding="VALID"),
    ),
    (Layer("MaxPool_1a_3x3", stride=2, padding="VALID"),),
)


class Residual(NamedTuple):
    """Blocks whose joined branches are scaled and added to their input.

    Attributes:
      name: of the blocks, which are numbered from 1.
      repeats: how many follow on each other.
      scale: factor on what is added; section 3.3.
      branches: of each block.
    """

    name: str
    repeats: int
    scale: float
    branches: tuple[Branch, ...]


BLOCK_35 = Residual(
    "block35",
    10,
    0.17,
    (
        (Layer("Conv2d_1x1", 32),),
        (Layer(_POINT, 32), Layer("Conv2d_0b_3x3", 32)),
        (Layer(_POINT, 32), Layer("Conv2d_0b_3x3", 48), Layer("Conv2d_0c_3x3", 64)),
    ),
)
BLOCK_17 = Residual(
    "block17",
    20,
    0.1,
    (
        (Layer("Conv2d_1x1", 192),),
        (Layer(_POINT, 128), Layer("Conv2d_0b_1x7", 160), Layer("Conv2d_0c_7x1", 192)),
    ),
)
BLOCK_8 = Residual(
    "block8",
    9,
    0.2,
    (
        (Layer("Conv2d_1x1", 192),),
        (Layer(_POINT, 192), Layer("Conv2d_0b_1x3", 224), Layer("Conv2d_0c_3x1", 256)),
    ),
)


def inception_resnet_v2(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.8,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """Inception-ResNet-v2 with its auxiliary head, which stands on the last block17.

    Args:
      images: float32 [batch, size, size, 3] in [-1, 1]; 299 is the size of the paper, 107 the
        smallest that the auxiliary head can be built for. Its last kernel is as large as what it
        stands on, so that the shape of AuxLogits/Conv2d_2a_5x5 depends on the size.
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

    def mixed(net: Any, scope: str, branches: tuple[Branch, ...]) -> Any:
        with v1.variable_scope(scope):
            end_points[scope] = join_branches(net, branches, depth_multiplier)
        return end_points[scope]

    with (
        v1.variable_scope("InceptionResnetV2", "InceptionResnetV2", [images]),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
        slim.arg_scope(
            [slim.conv2d],
            normalizer_fn=slim.batch_norm,
            normalizer_params={"decay": 0.9997, "epsilon": 0.001},
        ),
    ):
        net = images
        # TF-Slim's graphs have the scope twice in the names of these operations.
        with v1.name_scope("InceptionResnetV2"):
            for layer in STEM:
                net = end_points[layer.scope] = apply_layer(net, layer, depth_multiplier)
            net = mixed(net, "Mixed_5b", MIXED_5B)
            net = _repeat(net, "Repeat", BLOCK_35, depth_multiplier)
            net = mixed(net, "Mixed_6a", MIXED_6A)
            net = end_points["PreAuxLogits"] = _repeat(net, "Repeat_1", BLOCK_17, depth_multiplier)
            net = mixed(net, "Mixed_7a", MIXED_7A)
            net = _repeat(net, "Repeat_2", BLOCK_8, depth_multiplier)
            with v1.variable_scope("Block8"):
                net = _add_branches(net, BLOCK_8.branches, 1.0, depth_multiplier)
            net = apply_layer(net, Layer("Conv2d_7b_1x1", 1536), depth_multiplier)
            end_points["Conv2d_7b_1x1"] = net
        with v1.variable_scope("AuxLogits"):
            scopes = ("Conv2d_1a_3x3", "Conv2d_2a_5x5", "Logits")
            end_points["AuxLogits"] = auxiliary_head(
                end_points["PreAuxLogits"], num_classes, depth_multiplier, *scopes
            )
        with v1.variable_scope("Logits"):
            whole = net.shape.as_list()[1:3]
            net = slim.avg_pool2d(net, whole, padding="VALID", scope="AvgPool_1a_8x8")
            end_points["global_pool"] = net
            net = slim.dropout(slim.flatten(net), dropout_keep_prob, scope="Dropout")
            end_points["PreLogitsFlatten"] = net
            logits = slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits")
            end_points["Logits"] = logits
            end_points["Predictions"] = tf.nn.softmax(logits, name="Predictions")
    return logits, end_points


def _repeat(net: Any, scope: str, blocks: Residual, depth_multiplier: float) -> Any:
    """Residual blocks one after the other, each followed by a relu."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with v1.variable_scope(scope):
        for number in range(1, blocks.repeats + 1):
            with v1.variable_scope(f"{blocks.name}_{number}"):
                net = _add_branches(net, blocks.branches, blocks.scale, depth_multiplier)
                net = tf.nn.relu(net)
    return net


def _add_branches(
    net: Any, branches: tuple[Branch, ...], scale: float, depth_multiplier: float
) -> Any:
    """The input plus its joined branches, brought to its number of channels and scaled."""
    joined = join_branches(net, branches, depth_multiplier)
    linear = {"normalizer_fn": None, "activation_fn": None, "scope": "Conv2d_1x1"}
    return net + scale * load_slim().conv2d(joined, net.shape.as_list()[3], [1, 1], **linear)
