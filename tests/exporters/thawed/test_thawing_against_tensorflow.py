"""Thawed graphs, imported, run and trained by TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.options import ModelOptions
from exporters.runtime import load_tensorflow
from finetune.slim import load_slim, quietly

pytestmark = pytest.mark.tensorflow


def train_one_step(done, output, feeds, classes):
    """Imports, restores and trains; returns answers before, values before and after, trainables."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        saver = v1.train.import_meta_graph(f"{done.path}.meta")
        variables = v1.global_variables()
        logits = graph.get_tensor_by_name(output)
        labels = np.arange(len(next(iter(feeds.values())))) % classes
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        step = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        slots = [variable for variable in v1.global_variables() if variable not in variables]
        with v1.Session() as session:
            saver.restore(session, str(done.path))
            session.run(v1.variables_initializer(slots))
            before = dict(zip([v.op.name for v in variables], session.run(variables), strict=True))
            answers = session.run(output, feeds)
            session.run(step, feeds)
            after = dict(zip(before, session.run(variables), strict=True))
            saver.save(session, f"{done.path}-trained", write_meta_graph=False)
        return answers, before, after, {v.op.name for v in v1.trainable_variables()}


def changed(before, after):
    return {name for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("resource", [True, False])
def test_a_small_net_there_and_back(save_graph, run_frozen, tmp_path, version, fused, resource):
    def build(tf):
        slim = load_slim()
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], "x")
        with slim.arg_scope([slim.batch_norm], is_training=False, scale=True, fused=fused):
            net = slim.conv2d(x, 4, [3, 3], normalizer_fn=slim.batch_norm, scope="body")
        net = slim.separable_conv2d(net, None, [3, 3], 1, scope="deep")
        net = slim.fully_connected(slim.flatten(net), 3, activation_fn=None, scope="head")
        tf.identity(net, "logits")

    generator = np.random.default_rng(0)
    feeds = {"x:0": generator.normal(size=(4, 6, 6, 1)).astype(np.float32)}
    saved = save_graph(quietly(build), feeds, ["logits:0"], resource=resource)
    frozen = exporters.convert(saved.prefix, tmp_path / "frozen.pb", outputs=["logits"])
    done = exporters.thaw(frozen.path, tmp_path / "thawed.ckpt", version=version, verify="run")
    assert done.verification.mode == "run"
    assert done.verification.max_abs == 0.0
    with checkpoints.open(saved.prefix) as original, checkpoints.open(done.path) as thawed:
        assert sorted(original) == sorted(thawed)
        for name in original:
            assert original[name].tobytes() == thawed[name].tobytes(), name

    answers, before, after, trainable = train_one_step(done, "logits:0", feeds, 3)
    np.testing.assert_allclose(answers, saved.answers["logits:0"], rtol=1e-5, atol=1e-6)
    moving = {"body/BatchNorm/moving_mean", "body/BatchNorm/moving_variance"}
    assert trainable == set(before) - moving
    assert changed(before, after) == trainable
    with checkpoints.open(f"{done.path}-trained") as trained:
        assert trained.family.kind == f"checkpoint-{version}"
        for name, value in after.items():
            np.testing.assert_array_equal(trained[name], value)

    again = exporters.convert(done.path, tmp_path / "again.pb")
    ours, theirs = read_graph(again.path).nodes, read_graph(frozen.path).nodes
    assert ours.keys() == theirs.keys()
    for name, node in theirs.items():
        if node.op == "Const":
            assert constant_value(ours[name]).tobytes() == constant_value(node).tobytes(), name
    np.testing.assert_allclose(
        run_frozen(again.path, feeds, ["logits:0"])["logits:0"],
        run_frozen(frozen.path, feeds, ["logits:0"])["logits:0"],
        rtol=1e-5,
        atol=1e-6,
    )


def test_what_folding_destroyed_is_said(save_graph, tmp_path):
    def build(tf):
        slim = load_slim()
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], "x")
        net = slim.conv2d(
            x,
            4,
            [3, 3],
            normalizer_fn=slim.batch_norm,
            normalizer_params={"is_training": False},
            scope="body",
        )
        net = slim.fully_connected(slim.flatten(net), 3, activation_fn=None, scope="head")
        tf.identity(net, "logits")

    feeds = {"x:0": np.ones((2, 6, 6, 1), np.float32)}
    saved = save_graph(quietly(build), feeds, ["logits:0"])
    options = ModelOptions(optimize=True)
    folded = exporters.convert(saved.prefix, tmp_path / "m.pb", options=options)
    done = exporters.thaw(folded.path, tmp_path / "t.ckpt", verify="run")
    assert done.said[-1].startswith("Batch norm was folded into the layers before it")
    assert "moving averages cannot come back" in done.said[-1]
    assert {"body/weights", "head/weights", "head/biases"} < set(done.variables)
    assert not any("moving" in name for name in done.variables)


@pytest.mark.parametrize(
    ("folder", "shape", "output", "variables", "moving"),
    [
        ("fc_layers", (4, 784), "output:0", 6, 0),
        (
            "mobilenet_v1_1.0_224",
            (1, 224, 224, 3),
            "MobilenetV1/Predictions/Reshape:0",
            137,
            54,
        ),
    ],
)
def test_models_of_others(shared, tmp_path, run_frozen, folder, shape, output, variables, moving):
    source = shared / "data/models" / folder / "frozen.pb"
    done = exporters.thaw(source, tmp_path / "t.ckpt")
    assert len(done.variables) == variables
    assert len(done.trainable) == variables - moving
    pictures = np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)
    feeds = {done.inputs[0]: pictures}
    _, before, after, trainable = train_one_step(done, output, feeds, 10)
    assert len(trainable) == variables - moving
    assert changed(before, after) == trainable
    again = exporters.convert(done.path, tmp_path / "again.pb")
    answers = [run_frozen(path, feeds, [output])[output] for path in (source, again.path)]
    # The graphs are the same; TensorFlow adds in another order from one run to the next.
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-5)
    assert exporters.diff(source, again.path).nodes == ()


def test_initialised_anew_the_net_is_another_one(shared, tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    done = exporters.thaw(shared / "data/models/fc_layers/frozen.pb", tmp_path / "t.ckpt")
    with tf.Graph().as_default():
        v1.train.import_meta_graph(f"{done.path}.meta")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            values = {v.op.name: session.run(v) for v in v1.trainable_variables()}
    assert values["dense/kernel"].std() == pytest.approx(784**-0.5, rel=0.05)
    assert abs(values["dense/kernel"].mean()) < 0.001
    assert not values["dense/bias"].any()


def test_graphs_of_keras_and_of_functions(tmp_path, run_frozen):
    """What convert_variables_to_constants_v2 freezes, and weights given to functions."""
    tf = load_tensorflow()
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.ones([4, 3]) / 3, name="w")
            self.b = tf.Variable(tf.zeros([3]), name="b")

        @tf.function(input_signature=[tf.TensorSpec([None, 4])])
        def __call__(self, x):
            if tf.reduce_sum(x) > 0:
                y = tf.matmul(x, self.w)
            else:
                y = tf.matmul(-x, self.w)
            return tf.identity(tf.nn.bias_add(y, self.b), "answer")

    net = Net()
    concrete = net.__call__.get_concrete_function()
    constant = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    graph_def = constant.graph.as_graph_def()
    assert any(node.op in ("If", "StatelessIf") for node in graph_def.node)
    output = constant.outputs[0].name
    done = exporters.thaw(graph_def, tmp_path / "t.ckpt", outputs=[output], verify="run")
    assert done.verification.max_abs == 0.0
    assert len(done.trainable) == 2
    with checkpoints.open(done.path) as saved:
        assert sorted(saved[name].shape for name in saved) == [(3,), (4, 3)]
