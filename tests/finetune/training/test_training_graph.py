"""The graph of a step: what keeps its bits the same each time."""

import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.training.averages import updates_within
from finetune.training.graph import build_training_net, build_training_step
from finetune.training.losses import Target
from finetune.training.phases import make_phases
from finetune.training.precision import training_session_config

pytestmark = pytest.mark.tensorflow


def test_gradients_are_added_two_by_two_and_nothing_joins_the_sums_again():
    from checkpoints.published import get_net

    tf = load_tensorflow()
    v1 = tf.compat.v1
    net = get_net("inception_v1")
    config = TrainConfig(data="d", run="r", trainable=("all",))
    (phase,) = make_phases(config, net, 10, 100)
    with tf.Graph().as_default() as graph:
        images = tf.constant(np.zeros((2, 224, 224, 3), np.float32))
        built = build_training_net(net, images, 3, phase, config)
        target = Target(tf.constant([0, 2], tf.int64), 3)
        build_training_step(built, target, phase, v1.trainable_variables(), config)
    sums = [
        op
        for op in graph.get_operations()
        if op.type == "AddN" and op.outputs[0].shape.rank and "gradient" in op.name
    ]
    assert len(sums) > 8
    assert {len(op.inputs) for op in sums} == {2}
    rewrites = training_session_config("fp32").graph_options.rewrite_options
    assert rewrites.arithmetic_optimization == type(rewrites).OFF


def test_the_averages_of_a_trained_scope_move_where_the_nets_operations_repeat_its_scope():
    from checkpoints.published import get_net

    tf = load_tensorflow()
    v1 = tf.compat.v1
    net = get_net("inception_v3_sample")
    scopes = ("InceptionV3/Logits", "InceptionV3/Mixed_7c")
    config = TrainConfig(data="d", run="r", trainable=scopes)
    (phase,) = make_phases(config, net, 10, 100)
    with tf.Graph().as_default(), v1.Session() as session:
        pictures = np.random.default_rng(3).uniform(-1, 1, (2, 107, 107, 3)).astype(np.float32)
        built = build_training_net(net, tf.constant(pictures), 3, phase, config)
        trained = [v for v in v1.trainable_variables() if v.op.name.startswith(scopes)]
        target = Target(tf.constant([0, 2], tf.int64), 3)
        step = build_training_step(built, target, phase, trained, config)
        session.run(v1.global_variables_initializer())
        averages = [v for v in v1.global_variables() if "/moving_" in v.op.name]
        before = session.run(averages)
        session.run(step.train)
        after = session.run(averages)
    moved = {
        variable.op.name
        for variable, old, new in zip(averages, before, after, strict=True)
        if old.tobytes() != new.tobytes()
    }
    within = {v.op.name for v in averages if v.op.name.startswith("InceptionV3/Mixed_7c/")}
    assert len(within) == 18
    assert moved == within


def test_of_updates_in_a_group_those_of_trained_scopes_run():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        names = ("Net/a/mean", "Net/ab/mean", "Net/a/variance", "Net/b/mean")
        one, near, other, frozen = [v1.get_variable(name, initializer=0.0) for name in names]
        grouped = tf.group(v1.assign(one, 1.0), v1.assign(frozen, 1.0))
        named = tf.no_op("Net/a/told")
        updates = [grouped, v1.assign_add(near, 1.0), tf.identity(v1.assign(other, 2.0)), named]
        found = updates_within(updates, ["Net/a"])
        assert named in found
        session.run(v1.global_variables_initializer())
        session.run(found)
        assert session.run([one, near, other, frozen]) == [1.0, 0.0, 2.0, 0.0]
