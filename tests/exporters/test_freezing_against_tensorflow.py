"""Freezing what TensorFlow saved; TensorFlow imports and runs the result, and answers alike."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(5).uniform(-1, 1, (3, 4)).astype(np.float32)


def freeze(saved, path, outputs, **options):
    with checkpoints.open(saved.prefix) as values:
        return exporters.freeze(f"{saved.prefix}.meta", values, outputs, path, **options)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def resource(request) -> bool:
    return request.param


@pytest.fixture
def check(save_graph, run_frozen, tmp_path, resource):
    """Saves, freezes and runs; the answers have to be the session's."""

    def run(build, feeds, output, **options):
        saved = save_graph(build, feeds, [output], resource=resource)
        result = freeze(saved, tmp_path / "model.pb", [output], **options)
        answers = run_frozen(result.path, feeds, [output])
        np.testing.assert_array_equal(answers[output], saved.answers[output])
        kinds = {node.op for node in read_graph(result.path).nodes.values()}
        assert not {"VariableV2", "VarHandleOp", "ReadVariableOp"} & kinds
        return result

    return run


def dense(tf, x, units=3, name="fc"):
    with tf.compat.v1.variable_scope(name):
        weights = tf.compat.v1.get_variable("weights", [x.shape[-1], units])
        biases = tf.compat.v1.get_variable("biases", [units])
    return tf.matmul(x, weights) + biases


def test_a_dense_net_with_a_global_step(check):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        tf.nn.softmax(dense(tf, x), name="probs")
        v1.train.get_or_create_global_step()

    result = check(build, {"x:0": X}, "probs:0")
    assert result.parameters == 15


def test_a_net_for_a_device_that_is_not_there(check):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        with tf.device("/device:CPU:0"):
            tf.nn.softmax(dense(tf, x), name="probs")

    result = check(build, {"x:0": X}, "probs:0")
    assert {node.device for node in read_graph(result.path).nodes.values()} == {""}


def test_a_batch_norm_net_with_its_updates_under_the_output(
    save_graph, run_frozen, tmp_path, resource
):
    pictures = np.random.default_rng(2).uniform(-1, 1, (5, 6, 6, 1)).astype(np.float32)

    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 6, 6, 1], name="x")
        kernel = v1.get_variable("body/weights", [3, 3, 1, 2])
        scale, offset = v1.get_variable("body/gamma", [2]), v1.get_variable("body/beta", [2])
        mean = v1.get_variable("body/moving_mean", [2], trainable=False)
        variance = v1.get_variable("body/moving_variance", [2], trainable=False)
        net = tf.nn.conv2d(x, kernel, 1, "SAME")
        _, batch_mean, batch_variance = v1.nn.fused_batch_norm(net, scale, offset)
        updates = [
            v1.assign_sub(mean, 0.1 * (mean - batch_mean)),
            v1.assign_sub(variance, 0.1 * (variance - batch_variance)),
        ]
        net = v1.nn.fused_batch_norm(net, scale, offset, mean, variance, is_training=False)[0]
        logits = dense(tf, tf.reshape(net, [-1, 72]), name="head")
        with tf.control_dependencies(updates):
            tf.identity(logits, name="out")

    saved = save_graph(build, {"x:0": pictures}, [], resource=resource)
    result = freeze(saved, tmp_path / "model.pb", ["out"])
    assert any("control edges to updates and summaries were cut" in line for line in result.said)
    nodes = read_graph(result.path).nodes
    assert list(nodes["out"].input) == [nodes["out"].input[0]]
    assert sum(node.op.startswith("FusedBatchNorm") for node in nodes.values()) == 1

    # The same answers as the saved graph gives in TensorFlow where nothing is updated.
    tf = load_tensorflow()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.import_meta_graph(f"{saved.prefix}.meta")
        saver.restore(session, str(saved.prefix))
        before_update = nodes["out"].input[0]
        expected = session.run(f"{before_update}:0", {"x:0": pictures})
    answers = run_frozen(result.path, {"x:0": pictures}, ["out:0"])
    # TensorFlow fuses constants where it cannot fuse variables: the last bit may differ.
    np.testing.assert_allclose(answers["out:0"], expected, rtol=1e-6, atol=1e-6)


def test_training_mode_is_refused_by_name(save_graph, tmp_path, resource):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 6, 6, 2], name="x")
        net = v1.nn.fused_batch_norm(
            x, v1.get_variable("gamma", [2]), v1.get_variable("beta", [2]), name="norm"
        )[0]
        tf.nn.dropout(dense(tf, tf.reshape(net, [-1, 72])), rate=0.5, name="dropout")

    saved = save_graph(build, {}, [], resource=resource)
    with pytest.raises(GraphError, match="in training mode") as caught:
        freeze(saved, tmp_path / "model.pb", ["dropout/SelectV2"])
    assert "norm (FusedBatchNormV3)" in caught.value.message
    assert not (tmp_path / "model.pb").exists()


def test_embeddings(check):
    def build(tf):
        v1 = tf.compat.v1
        ids = v1.placeholder(tf.int32, [None], name="ids")
        table = v1.get_variable("table", [7, 3])
        found = tf.nn.embedding_lookup(table, ids)
        corner = tf.gather_nd(table, [[0, 1], [6, 2]])
        size = tf.cast(tf.shape(table), tf.float32)
        tf.add(tf.reduce_sum(found, 1), tf.reduce_sum(corner) + tf.reduce_sum(size), name="out")

    check(build, {"ids:0": np.array([6, 0, 3], np.int32)}, "out:0")


def test_a_loop_and_a_branch_of_tensorflow_1(check):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        v1.disable_control_flow_v2()
        try:
            weights = v1.get_variable("weights", [4, 4])
            looped = v1.while_loop(
                lambda i, _: i < 3, lambda i, value: (i + 1, tf.matmul(value, weights)), [0, x]
            )[1]
            chosen = v1.cond(
                tf.reduce_sum(x) > 0, lambda: looped + weights[0], lambda: looped - weights[1]
            )
        finally:
            v1.enable_control_flow_v2()
        tf.identity(chosen, name="out")

    check(build, {"x:0": X}, "out:0")


def test_a_variable_that_is_shared_and_read_twice(check):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        first = dense(tf, x, 4, "shared")
        with v1.variable_scope(v1.get_variable_scope(), reuse=True):
            tf.identity(dense(tf, first, 4, "shared"), name="out")

    result = check(build, {"x:0": X}, "out:0")
    assert result.parameters == 20


def test_a_savers_own_names_are_followed_even_where_they_cross(
    save_graph, run_frozen, tmp_path, resource
):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        first = v1.get_variable("first", [4, 4])
        second = v1.get_variable("second", [4, 4])
        tf.matmul(tf.matmul(x, first), second * 2.0, name="out")

    def saver(v1):
        by_name = {variable.op.name: variable for variable in v1.global_variables()}
        return v1.train.Saver({"first": by_name["second"], "second": by_name["first"]})

    saved = save_graph(build, {"x:0": X}, ["out:0"], resource=resource, saver=saver)
    result = freeze(saved, tmp_path / "model.pb", ["out"])
    answers = run_frozen(result.path, {"x:0": X}, ["out:0"])
    np.testing.assert_array_equal(answers["out:0"], saved.answers["out:0"])


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_checkpoints_of_both_versions(save_graph, run_frozen, tmp_path, version):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        tf.nn.softmax(dense(tf, x), name="probs")

    saved = save_graph(build, {"x:0": X}, ["probs:0"], version=version)
    result = freeze(saved, tmp_path / "model.pb", [])
    assert result.outputs == ("probs:0",)
    answers = run_frozen(result.path, {"x:0": X}, ["probs:0"])
    np.testing.assert_array_equal(answers["probs:0"], saved.answers["probs:0"])


def test_functions_of_tensorflow_2_travel(check):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], name="x")

        @tf.function
        def halve(value):
            with tf.device("/device:CPU:0"):
                return value / 2.0

        tf.identity(halve(dense(tf, x)), name="out")

    result = check(build, {"x:0": X}, "out:0")
    assert len(read_graph(result.path).functions) == 1


class TestSession:
    """exporters.freeze(session.graph, session, ...) in a loop of one's own."""

    @pytest.fixture
    def live(self, resource):
        tf = load_tensorflow()
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            with v1.variable_scope(v1.get_variable_scope(), use_resource=resource):
                x = v1.placeholder(tf.float32, [None, 4], name="x")
                logits = dense(tf, x)
                tf.nn.softmax(logits, name="probs")
                labels = v1.placeholder(tf.int64, [None], name="labels")
                loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
                train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(
                    loss, v1.train.get_or_create_global_step()
                )
            initialise = v1.global_variables_initializer()
            with v1.Session(graph=graph) as session:
                yield session, initialise, train

    def test_its_values_are_frozen(self, live, run_frozen, tmp_path):
        session, initialise, train = live
        session.run(initialise)
        session.run(train, {"x:0": X, "labels:0": [0, 1, 2]})
        expected = session.run("probs:0", {"x:0": X})
        session.graph.finalize()
        result = exporters.freeze(
            session.graph, session, outputs=["probs"], path=tmp_path / "model.pb"
        )
        answers = run_frozen(result.path, {"x:0": X}, ["probs:0"])
        np.testing.assert_array_equal(answers["probs:0"], expected)
        np.testing.assert_array_equal(session.run("probs:0", {"x:0": X}), expected)

    def test_the_output_is_found(self, live, tmp_path):
        session, initialise, _ = live
        session.run(initialise)
        result = exporters.freeze(session.graph, session, path=tmp_path / "model.pb")
        assert result.outputs == ("probs:0",)

    def test_variables_without_values_are_an_error_of_ours(self, live, tmp_path):
        session, _, _ = live
        with pytest.raises(GraphError, match="have no values yet") as caught:
            exporters.freeze(session.graph, session, ["probs"], tmp_path / "model.pb")
        assert "initialiser" in caught.value.next_step
