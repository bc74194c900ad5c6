"""What is minimised, compared with numpy; each term once, wherever it was registered."""

import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest

from checkpoints.errors import PlanError, UsageError
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.training.losses import Target, count_once, cross_entropy, total_loss

pytestmark = pytest.mark.tensorflow

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 4.0, 1.0]], np.float32)
LABELS = np.array([0, 2, 1], np.int64)


@pytest.fixture
def session():
    tf = load_tensorflow()
    with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
        yield opened


@dataclass
class Heads:
    auxiliary_heads: tuple = ("Net/AuxLogits",)


@dataclass
class Built:
    logits: object
    end_points: dict
    net: object


def built(auxiliary=LOGITS):
    tf = load_tensorflow()
    return Built(tf.constant(LOGITS), {"AuxLogits": tf.constant(auxiliary)}, Heads())


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def variables():
    v1 = load_tensorflow().compat.v1
    with v1.variable_scope("Net/Logits"):
        weights = v1.get_variable("weights", initializer=np.array([1.0, 2.0], np.float32))
        biases = v1.get_variable("biases", initializer=np.array([5.0], np.float32))
    return [weights, biases]


def total(session, trainable=("Net/Logits",), **options):
    """The whole loss as a number."""
    config = TrainConfig(data="d", run="r", **{"weight_decay": 0.0, **options})
    target = Target(load_tensorflow().constant(LABELS), 3)
    chosen = variables()
    loss = total_loss(built(), target, trainable, chosen, config)
    session.run([variable.initializer for variable in chosen])
    return session.run(loss)


def test_cross_entropy_with_smoothing_and_class_weights(session):
    tf = load_tensorflow()
    target = Target(tf.constant(LABELS), 3, (1.0, 2.0, 0.5))
    expected = np.full((3, 3), 0.1 / 3)
    expected[np.arange(3), LABELS] += 0.9
    each = -(expected * log_softmax(LOGITS)).sum(axis=1) * np.array([1.0, 0.5, 2.0])
    found = session.run(cross_entropy(tf.constant(LOGITS), target, 0.1))
    assert found == pytest.approx(each.mean(), rel=1e-6)


def test_of_several_classes_each_has_a_term_of_its_own(session):
    tf = load_tensorflow()
    shown = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], np.int64)
    logits = tf.constant(LOGITS)
    target = Target(tf.constant(shown), 3, (1.0, 2.0, 0.5))
    # A label of 1 becomes 0.95, one of 0 becomes 0.05.
    expected, said = 0.05 + 0.9 * shown, 1 / (1 + np.exp(-LOGITS.astype(np.float64)))
    each = -(expected * np.log(said) + (1 - expected) * np.log(1 - said)) * [1.0, 2.0, 0.5]
    assert session.run(cross_entropy(logits, target, 0.1)) == pytest.approx(
        each.sum(axis=1).mean(), rel=1e-6
    )
    plain = cross_entropy(logits, Target(tf.constant(shown), 3))
    gradient = session.run(tf.gradients(plain, logits)[0])
    np.testing.assert_allclose(gradient, (said - shown) / 3, rtol=1e-5)


def test_no_logarithm_of_zero_is_taken_however_sure_the_logits_are(session):
    tf = load_tensorflow()
    logits = tf.constant([[1e4, -1e4, 0.0], [-1e4, 1e4, -1e30]])
    target = Target(tf.constant([1, 2], tf.int64), 3)
    loss = cross_entropy(logits, target, 0.1)
    found, gradient = session.run((loss, tf.gradients(loss, logits)[0]))
    assert np.isfinite(found) and np.isfinite(gradient).all()


def test_an_auxiliary_head_counts_with_four_tenths_where_it_trains(session):
    main = -log_softmax(LOGITS)[np.arange(3), LABELS].mean()
    assert total(session) == pytest.approx(main, rel=1e-6)
    tf = load_tensorflow()
    with tf.Graph().as_default(), tf.compat.v1.Session() as other:
        both = total(other, trainable=("Net",))
    assert both == pytest.approx(1.4 * main, rel=1e-6)


def test_weight_decay_is_half_the_squares_of_weights_not_of_biases(session):
    without = -log_softmax(LOGITS)[np.arange(3), LABELS].mean()
    assert total(session, weight_decay=0.1) == pytest.approx(without + 0.1 * 2.5, rel=1e-6)
    v1 = load_tensorflow().compat.v1
    assert len(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)) == 1


def test_a_net_that_regularises_its_weights_itself_gets_no_second_term(session):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    config = TrainConfig(data="d", run="r", weight_decay=0.1)
    chosen = variables()
    frozen = v1.get_variable("Other/weights", initializer=np.array([9.0], np.float32))
    for variable in (chosen[0], frozen):
        v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, 3.0 * tf.nn.l2_loss(variable))
    target = Target(tf.constant(LABELS), 3)
    loss = total_loss(built(), target, ("Net/Logits",), chosen, config)
    session.run([variable.initializer for variable in [*chosen, frozen]])
    main = -log_softmax(LOGITS)[np.arange(3), LABELS].mean()
    assert session.run(loss) == pytest.approx(main + 3.0 * 2.5, rel=1e-6)


def test_terms_count_once_whether_alone_twice_or_inside_a_sum(session):
    tf = load_tensorflow()
    one, two, three = (tf.constant(value) + 0.0 for value in (1.0, 10.0, 100.0))
    both = tf.add_n([one, two])
    assert session.run(count_once([one, two, one, three])) == [1.0, 10.0, 100.0]
    assert session.run(count_once([one, both, three, two])) == [11.0, 100.0]


@pytest.fixture
def own_loss(monkeypatch):
    """Registers a module `slimtune_own_loss` with one function `loss`."""

    def register(function):
        module = types.ModuleType("slimtune_own_loss")
        module.loss = function
        monkeypatch.setitem(sys.modules, "slimtune_own_loss", module)
        return "slimtune_own_loss:loss"

    return register


def too_few_costs_more(labels, logits):
    """Ten times for each piece that is missing, once for each that is left over."""
    tf = load_tensorflow()
    wanted, made = tf.cast(labels, tf.float32), logits[:, 0]
    return tf.where(tf.greater(made, wanted), made - wanted, 10.0 * (wanted - made))


def test_a_piecewise_loss_of_ones_own(session, own_loss):
    found = total(session, loss=own_loss(too_few_costs_more))
    made, wanted = LOGITS[:, 0], LABELS
    expected = np.where(made > wanted, made - wanted, 10.0 * (wanted - made)).mean()
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_loss_that_mixes_tf_losses_with_the_collection_counts_each_term_once(session, own_loss):
    tf = load_tensorflow()
    v1 = tf.compat.v1

    def loss(labels, logits):
        # tf.losses has put its term into the collection already.
        term = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        v1.add_to_collection("losses", term)
        v1.add_to_collection("losses", tf.constant(7.0) + 0.0)
        return tf.add_n(v1.get_collection("losses")[1:])

    main = -log_softmax(LOGITS)[np.arange(3), LABELS].mean()
    found = total(session, loss=own_loss(loss), weight_decay=0.1)
    assert found == pytest.approx(main + 7.0 + 0.25, rel=1e-6)


@pytest.mark.parametrize("value", [None, 3.0, "text"])
def test_a_function_that_gives_no_loss_is_refused(session, own_loss, value):
    with pytest.raises(PlanError, match="gives no loss") as caught:
        total(session, loss=own_loss(lambda labels, logits: value))
    assert caught.value.received == str(value) or value is None


def test_a_loss_that_cannot_be_loaded_is_named(session):
    with pytest.raises(UsageError, match="There is no function nowhere:loss"):
        total(session, loss="nowhere:loss")


def failing(labels, logits):
    raise ValueError("my own fault")


@pytest.mark.parametrize(
    ("function", "received"),
    [
        (failing, f"ValueError: my own fault ({__file__}, line "),
        (lambda wanted, made: made, "TypeError: "),
    ],
)
def test_a_loss_that_fails_is_told_with_its_file_and_message(session, own_loss, function, received):
    with pytest.raises(PlanError, match=r"The function --loss slimtune_own_loss:loss fails\.") as e:
        total(session, loss=own_loss(function))
    assert e.value.received.startswith(received)
    assert __file__ in e.value.received
