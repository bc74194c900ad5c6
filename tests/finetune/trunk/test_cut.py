"""Where training begins: the tensor found, and what stands in its way."""

import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.trunk.cut import (
    before_dropout,
    find_cut,
    is_rearranged,
    replace_by_placeholder,
    variables_before,
)

pytestmark = pytest.mark.tensorflow


class Chain:
    """pictures -> first -> (left, right) -> joined -> pooled -> logits, and a loss."""

    def __init__(self):
        tf = load_tensorflow()
        v1 = tf.compat.v1
        self.images = v1.placeholder(tf.float32, [4, 8, 8, 3], name="images")
        self.labels = v1.placeholder(tf.int64, [4], name="labels")
        self.variables = {}

        def conv(inputs, name, channels=4):
            kernel = v1.get_variable(name, [1, 1, inputs.shape[-1], channels])
            self.variables[name] = kernel
            return tf.nn.relu(tf.nn.conv2d(inputs, kernel, 1, "SAME"), name=f"{name}_out")

        self.first = conv(self.images, "first")
        self.joined = tf.concat([conv(self.first, "left"), conv(self.first, "right")], 3)
        self.pooled = tf.reduce_mean(self.joined, [1, 2], name="pooled")
        self.head = self.variables["head"] = v1.get_variable("head", [8, 2])
        self.logits = tf.matmul(self.pooled, self.head)
        self.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, self.logits)
        )

    def cut(self, *names, extra=()):
        changing = [self.variables[name] for name in names]
        gradients = load_tensorflow().gradients(self.loss, changing)
        return find_cut([self.loss, *gradients, *extra], self.images, changing, [self.labels])


@pytest.fixture
def chain():
    with load_tensorflow().Graph().as_default():
        yield Chain()


def test_a_head_is_fed_from_what_is_pooled(chain):
    assert chain.cut("head") is chain.pooled
    assert [v.op.name for v in variables_before(chain.pooled, chain.variables.values())] == [
        "first",
        "left",
        "right",
    ]


def test_a_block_that_trains_is_fed_from_the_tensor_before_its_branches(chain):
    assert chain.cut("left", "head") is chain.first
    assert chain.cut("right") is chain.first


def test_where_the_first_layer_trains_nothing_but_the_pictures_will_do(chain):
    assert chain.cut("first", "head") is None


def test_what_is_random_is_not_stored(chain):
    tf = load_tensorflow()
    noisy = tf.nn.dropout(chain.pooled, rate=0.5)
    head = chain.variables["head"]
    loss = tf.reduce_sum(tf.matmul(noisy, head))
    gradients = tf.gradients(loss, [head])
    arguments = [loss, *gradients], chain.images, [head], [chain.labels]
    # The first product of dropout is the same each time; the bottleneck is what to feed.
    assert find_cut(*arguments).op.name == "dropout/Mul"
    assert find_cut(*arguments, bottleneck=chain.pooled) is chain.pooled
    assert find_cut(*arguments, bottleneck=chain.images) is not chain.images
    assert before_dropout(noisy) is chain.pooled
    assert before_dropout(tf.identity(noisy)) is chain.pooled
    twice = chain.pooled * 2.0
    assert before_dropout(twice) is twice


def test_pictures_in_another_shape_are_told_from_features(chain):
    tf = load_tensorflow()
    flat = tf.reshape(tf.transpose(tf.identity(chain.images), [0, 2, 1, 3]), [4, -1])
    assert is_rearranged(flat, chain.images)
    assert is_rearranged(chain.images, chain.images)
    assert not is_rearranged(2.0 * flat, chain.images)
    assert not is_rearranged(tf.reshape(chain.pooled, [-1]), chain.images)


def test_what_needs_the_pictures_too_cannot_be_cut(chain):
    tf = load_tensorflow()
    both = chain.loss * tf.reduce_sum(tf.square(chain.images)) * tf.reduce_sum(chain.head)
    assert chain.cut("head", extra=[both]) is None


def test_with_a_placeholder_in_its_place_nothing_before_the_tensor_runs(chain):
    tf = load_tensorflow()
    head = chain.variables["head"]
    (gradient,) = tf.gradients(chain.loss, [head])
    pooled = np.arange(32, dtype=np.float32).reshape(4, 8) / 32
    feeds = {"labels:0": np.array([0, 1, 1, 0])}
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        expected = session.run([chain.loss, gradient], {**feeds, chain.pooled: pooled})
    fed = replace_by_placeholder(chain.pooled, "features")
    assert fed.op.type == "Placeholder"
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        # The head has other random values in another session.
        found = session.run([chain.loss, gradient], {**feeds, "features:0": pooled})
    assert found[1].shape == expected[1].shape
    assert np.isfinite(found[0])
