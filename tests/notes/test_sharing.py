"""The notes on scopes: variables shared under reuse, shapes of biases, what a scope holds."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import PlanError
from finetune import partition

pytestmark = pytest.mark.tensorflow

PICTURES = np.random.default_rng(2).random((2, 6, 6, 32), np.float32)
SHARED = [f"filter/conv{n}/{what}" for n in (1, 2) for what in ("weights", "biases")]


def get_biases(v1):
    return v1.get_variable("biases", [32], initializer=v1.constant_initializer(0.1))


def image_filter(v1, images, make_biases=get_biases):
    """Two convolutions of 5 x 5 from 32 to 32 channels, in the scope `filter`."""
    net = images
    with v1.variable_scope("filter", reuse=v1.AUTO_REUSE):
        for name in ("conv1", "conv2"):
            with v1.variable_scope(name):
                weights = v1.get_variable("weights", [5, 5, 32, 32])
                net = v1.nn.conv2d(net, weights, padding="SAME") + make_biases(v1)
                net = v1.nn.relu(net)
    return net


@pytest.fixture(scope="module")
def pretrained(v1, tmp_path_factory):
    """A checkpoint of one filter, written by us; its prefix and its values."""
    draw = np.random.default_rng(3).normal
    written = {
        name: draw(0, 0.05, [32] if name.endswith("biases") else [5, 5, 32, 32]).astype("f4")
        for name in SHARED
    }
    prefix = tmp_path_factory.mktemp("filter") / "filter.ckpt"
    checkpoints.write(prefix, written)
    return prefix, written


def test_two_towers_one_set_of_variables(v1, session, pretrained):
    """Variables under two towers are made once, planned once, restored once and trained as one."""
    prefix, written = pretrained
    towers = [image_filter(v1, v1.constant(PICTURES)) for _ in range(2)]
    assert [variable.op.name for variable in v1.global_variables()] == SHARED
    assert [variable.name for variable in v1.global_variables()] == [f"{n}:0" for n in SHARED]
    plan = partition(v1.global_variables(), prefix, trainable=["filter/conv2"])
    one, both = (
        v1.gradients([v1.reduce_sum(tower) for tower in some], plan.trainable_variables)
        for some in (towers[:1], towers)
    )
    train_op = v1.train.GradientDescentOptimizer(1e-3).apply_gradients(
        zip(both, plan.trainable_variables, strict=True)
    )
    plan.apply(session)
    for alone, together in zip(*session.run((one, both)), strict=True):
        np.testing.assert_allclose(together, 2 * alone, rtol=1e-5)
    before = session.run(towers)
    assert np.array_equal(*before)
    session.run(train_op)
    after = session.run(towers)
    assert np.array_equal(*after)
    assert not np.array_equal(before[0], after[0])
    assert plan.verify_frozen(session) == 2
    now = dict(zip(SHARED, session.run(v1.global_variables()), strict=True))
    assert [n for n in SHARED if np.array_equal(now[n], written[n])] == SHARED[:2]


def test_biases_are_shared_under_reuse_like_weights(v1, session, pretrained):
    """Fault: biases made by tf.Variable are new ones in every tower, whatever the scope says."""
    for _ in range(2):
        image_filter(v1, v1.constant(PICTURES), lambda v1: v1.Variable(np.full(32, 0.1, "f4")))
    made = [variable.op.name for variable in v1.global_variables()]
    assert [name for name in made if "weights" in name] == [SHARED[0], SHARED[2]]
    own = [name for name in made if "weights" not in name]
    assert len(own) == 4
    with pytest.raises(PlanError) as caught:
        partition(v1.global_variables(), pretrained[0], trainable=["filter"])
    assert "lacks 4 variables of the net" in caught.value.message
    assert all(name in caught.value.message for name in own)


def test_without_reuse_a_second_variable_of_the_name_is_refused(v1, session):
    with v1.variable_scope("foo"):
        made = v1.get_variable("v", [1])
    assert made.name == "foo/v:0"
    with v1.variable_scope("foo"), pytest.raises(ValueError, match="foo/v already exists"):
        v1.get_variable("v", [1])
    with v1.variable_scope("foo", reuse=True):
        assert v1.get_variable("v", [1]) is made


def test_biases_have_rank_one(v1, session, tmp_path):
    """[1, 10] adds up the same, and is another variable than a checkpoint's [10]: told, not loaded."""
    checkpoints.write(tmp_path / "layer.ckpt", {"layer2/biases": np.full(10, 0.1, np.float32)})
    with v1.variable_scope("layer2"):
        flat = v1.get_variable("biases", [10])
    plan = partition([flat], tmp_path / "layer.ckpt", trainable=["layer2"])
    plan.apply(session)
    assert session.run(flat).tolist() == pytest.approx([0.1] * 10)
    with v1.Graph().as_default(), v1.variable_scope("layer2"):
        row = v1.get_variable("biases", [1, 10])
        with pytest.raises(PlanError) as caught:
            partition([row], tmp_path / "layer.ckpt", trainable=["layer2"])
    assert "layer2/biases: checkpoint [10], net [1, 10]" in caught.value.message


def test_a_scope_holds_whole_path_parts(v1, session):
    """get_collection matches a prefix: Conv2d_1 takes Conv2d_10 along. A plan's scope does not."""
    for name in ("Net/Conv2d_1/weights", "Net/Conv2d_10/weights", "Net/Logits/weights"):
        v1.get_variable(name, [2])
    trainable = v1.GraphKeys.TRAINABLE_VARIABLES
    by_prefix = [v.op.name for v in v1.get_collection(trainable, scope="Net/Conv2d_1")]
    assert by_prefix == ["Net/Conv2d_1/weights", "Net/Conv2d_10/weights"]
    plan = partition(v1.global_variables(), None, trainable=["Net/Conv2d_1"])
    assert [v.op.name for v in plan.trainable_variables] == ["Net/Conv2d_1/weights"]
