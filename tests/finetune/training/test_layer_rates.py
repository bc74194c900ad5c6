import numpy as np
import pytest

from checkpoints.errors import PlanError
from exporters.runtime import load_tensorflow
from finetune.training.layer_rates import apply_gradients, clipped, rate_factors
from finetune.training.optimizers import DEFAULT_LEARNING_RATES, make_optimizer

NAMES = [
    "Net/Block1/weights",
    "Net/Block1/BatchNorm/beta",
    "Net/Block10/weights",
    "Net/AuxLogits/fc/weights",
    "Net/Logits/fc/weights",
]
HEADS = ("Net/Logits", "Net/AuxLogits")


def test_layer_decay_falls_block_by_block_from_the_heads():
    assert list(rate_factors(NAMES, HEADS, 0.5, {}).values()) == [0.25, 0.25, 0.5, 1.0, 1.0]


def test_the_longest_scope_counts_and_comes_on_top():
    factors = rate_factors(NAMES, HEADS, 0.5, {"Net": 2.0, "Net/Block1": 10.0, "Net/Logits": 0.0})
    assert list(factors.values()) == [2.5, 2.5, 1.0, 2.0, 0.0]


def test_a_scope_that_trains_in_another_phase_changes_nothing():
    factors = rate_factors(NAMES, HEADS, None, {"Net/Block2": 2.0})
    assert set(factors.values()) == {1.0}


def updated(name, factors, gradients=(1.0, 2.0, 3.0), steps=1, options=()):
    """Three variables that began at 1 after steps with constant gradients, and the step."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        variables = [v1.get_variable(n, initializer=np.float32(1.0)) for n in "abc"]
        pairs = [(tf.constant(g), v) for g, v in zip(gradients, variables, strict=True)]
        rate = tf.constant(0.1)
        done = apply_gradients(
            lambda rate: make_optimizer(name, rate, options), rate, pairs, factors, step
        )
        session.run([v.initializer for v in v1.global_variables()])
        for _ in range(steps):
            session.run(done)
        return session.run((variables, step))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", DEFAULT_LEARNING_RATES)
def test_a_factor_is_a_rate_of_its_own_with_every_optimiser(name):
    values, step = updated(name, {"a": 1.0, "b": 0.5, "c": 0.0}, steps=3)
    assert step == 3
    assert values[2] == 1.0
    halved, _ = updated(name, {"a": 0.5, "b": 0.5, "c": 0.5}, steps=3)
    whole, _ = updated(name, {"a": 1.0, "b": 1.0, "c": 1.0}, steps=3)
    assert values[:2] == pytest.approx([whole[0], halved[1]], rel=1e-6)
    assert whole[0] < 1.0 and halved[0] != whole[0]


@pytest.mark.tensorflow
def test_rmsprop_is_tf_slims():
    (value, *_), _ = updated("rmsprop", dict.fromkeys("abc", 1.0), steps=2)
    # TensorFlow's accumulator of squares begins at 1.
    squares, momentum, expected = 1.0, 0.0, 1.0
    for _ in range(2):
        squares = 0.9 * squares + 0.1 * 1.0
        momentum = 0.9 * momentum + 0.1 * 1.0 / np.sqrt(squares + 1.0)
        expected -= momentum
    assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.tensorflow
def test_settings_of_an_optimiser_count():
    (value, *_), _ = updated("adam", dict.fromkeys("abc", 1.0), options=("epsilon=1",))
    # Adam's first step, with its epsilon as TensorFlow scales it: the moments are 0.1 and 0.001.
    rate = 0.1 * np.sqrt(1 - 0.999) / (1 - 0.9)
    assert value == pytest.approx(1 - rate * 0.1 / (np.sqrt(0.001) + 1), rel=1e-6)
    assert make_optimizer("adadelta", 0.1, ("rho=0.5",)).get_name() == "Adadelta"


@pytest.mark.tensorflow
def test_gradients_are_scaled_down_together():
    tf = load_tensorflow()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        gradients = [tf.constant([3.0]), tf.constant([4.0])]
        assert np.ravel(session.run(clipped(gradients, 1.0))) == pytest.approx([0.6, 0.8])
        assert np.ravel(session.run(clipped(gradients, 9.0))) == pytest.approx([3.0, 4.0])
        assert clipped(gradients, None) == gradients


@pytest.mark.tensorflow
def test_a_variable_that_the_loss_does_not_reach_is_named():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        variable = v1.get_variable("lonely", initializer=1.0)
        step = v1.train.get_or_create_global_step()
        with pytest.raises(PlanError, match="lonely"):
            apply_gradients(
                lambda rate: make_optimizer("sgd", rate), 0.1, [(None, variable)], {}, step
            )
