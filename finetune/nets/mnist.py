"""Small nets for digits of 28 x 28 grey pixels: softmax regression, one hidden layer, LeNet-5.

LeCun, Bottou, Bengio and Haffner, "Gradient-Based Learning Applied to Document Recognition",
1998, section III: the linear classifier, the net of one hidden layer and LeNet-5, with the layers
and initial values of TensorFlow's MNIST tutorials: relu, max pooling, a wide layer with dropout.
"""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow
from finetune.slim import load_slim

HIDDEN = 50
"""Units of the hidden layer of `mnist_mlp`."""

MLP_L2 = 0.001
"""Factor of the L2 losses of `mnist_mlp`."""

_DEVIATION, _BIAS = 0.1, 0.1


def mnist_softmax(
    images: Any, num_classes: int, is_training: bool, *, depth_multiplier: float = 1.0
) -> tuple[Any, dict[str, Any]]:
    """Softmax regression: one linear layer on the pixels, which starts at zero.

    Args:
      images: float32 [batch, size, size, 1] in [0, 1].
      num_classes: length of the logits.
      is_training: not used; nothing differs.
      depth_multiplier: not used; there is no layer whose width is free.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    v1, slim = load_tensorflow().compat.v1, load_slim()
    with v1.variable_scope("MnistSoftmax", "MnistSoftmax", [images]):
        flat = slim.flatten(images)
        zeros = v1.zeros_initializer()
        logits = slim.fully_connected(
            flat,
            num_classes,
            activation_fn=None,
            weights_initializer=zeros,
            biases_initializer=zeros,
            scope="Logits",
        )
    return logits, _with_answers({"Flatten": flat}, logits)


def mnist_mlp(
    images: Any, num_classes: int, is_training: bool, *, depth_multiplier: float = 1.0
) -> tuple[Any, dict[str, Any]]:
    """One hidden layer of 50 units with relu, each layer's weights with an L2 loss of its own.

    The losses are 0.001 / 2 times the sum of squares, in TensorFlow's collection
    `regularization_losses`; `train` minimises them with the cross entropy.

    Args:
      images: float32 [batch, size, size, 1] in [0, 1].
      num_classes: length of the logits.
      is_training: whether the L2 losses are made.
      depth_multiplier: factor on the number of hidden units.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    v1, slim = load_tensorflow().compat.v1, load_slim()
    with (
        v1.variable_scope("MnistMlp", "MnistMlp", [images]),
        slim.arg_scope(
            [slim.fully_connected],
            weights_initializer=v1.truncated_normal_initializer(stddev=_DEVIATION),
            biases_initializer=v1.constant_initializer(_BIAS),
            weights_regularizer=slim.l2_regularizer(MLP_L2) if is_training else None,
        ),
    ):
        units = max(1, int(HIDDEN * depth_multiplier))
        hidden = slim.fully_connected(slim.flatten(images), units, scope="layer1")
        logits = slim.fully_connected(hidden, num_classes, activation_fn=None, scope="layer2")
    return logits, _with_answers({"layer1": hidden}, logits)


def mnist_lenet(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.5,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """LeNet-5 in its wider form: two convolutions of 5 x 5 with pooling, 1,024 units, dropout.

    Args:
      images: float32 [batch, size, size, 1] in [0, 1]; 28 is the size of MNIST.
      num_classes: length of the logits.
      is_training: training mode for dropout.
      dropout_keep_prob: the share of the 1,024 units kept.
      depth_multiplier: factor on the number of channels and units.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    v1, slim = load_tensorflow().compat.v1, load_slim()
    end_points: dict[str, Any] = {}

    def wide(channels: int) -> int:
        return max(1, int(channels * depth_multiplier))

    with (
        v1.variable_scope("MnistLenet", "MnistLenet", [images]),
        slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            weights_initializer=v1.truncated_normal_initializer(stddev=_DEVIATION),
            biases_initializer=v1.constant_initializer(_BIAS),
        ),
    ):
        net = images
        for number, channels in enumerate((32, 64), start=1):
            net = slim.conv2d(net, wide(channels), [5, 5], scope=f"conv{number}")
            end_points[f"conv{number}"] = net
            net = slim.max_pool2d(net, [2, 2], 2, padding="SAME", scope=f"pool{number}")
            end_points[f"pool{number}"] = net
        net = slim.fully_connected(slim.flatten(net), wide(1024), scope="fc3")
        end_points["fc3"] = net
        net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope="Dropout")
        logits = slim.fully_connected(net, num_classes, activation_fn=None, scope="fc4")
    return logits, _with_answers(end_points, logits)


def _with_answers(end_points: dict[str, Any], logits: Any) -> dict[str, Any]:
    tf = load_tensorflow()
    return {**end_points, "Logits": logits, "Predictions": tf.nn.softmax(logits)}
