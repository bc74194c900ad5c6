"""The graph of a training step: batches in, loss out, exactly the planned variables changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.published import Net
from checkpoints.scopes import in_scope, in_scopes
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.nets.build import BuiltNet, build_net
from finetune.optimizers import make_optimizer
from finetune.schedules import learning_rate_tensor

AUXILIARY_WEIGHT = 0.4
"""Share of an auxiliary head's loss, as in "Going Deeper with Convolutions", section 5 (0.3)
and in TF-Slim's training script (0.4), which the published weights come from."""


@dataclass(frozen=True)
class TrainingGraph:
    """The tensors of a training step.

    Attributes:
      train: runs one step and gives the loss, a float32 scalar.
      loss: float32 scalar, all terms.
      accuracy: float32 scalar, the share of the batch that was right before the step.
      learning_rate: float32 scalar.
      step: the global step, int64 scalar variable.
    """

    train: Any
    loss: Any
    accuracy: Any
    learning_rate: Any
    step: Any


def build_training_net(
    net: Net, images: Any, classes: int, trainable: Sequence[str], dropout: float | None
) -> BuiltNet:
    """The net with its trainable scopes in training mode and all others in inference mode."""
    return build_net(
        net, images, classes, is_training=True, training_scopes=trainable, dropout=dropout
    )


def build_training_step(
    built: BuiltNet,
    labels: Any,
    classes: int,
    trainable: Sequence[str],
    variables: Sequence[Any],
    config: TrainConfig,
    decay_steps: int,
) -> TrainingGraph:
    """Adds loss, gradients and updates to the current graph.

    Args:
      built: the net in training mode.
      labels: int64 [batch].
      classes: length of the logits.
      trainable: the trainable scopes.
      variables: the variables that the optimiser may change.
      config: the options.
      decay_steps: steps of one decay of the learning rate.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    step = v1.train.get_or_create_global_step()
    expected = tf.one_hot(labels, classes)
    terms = [_cross_entropy(built.logits, expected, config.label_smoothing)]
    for scope in built.net.auxiliary_heads:
        if any(in_scope(scope, other) for other in trainable):
            logits = built.end_points[scope.rpartition("/")[2]]
            smoothed = _cross_entropy(logits, expected, config.label_smoothing)
            terms.append(AUXILIARY_WEIGHT * smoothed)
    if config.weight_decay:
        terms += [
            config.weight_decay * tf.nn.l2_loss(variable)
            for variable in variables
            if variable.op.name.endswith("weights")
        ]
    loss = tf.add_n(terms, name="loss")
    learning_rate = learning_rate_tensor(
        config.schedule,
        config.first_learning_rate,
        step,
        decay_steps,
        config.decay_rate,
        config.staircase,
    )
    right = tf.equal(tf.argmax(built.logits, 1), labels)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
    optimizer = make_optimizer(config.optimizer, learning_rate)
    updates = [
        update
        for update in v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        if in_scopes(update.name, trainable)
    ]
    with tf.control_dependencies([*updates, accuracy]):
        step_op = optimizer.minimize(loss, global_step=step, var_list=list(variables))
    with tf.control_dependencies([step_op]):
        train = tf.identity(loss, name="train")
    return TrainingGraph(train, loss, accuracy, learning_rate, step)


def _cross_entropy(logits: Any, expected: Any, label_smoothing: float) -> Any:
    """Mean over the batch of the softmax cross entropy, labels smoothed.

    Source: "Rethinking the Inception Architecture for Computer Vision", section 7.
    """
    tf = load_tensorflow()
    if label_smoothing:
        classes = expected.shape[-1]
        expected = expected * (1.0 - label_smoothing) + label_smoothing / float(classes)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(expected, logits))
