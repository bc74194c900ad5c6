"""Batch norm and dropout of training become those of evaluation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

SHAPE = (6, 6, 2)


@pytest.mark.parametrize(
    "norm",
    [
        {"fused": True},
        {"fused": False},
        {"fused": True, "updates_collections": None},
        {"fused": False, "updates_collections": None},
        {"fused": False, "zero_debias_moving_mean": True},
        {"fused": True, "zero_debias_moving_mean": True, "center": False, "scale": False},
    ],
    ids=lambda norm: ",".join(f"{key}={value}" for key, value in norm.items()),
)
def test_slims_batch_norm_and_dropout(check, norm, slim_net):
    done = check(lambda tf, x, training: slim_net(tf, x, training, **norm))
    assert any("dropout taken out" in note for note in done.notes)
    ops = {node.op for node in read_graph(done.path).nodes.values()}
    assert not {"RandomUniform", "SquaredDifference", "AssignSub"} & ops


def moments_net(tf: Any, pictures: Any, training: bool, kept: str, setting: Any) -> Any:
    """Batch norm as people wrote it by hand, its averages kept in one of three ways."""
    v1 = tf.compat.v1
    mode = setting(tf, training, "phase_train")
    kernel = v1.get_variable("body/weights", [3, 3, 2, 3])
    net = tf.nn.conv2d(pictures, kernel, 1, "SAME")
    scale = v1.get_variable("body/gamma", [3])
    shift = v1.get_variable("body/beta", [3])
    stored = [
        v1.get_variable(f"body/population_{name}", [3], trainable=False)
        for name in ("mean", "variance")
    ]
    if training:
        mean, variance = tf.nn.moments(net, [0, 1, 2])
        updates = [
            v1.assign(store, store * 0.9 + batch * 0.1)
            for store, batch in zip(stored, (mean, variance), strict=True)
        ]
        if kept == "updated in a branch":

            def update():
                with tf.control_dependencies(updates):
                    return tf.identity(mean), tf.identity(variance)

            mean, variance = tf.cond(mode, update, lambda: tuple(map(tf.identity, stored)))
        else:
            with tf.control_dependencies(updates):
                mean, variance = tf.identity(mean), tf.identity(variance)
    else:
        mean, variance = stored
    net = tf.nn.batch_normalization(net, mean, variance, shift, scale, 1e-3)
    weights = v1.get_variable("head/weights", [108, 4])
    return tf.matmul(tf.reshape(tf.nn.relu(net), [-1, 108]), weights, name="logits")


@pytest.mark.parametrize("kept", ["updated in a branch", "updated always"])
def test_batch_norm_written_by_hand(check, kept, setting):
    check(lambda tf, x, training: moments_net(tf, x, training, kept, setting))


def test_statistics_whose_dimensions_were_kept(check):
    def net(tf, x, training):
        v1 = tf.compat.v1
        stored = [
            v1.get_variable(f"population_{name}", [1, 1, 1, 2], trainable=False)
            for name in ("mean", "variance")
        ]
        squeezed = v1.get_variable("squeezed_mean", [2], trainable=False)
        mean, variance = stored
        other = tf.reshape(squeezed, [1, 1, 1, 2])
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2], keepdims=True)
            other = tf.nn.moments(x * 2.0, [0, 1, 2], keepdims=True)[0]
            for store, batch in zip((*stored, squeezed), (mean, variance, other), strict=True):
                batch = tf.reshape(batch, store.shape)
                update = v1.assign_sub(store, (store - batch) * 0.01)
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        net = (x - mean) / tf.sqrt(variance + 1e-3) + other
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    check(net)


def test_an_exponential_moving_average_object(check, control_flow, setting):
    def net(tf, x, training):
        v1 = tf.compat.v1
        average = tf.train.ExponentialMovingAverage(0.9)
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        update = average.apply([mean, variance])
        moved = average.average(mean), average.average(variance)
        if training:

            def with_update():
                with tf.control_dependencies([update]):
                    return tf.identity(mean), tf.identity(variance)

            mode = setting(tf, training, "train_phase")
            mean, variance = tf.cond(mode, with_update, lambda: tuple(map(tf.identity, moved)))
        else:
            mean, variance = moved
        net = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    check(net)


@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_each_op_of_fused_batch_norm(check, op):
    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        empty = tf.constant([], tf.float32)
        normalised = getattr(tf.raw_ops, op)(
            x=x,
            scale=scale,
            offset=shift,
            mean=empty if training else mean,
            variance=empty if training else variance,
            is_training=training,
        )
        if training:
            updates = [
                v1.assign_add(mean, (normalised.batch_mean - mean) * 0.1),
                v1.assign_add(variance, (normalised.batch_variance - variance) * 0.1),
            ]
            for update in updates:
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(normalised.y, [-1, 72]), weights, name="logits")

    check(net)


def test_averages_that_were_never_built_are_refused(train, tmp_path):
    def net(tf, x, training):
        v1 = tf.compat.v1
        scale, shift = v1.get_variable("gamma", [2]), v1.get_variable("beta", [2])
        mean, variance = tf.zeros([2]), tf.ones([2])
        if training:
            net = v1.nn.fused_batch_norm(x, scale, shift, name="norm")[0]
        else:
            net = v1.nn.fused_batch_norm(x, scale, shift, mean, variance, is_training=False)[0]
        means = tf.nn.moments(net, [0], name="hand")
        net = tf.nn.batch_normalization(net, *means, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert (
        "norm (FusedBatchNormV3): nothing in the graph keeps a moving average of its mean"
        in caught.value.message
    )
    assert "hand/variance (Mean): takes the variance of the batch" in caught.value.message
    assert not (tmp_path / "model.pb").exists()
    kept = exporters.convert(trained.prefix, tmp_path / "kept.pb", keep_training=True)
    assert any("nodes of training were kept" in note for note in kept.notes)


def test_only_one_of_the_two_averages_is_refused(train, tmp_path):
    def net(tf, x, training):
        v1 = tf.compat.v1
        store = v1.get_variable("population_variance", [2], trainable=False)
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="hand")
        update = v1.assign(store, store * 0.9 + variance * 0.1)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        net = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert "hand/mean (Mean): is taken over the batch" in caught.value.message


def test_a_session_that_is_still_training(tmp_path, run_frozen, resource, slim_net):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
            x = v1.placeholder(tf.float32, [None, *SHAPE], "pictures")
            slim_net(tf, x, True)
            with v1.Session(graph=graph) as session:
                session.run(v1.global_variables_initializer())
                session.run(v1.get_collection(v1.GraphKeys.UPDATE_OPS), {x: batch})
                done = exporters.freeze(graph, session, path=tmp_path / "model.pb")
                values = session.run({v.op.name: v for v in v1.global_variables()})
        with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
            x = v1.placeholder(tf.float32, [None, *SHAPE], "pictures")
            logits = slim_net(tf, x, False)
            with v1.Session(graph=graph) as session:
                for variable in v1.global_variables():
                    variable.load(values[variable.op.name], session)
                expected = session.run(logits, {x: batch})
    answers = run_frozen(done.path, {"pictures:0": batch}, list(done.outputs))
    np.testing.assert_allclose(answers[done.outputs[0]], expected, rtol=1e-5, atol=1e-6)


def test_averages_that_were_never_moved_are_told(train, tmp_path, slim_net):
    import checkpoints

    trained = train(lambda tf, x, training: slim_net(tf, x, training))
    with checkpoints.open(trained.prefix) as saved:
        values = {name: np.array(saved[name]) for name in saved}
    values["body/BatchNorm/moving_mean"][:] = 0
    values["body/BatchNorm/moving_variance"][:] = 1
    done = exporters.freeze(f"{trained.prefix}.meta", values, path=tmp_path / "m.pb")
    assert any("1 of 1 batch norms are still at their initial values" in note for note in done.said)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_frozen_graph_in_training_mode(train, run_frozen, tmp_path, is_stored):
    """What TensorFlow's own tools make of a training graph: only some hold their averages."""

    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        stored = {"mean": mean, "variance": variance} if is_stored or not training else {}
        net = v1.nn.fused_batch_norm(x, scale, shift, is_training=training, **stored)[0]
        weights = v1.get_variable("head/weights", [72, 4])
        net = tf.nn.dropout(net, 0.5) if training else net
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net, fuss=False)
    exporters.convert(
        trained.prefix, tmp_path / "trained.pb", outputs=["logits"], keep_training=True
    )
    if not is_stored:
        with pytest.raises(GraphError, match="nothing in the graph keeps a moving average"):
            exporters.convert(tmp_path / "trained.pb", tmp_path / "m.pb")
        return
    done = exporters.convert(tmp_path / "trained.pb", tmp_path / "m.pb")
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, ["logits:0"])["logits:0"]
    np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fused", [True, False])
def test_batch_renormalisation_is_refused(train, tmp_path, fused, slim_net):
    def net(tf, x, training):
        return slim_net(tf, x, training, fused=fused, renorm=True, renorm_decay=0.9)

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert "as batch renormalisation does" in caught.value.message
