"""What is minimised: cross entropy or a loss of one's own, auxiliary heads, L2; each term once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import PlanError
from checkpoints.scopes import in_scope
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.nets.build import BuiltNet
from finetune.nets.own_net import call_own, load_function

AUXILIARY_WEIGHT = 0.4
"""Share of an auxiliary head's loss, as in "Going Deeper with Convolutions", section 5 (0.3)
and in TF-Slim's training script (0.4), which the published weights come from."""


@dataclass(frozen=True)
class Target:
    """What the logits are compared with.

    Attributes:
      labels: int64 [batch]; or where pictures may have several classes, 0 or 1 for each,
        int64 [batch, classes].
      classes: length of the logits.
      class_weights: a factor a class, in the order of labels; empty: all count alike.
    """

    labels: Any
    classes: int
    class_weights: tuple[float, ...] = ()

    @property
    def is_multi_label(self) -> bool:
        """Whether each class is learned for itself."""
        return bool(self.labels.shape.rank == 2)


def total_loss(
    built: BuiltNet,
    target: Target,
    trainable: Sequence[str],
    variables: Sequence[Any],
    config: TrainConfig,
) -> Any:
    """The loss of a step: a float32 scalar, every term in it once.

    Terms are the main head's loss, 0.4 of that of each auxiliary head that trains, L2 of the
    trained weights, and what the net or a loss of one's own put into TensorFlow's collections
    `losses` and `regularization_losses`. A term that another one contains already is not added
    again, wherever it was registered.

    Args:
      built: the net in training mode.
      target: what its logits should say.
      trainable: the trainable scopes.
      variables: the variables that the optimiser may change.
      config: the options.

    Raises:
      UsageError: there is no such function for a loss of one's own.
      PlanError: it fails, or gives something else than a loss.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    keys = v1.GraphKeys
    for term in _weight_decay(variables, config.weight_decay):
        v1.add_to_collection(keys.REGULARIZATION_LOSSES, term)
    terms = [_head_loss(built.logits, target, config)]
    for scope in built.net.auxiliary_heads:
        if any(in_scope(scope, other) for other in trainable):
            logits = built.end_points[scope.rpartition("/")[2]]
            terms.append(AUXILIARY_WEIGHT * _head_loss(logits, target, config))
    terms += v1.get_collection(keys.LOSSES)
    terms += _about(v1.get_collection(keys.REGULARIZATION_LOSSES), variables)
    return tf.add_n(count_once(terms), name="loss")


def count_once(terms: Sequence[Any]) -> list[Any]:
    """The terms without those that occur again, or that another term was computed from.

    tf.losses registers what it computes in the collection `losses`, where the code of old adds
    its own terms too and sums the whole: the same term may come alone, twice, or inside a sum.

    Args:
      terms: scalar tensors of one graph.
    """
    different = list({id(term): term for term in terms}.values())
    inside: set[int] = set()
    for term in different:
        inside |= {id(tensor) for tensor in _computed_from(term)}
    return [term for term in different if id(term) not in inside]


def cross_entropy(logits: Any, target: Target, label_smoothing: float = 0.0) -> Any:
    """Mean over the batch of the softmax cross entropy: a float32 scalar.

    Where pictures may have several classes, of the sum over all classes of the sigmoid cross
    entropy: the gradient of a logit is then as large as that of the softmax, probability less
    label, and the same learning rates fit.

    It is computed from logits, so that no logarithm of zero is ever taken.

    Args:
      logits: float32 [batch, classes].
      target: labels, and class weights by which each picture's loss is multiplied; of several
        classes each term is, by its own class's.
      label_smoothing: share of the label that is spread over all classes; of several classes the
        share of each that becomes one half.

    Source:
      "Rethinking the Inception Architecture for Computer Vision", section 7 (smoothing).
    """
    tf = load_tensorflow()
    if target.is_multi_label:
        return _sigmoid_cross_entropy(logits, target, label_smoothing)
    expected = tf.one_hot(target.labels, target.classes)
    if label_smoothing:
        expected = expected * (1.0 - label_smoothing) + label_smoothing / float(target.classes)
    losses = tf.nn.softmax_cross_entropy_with_logits(expected, logits)
    if target.class_weights:
        losses *= tf.gather(tf.constant(target.class_weights, tf.float32), target.labels)
    return tf.reduce_mean(losses)


def _sigmoid_cross_entropy(logits: Any, target: Target, label_smoothing: float) -> Any:
    tf = load_tensorflow()
    expected = tf.cast(target.labels, tf.float32)
    if label_smoothing:
        expected = expected * (1.0 - label_smoothing) + 0.5 * label_smoothing
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=expected, logits=logits)
    if target.class_weights:
        losses *= tf.constant(target.class_weights, tf.float32)
    return tf.reduce_mean(tf.reduce_sum(losses, axis=1))


def _head_loss(logits: Any, target: Target, config: TrainConfig) -> Any:
    """A scalar: the loss of one head."""
    if config.loss is None:
        return cross_entropy(logits, target, config.label_smoothing)
    tf = load_tensorflow()
    function = load_function(config.loss)
    expected = "a function (labels, logits) that gives a float tensor"
    loss = call_own(
        f"--loss {config.loss}", expected, function, labels=target.labels, logits=logits
    )
    if (
        not isinstance(loss, tf.Tensor)
        or not loss.dtype.is_floating
        or loss.shape.rank not in (0, 1)
    ):
        raise PlanError(
            f"--loss {config.loss} gives no loss.",
            expected="a float tensor: a scalar, or one number a picture",
            received=loss,
        )
    return tf.reduce_mean(tf.cast(loss, tf.float32)) if loss.shape.rank else loss


def _weight_decay(variables: Iterable[Any], factor: float) -> list[Any]:
    """L2 of each trained weight that the net did not give a term of its own."""
    if not factor:
        return []
    tf = load_tensorflow()
    v1 = tf.compat.v1
    own = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
    regularised = {name for term in own for name in _variables_of(term)}
    return [
        factor * tf.nn.l2_loss(variable)
        for variable in variables
        if variable.op.name.endswith("weights") and variable.op.name not in regularised
    ]


def _about(terms: Iterable[Any], variables: Iterable[Any]) -> list[Any]:
    """The terms that depend on a trained variable; of frozen ones they are constants."""
    trained = {variable.op.name for variable in variables}
    return [term for term in terms if trained.intersection(_variables_of(term))]


def _variables_of(term: Any) -> set[str]:
    """Names of the variables a tensor depends on."""
    kinds = {"VarHandleOp", "VariableV2", "Variable"}
    return {tensor.op.name for tensor in _computed_from(term) if tensor.op.type in kinds}


def _computed_from(tensor: Any) -> list[Any]:
    """All tensors that a tensor was computed from, itself apart."""
    found: dict[int, Any] = {}
    waiting = list(tensor.op.inputs)
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting.extend(one.op.inputs)
    return list(found.values())
