"""Nets as graphs: a registered builder called in the right scopes and modes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import PlanError, UsageError
from checkpoints.plan import NetVariable
from checkpoints.published import Net, get_net
from checkpoints.scopes import in_scopes
from exporters.runtime import load_tensorflow
from finetune.nets.graph_net import GraphNet
from finetune.nets.modes import layer_modes
from finetune.nets.own_net import OwnNet
from finetune.preprocessing import Preprocessing
from finetune.slim import quietly, variables_by_identity
from finetune.training.heads import LINEAR, Head, hidden_before_logits

INPUT = "input"
"""Name of the placeholder of an inference graph."""

_KEEP_PROB = "dropout_keep_prob"


@dataclass(frozen=True)
class BuiltNet:
    """A net in the current graph.

    Attributes:
      net: its record.
      logits: float32 [batch, classes].
      predictions: float32 [batch, classes], the softmax of the logits; of a head with several
        classes a picture the sigmoid.
      bottleneck: float32 [batch, 1, 1, channels] or [batch, channels], what feeds the main head.
      end_points: the activations by their TF-Slim names.
    """

    net: Net
    logits: Any
    predictions: Any
    bottleneck: Any
    end_points: dict[str, Any]


@quietly
def build_net(
    net: Net | str,
    images: Any,
    classes: int,
    *,
    is_training: bool = False,
    training_scopes: Sequence[str] | None = None,
    dropout: float | None = None,
    batch_norm_scopes: Sequence[str] | None = None,
    batch_norm_decay: float | None = None,
    head: Head = LINEAR,
    step: Any = None,
) -> BuiltNet:
    """Builds a net into the current tf.Graph.

    Args:
      net: a record, or the name of one.
      images: float32 [batch, height, width, channels], NHWC, RGB or grey as its preprocessing
        gives them, in the range of that.
      classes: length of the logits.
      is_training: training mode for batch norm and dropout.
      training_scopes: with is_training, the scopes it holds for; everything else is built in
        inference mode. None: the whole net.
      dropout: the share of activations dropped before the logits, or None for the net's own.
      batch_norm_scopes: of the training scopes those whose batch norms are in training mode; None:
        all.
      batch_norm_decay: share of the old moving average that an update keeps, or None for the
        net's own.
      head: hidden layers before the logits.
      step: the global step, an int64 scalar; with it dropout is a function of the graph's seed
        and the step alone.

    Raises:
      PlanError: the pictures are too small or too large, or a function of the user's fails.
      UsageError: hidden layers or dropout do not fit a net that is a function of the user's.
    """
    record = get_net(net) if isinstance(net, str) else net
    options: dict[str, Any] = {"depth_multiplier": record.depth_multiplier}
    if dropout is not None:
        if isinstance(record, OwnNet) and not head.hidden and not record.takes(_KEEP_PROB):
            raise UsageError(
                f"--dropout: the function {record.name} has no parameter {_KEEP_PROB}.",
                expected="(inputs, num_classes, is_training, dropout_keep_prob=...)",
                received=f"--dropout {dropout:g}",
                next_step="Give the function that parameter, or leave --dropout out.",
            )
        options[_KEEP_PROB] = 1.0 - dropout
    modes = training_scopes
    if modes is not None:
        modes = (*modes, *(own for own, fed in record.dropouts if in_scopes(fed, modes)))
    with (
        variables_by_identity(),
        layer_modes(modes, batch_norm_scopes, batch_norm_decay, step),
        hidden_before_logits(
            record.main_head, classes, head, is_training, dropout, record.has_dropout
        ) as head_input,
    ):
        try:
            logits, end_points = builder_of(record)(images, classes, is_training, **options)
        except ValueError as error:
            height, width = (size or 0 for size in images.shape[1:3])
            if height == width == record.image_size:
                raise
            other = "larger" if min(height, width) < record.image_size else "smaller"
            raise PlanError(
                f"{record.name} cannot be built for pictures of {height} x {width} pixels.",
                expected=f"{other} ones, as its own {record.image_size}",
                received=str(error).split("\n")[0],
                next_step=f"Give a {other} --image-size, or leave it out.",
            ) from error
    if head.hidden and head_input.last is None:
        raise UsageError(
            f"--hidden: the logits of {record.name} are no layer of tf_slim, before which hidden "
            "layers could be put.",
            expected="slim.fully_connected or slim.conv2d with num_classes outputs, called as "
            f"tf_slim's attribute, in the scope {record.main_head}",
            received=f"--hidden {','.join(map(str, head.hidden))}",
            next_step="Build the hidden layers in the function, and leave --hidden out.",
        )
    bottleneck = end_points[record.bottleneck]
    if bottleneck is head_input.last:
        bottleneck = head_input.bottleneck
    tf = load_tensorflow()
    activation = tf.nn.sigmoid if head.multi_label else tf.nn.softmax
    return BuiltNet(
        net=record,
        logits=logits,
        predictions=activation(logits, name="probabilities"),
        bottleneck=bottleneck,
        end_points=end_points,
    )


def builder_of(net: Net) -> Callable[..., Any]:
    """The function that builds a net."""
    if isinstance(net, (GraphNet, OwnNet)):
        return net.build
    return load_builder(net.builder)


def load_builder(builder: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, function = builder.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded


@dataclass(frozen=True)
class InferenceGraph:
    """A net in evaluation mode as a message, variables kept, with a free batch dimension.

    Attributes:
      graph_def: the tensorflow.GraphDef.
      input: tensor name of the placeholder, float32 [?, size, size, channels].
      logits: tensor name, float32 [?, classes].
      probabilities: tensor name, float32 [?, classes].
      bottleneck: tensor name, float32 [?, 1, 1, channels] or [?, channels].
      variables: the net's variables, in the order they were made.
    """

    graph_def: Any
    input: str
    logits: str
    probabilities: str
    bottleneck: str
    variables: tuple[NetVariable, ...]


def inference_graph(
    net: Net | str, classes: int, image_size: int | None = None, head: Head = LINEAR
) -> InferenceGraph:
    """Builds a net for evaluation in a graph of its own.

    Args:
      net: a record, or the name of one.
      classes: length of the logits.
      image_size: height and width in pixels; the record's where left out.
      head: hidden layers before the logits.
    """
    record = get_net(net) if isinstance(net, str) else net
    size = image_size or record.image_size
    channels = Preprocessing(record.preprocessing, size).channels
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        images = v1.placeholder(tf.float32, [None, size, size, channels], name=INPUT)
        built = build_net(record, images, classes, head=head)
        return InferenceGraph(
            graph_def=graph.as_graph_def(),
            input=images.name,
            logits=built.logits.name,
            probabilities=built.predictions.name,
            bottleneck=built.bottleneck.name,
            variables=net_variables(v1.global_variables()),
        )


def net_variables(variables: Sequence[Any]) -> tuple[NetVariable, ...]:
    """What a plan needs to know of TensorFlow variables."""
    return tuple(
        NetVariable(
            name=variable.op.name,
            shape=tuple(variable.shape.as_list()),
            dtype=variable.dtype.base_dtype.name,
            trainable=bool(variable.trainable),
        )
        for variable in variables
    )
