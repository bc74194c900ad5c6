"""Nets whose mode is a placeholder, a layer argument, or hidden in a function."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph

pytestmark = pytest.mark.tensorflow

SHAPE = (6, 6, 2)


def skip_what_tensorflow_cannot_build(control_flow: str, fused: bool, resource: bool) -> None:
    if control_flow == "functions" and not fused and not resource:
        pytest.skip("functions cannot assign to reference variables")


@pytest.mark.parametrize("fused", [True, False])
def test_a_placeholder_for_the_mode(check, control_flow, fused, resource, slim_net, setting):
    skip_what_tensorflow_cannot_build(control_flow, fused, resource)
    done = check(lambda tf, x, training: slim_net(tf, x, setting(tf, training), fused=fused))
    assert "is_training is false, as everywhere in inference." in done.notes
    assert "Compared with the source as it was, fed is_training = false." in done.notes
    kinds = {node.op for node in read_graph(done.path).nodes.values()}
    assert not {"If", "StatelessIf", "Switch", "Merge"} & kinds


def test_a_placeholder_with_a_name_of_its_own(check, control_flow, tmp_path, slim_net, setting):
    def net(tf, x, training):
        return slim_net(tf, x, setting(tf, training, "flag"))

    done = check(net, set={"flag": False})
    assert "flag is false, as requested." in done.notes
    if control_flow == "switch and merge":
        # Both branches can be put into inference mode, so the flag decides nothing any more.
        other = exporters.convert(tmp_path / "run" / "model.ckpt", tmp_path / "other.pb")
        assert [endpoint.name for endpoint in other.inputs] == ["pictures:0", "flag:0"]
        return
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(tmp_path / "run" / "model.ckpt", tmp_path / "other.pb")
    assert "--set flag=false" in caught.value.next_step


def test_an_output_of_a_conditional_by_its_number(train, run_frozen, tmp_path):
    """Of several outputs of one node only the first can be kept under its name."""

    def net(tf, x, training):
        mode = tf.compat.v1.placeholder(tf.bool, [], "is_training")
        bias = tf.compat.v1.get_variable("bias", [2])
        return tf.cond(mode, lambda: (x, x * 2.0), lambda: (x * 3.0, x * 4.0))[1] + bias

    trained = train(net, fuss=False)
    nodes = read_graph(f"{trained.prefix}.meta").nodes
    conditional = next(name for name, node in nodes.items() if node.op.endswith("If"))
    done = exporters.convert(trained.prefix, tmp_path / "m.pb", outputs=[f"{conditional}:1"])
    (output,) = done.outputs
    assert f"{conditional}:1 is {output.name} now." in done.notes
    batch = np.ones((2, *SHAPE), np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, [output.name])[output.name]
    np.testing.assert_array_equal(answers, batch * 4)


@pytest.mark.parametrize("training_is_fed", [False, True])
@pytest.mark.parametrize("fused", [True, False])
def test_the_layers_of_tensorflow_1(check, control_flow, fused, training_is_fed, resource, setting):
    if training_is_fed:
        skip_what_tensorflow_cannot_build(control_flow, fused, resource)

    def net(tf, x, training):
        from finetune.slim import load_slim

        load_slim()
        from tf_keras.src.legacy_tf_layers.core import dropout
        from tf_keras.src.legacy_tf_layers.normalization import batch_normalization

        mode = setting(tf, training) if training_is_fed else training
        net = batch_normalization(x, training=mode, fused=fused, name="norm")
        net = dropout(tf.reshape(tf.nn.relu(net), [-1, 72]), 0.3, training=mode)
        weights = tf.compat.v1.get_variable("head/weights", [72, 4])
        return tf.matmul(net, weights, name="logits")

    check(net)


def test_batch_norm_and_dropout_inside_a_function(train, run_frozen, tmp_path, resource):
    if not resource:
        pytest.skip("a tf.function has no reference variables")

    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        weights = v1.get_variable("head/weights", [72, 4])

        @tf.function(autograph=False)
        def layer(value):
            result = tf.raw_ops.FusedBatchNormV3(
                x=value,
                scale=scale,
                offset=shift,
                mean=mean,
                variance=variance,
                is_training=training,
                exponential_avg_factor=0.1 if training else 1.0,
            )
            if training:
                mean.assign(result.batch_mean)
                variance.assign(result.batch_variance)
            return tf.nn.dropout(result.y, 0.4) if training else result.y

        @tf.function(autograph=False)
        def outer(value):
            return tf.nn.relu(layer(value))

        return tf.matmul(tf.reshape(outer(x), [-1, 72]), weights, name="logits")

    trained = train(net)
    done = exporters.convert(trained.prefix, tmp_path / "model.pb", outputs=["logits"])
    assert "2 calls of functions were inlined." in done.notes
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, ["logits:0"])["logits:0"]
    np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)
    assert not read_graph(done.path).functions


@pytest.mark.parametrize("fits", [True, False])
def test_a_placeholder_made_for_the_batch_of_training(save_graph, run_frozen, tmp_path, fits):
    def build(tf):
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [8, 6], "x")
        net = tf.nn.dropout(tf.matmul(x, v1.get_variable("weights", [6, 4])), 0.5)
        if not fits:
            net = net + tf.constant(np.arange(32.0).reshape(8, 4), tf.float32, name="rows")
        tf.reshape(tf.nn.softmax(net), [8, 2, 2], name="out")

    saved = save_graph(build, {}, [])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["out"])
    if not fits:
        assert done.inputs[0].shape == (8, 6)
        assert any("x keeps the batch of training" in note for note in done.notes)
        assert any("combines [batch, 4] with [8, 4]" in note for note in done.notes)
        return
    assert done.inputs[0].shape == (None, 6)
    assert done.outputs[0].shape == (None, 2, 2)
    assert "The batch of x is open." in done.notes
    answers = run_frozen(done.path, {"x:0": np.ones((3, 6))}, ["out:0"])["out:0"]
    assert answers.shape == (3, 2, 2)
