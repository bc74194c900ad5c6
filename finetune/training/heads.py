"""Heads with hidden layers: what stands between the bottleneck and the logits of a net.

A net's builder makes its own linear head. Hidden layers go in front of its last layer, inside the
scope of the head, so that freezing, restoring and exporting treat them as the head's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from checkpoints.scopes import in_scope
from exporters.runtime import load_tensorflow
from finetune.slim import load_slim, quietly, replaced_layers

LEAK = 0.2
"""Slope of leaky relu for negative values."""

_LAYERS = {"conv2d": "Conv", "fully_connected": "fully_connected"}
"""The layers of tf-slim that give logits, and their default scopes."""


@dataclass(frozen=True)
class Head:
    """The hidden layers of a head.

    Attributes:
      hidden: width of each, from the bottleneck on; empty: a linear head.
      activation: relu or leaky-relu.
      multi_label: whether each class is answered for itself: the probabilities of the inference
        graph are then a sigmoid, not a softmax.
    """

    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    multi_label: bool = False


LINEAR = Head()


@dataclass
class HeadInput:
    """Where hidden layers were put in.

    Attributes:
      bottleneck: what feeds the first hidden layer, or None.
      last: what feeds the logits then, or None.
    """

    bottleneck: Any = field(default=None)
    last: Any = field(default=None)


def leaky_relu(values: Any, leak: float = LEAK) -> Any:
    """X where x is positive and leak * x elsewhere, as f1 * x + f2 * |x|.

    With f1 = (1 + leak) / 2 and f2 = (1 - leak) / 2 the two terms add up to x above zero and to
    leak * x below, without a comparison.

    Args:
      values: a float tensor of any shape.
      leak: the slope below zero.
    """
    tf = load_tensorflow()
    return 0.5 * (1.0 + leak) * values + 0.5 * (1.0 - leak) * tf.abs(values)


@quietly
def hidden_layers(
    inputs: Any, head: Head, layer: Callable[..., Any] | None = None, dropout: Any = None
) -> Any:
    """The hidden layers on top of a bottleneck, in the current variable scope.

    Args:
      inputs: float32 [batch, 1, 1, channels], or [batch, channels].
      head: their widths and activation.
      layer: slim.conv2d or slim.fully_connected; None: what fits the shape.
      dropout: called with the output of each hidden layer and a scope; None: no dropout.

    Returns:
      float32, the shape of inputs with the last width as channels.
    """
    tf = load_tensorflow()
    slim = load_slim()
    is_flat = len(inputs.shape) == 2
    if layer is None:
        layer = slim.fully_connected if is_flat else slim.conv2d
    activation = tf.nn.relu if head.activation == "relu" else leaky_relu
    kernel = [] if is_flat else [[1, 1]]
    own = {} if is_flat else {"stride": 1}
    net = inputs
    for number, width in enumerate(head.hidden, start=1):
        net = layer(
            net,
            width,
            *kernel,
            activation_fn=activation,
            normalizer_fn=None,
            weights_initializer=slim.initializers.variance_scaling_initializer(),
            scope=f"Hidden_{number}",
            **own,
        )
        if dropout is not None:
            net = dropout(net, scope=f"Dropout_{number}")
    return net


@contextmanager
def hidden_before_logits(
    main_head: str,
    classes: int,
    head: Head,
    is_training: bool,
    dropout: float | None,
    has_dropout: bool = True,
) -> Iterator[HeadInput]:
    """Inside the block, the main head's last layer is built on top of hidden layers.

    Where there are none, it is built on top of dropout if the net has none of its own.

    Args:
      main_head: the scope of the head.
      classes: width of the last layer, by which it is known.
      head: the hidden layers.
      is_training: training mode for dropout.
      dropout: share dropped behind each hidden layer in training; None: none.
      has_dropout: whether the net's builder was told the share itself.
    """
    found = HeadInput()
    if not head.hidden and (has_dropout or not dropout):
        yield found
        return

    def drop(net: Any, scope: str) -> Any:
        if not dropout:
            return net
        return load_slim().dropout(net, 1.0 - dropout, is_training=is_training, scope=scope)

    def on_top(name: str, layer: Callable[..., Any]) -> Callable[..., Any]:
        return _on_top(name, layer, main_head, classes, head, drop, found)

    with replaced_layers(_LAYERS, on_top):
        yield found


def _on_top(
    name: str,
    layer: Callable[..., Any],
    main_head: str,
    classes: int,
    head: Head,
    drop: Callable[..., Any],
    found: HeadInput,
) -> Callable[..., Any]:
    v1 = load_tensorflow().compat.v1

    def put_on(bottleneck: Any) -> Any:
        if head.hidden:
            return hidden_layers(bottleneck, head, layer, drop)
        return drop(bottleneck, scope="Dropout")

    def on_top(inputs: Any, num_outputs: int, *arguments: Any, **named: Any) -> Any:
        around = v1.get_variable_scope().name
        scope = named.get("scope") or _LAYERS[name]
        path = f"{around}/{getattr(scope, 'name', scope)}".lstrip("/")
        if num_outputs == classes and found.last is None and in_scope(path, main_head):
            found.bottleneck = inputs
            inside = main_head.removeprefix(around).lstrip("/")
            inputs = found.last = _inside(inside, lambda: put_on(inputs))
        return layer(inputs, num_outputs, *arguments, **named)

    return on_top


def _inside(scope: str, build: Callable[[], Any]) -> Any:
    """Builds in a scope below the current one; in the current one where it has no name."""
    if not scope:
        return build()
    with load_tensorflow().compat.v1.variable_scope(scope):
        return build()
