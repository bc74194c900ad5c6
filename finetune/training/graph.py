"""The graph of a training step: batches in, loss out, exactly the planned variables changed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.published import Net
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.nets.build import BuiltNet, build_net
from finetune.training.averages import joined_averages, updates_within
from finetune.training.heads import Head
from finetune.training.layer_rates import apply_gradients, clipped, rate_factors
from finetune.training.losses import Target, total_loss
from finetune.training.moving_average import MovingAverage
from finetune.training.optimizers import make_optimizer
from finetune.training.option_checks import read_rate_factors
from finetune.training.phases import Phase
from finetune.workers.workers import ALONE, Workers


@dataclass(frozen=True)
class TrainingGraph:
    """The tensors of a training step.

    Attributes:
      train: runs one step and gives the loss, a float32 scalar.
      loss: float32 scalar, all terms.
      logits: float32 [batch, classes].
      gradients: an operation that computes all gradients of this process and changes nothing.
      accuracy: float32 scalar, the share of the batch that was right before the step.
      learning_rate: float32 scalar.
      step: the global step, int64 scalar variable.
      average: the moving average of the trained weights, or None.
      bottleneck: what feeds the main head.
    """

    train: Any
    loss: Any
    logits: Any
    gradients: Any
    accuracy: Any
    learning_rate: Any
    step: Any
    average: MovingAverage | None
    bottleneck: Any

    @property
    def fetches(self) -> tuple[Any, Any, Any]:
        """What a step runs: gives loss, accuracy and learning rate."""
        return self.train, self.accuracy, self.learning_rate


def build_training_net(
    net: Net, images: Any, classes: int, phase: Phase, config: TrainConfig
) -> BuiltNet:
    """The net with its trainable scopes in training mode and all others in inference mode."""
    return build_net(
        net,
        images,
        classes,
        is_training=True,
        training_scopes=phase.trainable,
        dropout=config.dropout,
        batch_norm_scopes=phase.updating,
        batch_norm_decay=phase.batch_norm_decay,
        head=head_of(config),
        step=load_tensorflow().compat.v1.train.get_or_create_global_step(),
    )


def head_of(config: TrainConfig) -> Head:
    """The hidden layers that the options ask for."""
    return Head(config.hidden, config.activation)


def build_training_step(
    built: BuiltNet,
    target: Target,
    phase: Phase,
    variables: Sequence[Any],
    config: TrainConfig,
    workers: Workers = ALONE,
) -> TrainingGraph:
    """Adds loss, gradients and updates to the current graph.

    Args:
      built: the net in training mode.
      target: what its logits should say.
      phase: the trainable scopes and the learning rate.
      variables: the variables that the optimiser may change.
      config: the options.
      workers: the processes whose gradients, losses and averages are one mean.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    step = v1.train.get_or_create_global_step()
    loss = total_loss(built, target, phase.trainable, variables, config)
    learning_rate = phase.schedule.tensor(step - phase.first if phase.first else step)
    if target.is_multi_label:
        # A logit from 0 on is a probability from one half on; a picture is right with all classes.
        right = tf.reduce_all(tf.equal(built.logits >= 0, target.labels > 0), axis=1)
    else:
        right = tf.equal(tf.argmax(built.logits, 1), target.labels)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
    # Two by two: sums of more begin with whichever is ready, and differ in their last bits.
    summed = tf.AggregationMethod.EXPERIMENTAL_TREE
    gradients = tf.gradients(loss, list(variables), aggregation_method=summed)
    joined = clipped(_joined(gradients, variables, workers), config.clip_norm)
    updates = updates_within(v1.get_collection(v1.GraphKeys.UPDATE_OPS), phase.trainable)
    updates = joined_averages(updates, workers)
    factors = rate_factors(
        [variable.op.name for variable in variables],
        built.net.head_scopes,
        config.layer_decay,
        read_rate_factors(config.learning_rate_factors),
    )
    with tf.control_dependencies([*updates, accuracy]):
        done = apply_gradients(
            functools.partial(make_optimizer, config.optimizer, options=config.optimizer_options),
            learning_rate,
            list(zip(joined, variables, strict=True)),
            factors,
            step,
        )
    average = None
    if config.ema is not None:
        with tf.control_dependencies([done]):
            average = MovingAverage(variables, config.ema, step)
            done = average.update()
    whole_loss, whole_accuracy = workers.mean([loss, accuracy])
    with tf.control_dependencies([done]):
        train = tf.identity(whole_loss, name="train")
    return TrainingGraph(
        train=train,
        loss=loss,
        logits=built.logits,
        gradients=tf.group(*gradients),
        accuracy=whole_accuracy,
        learning_rate=learning_rate,
        step=step,
        average=average,
        bottleneck=built.bottleneck,
    )


def _joined(gradients: Sequence[Any], variables: Sequence[Any], workers: Workers) -> list[Any]:
    """The gradients of the joined batch: the mean of those of all processes."""
    if workers.count == 1:
        return list(gradients)
    tf = load_tensorflow()
    pairs = zip(gradients, variables, strict=True)
    dense = [
        tf.ensure_shape(tf.convert_to_tensor(gradient), variable.shape)
        for gradient, variable in pairs
        if gradient is not None
    ]
    means = iter(workers.mean(dense))
    return [None if gradient is None else next(means) for gradient in gradients]
