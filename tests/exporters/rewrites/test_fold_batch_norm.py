"""Batch norms folded into the layers before them; TensorFlow runs the graph before and after."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints.errors import UsageError, VerificationError
from exporters import optimising
from exporters.constants import constant_value
from exporters.freezing import prepare
from exporters.graph import Graph, read_graph
from exporters.names import TensorName
from exporters.options import ModelOptions
from exporters.rewrites.fold_batch_norm import fold_batch_norm

pytestmark = pytest.mark.tensorflow

FLOAT = np.dtype("float32")
OPTIMIZE = ModelOptions(optimize=True)
IMAGES = np.random.default_rng(5).normal(size=(3, 6, 6, 4)).astype(np.float32)
ROWS = np.random.default_rng(6).normal(size=(3, 5)).astype(np.float32)


def variable(tf, name, *shape):
    return tf.compat.v1.get_variable(name, shape)


def batch_norm(tf, x, channels, name="bn", fused=True, data_format="NHWC"):
    """Batch norm in inference mode, as a fused op or as tf.nn.batch_normalization writes it."""
    parts = ("gamma", "beta", "moving_mean", "moving_variance")
    scale, offset, mean, variance = (variable(tf, f"{name}/{part}", channels) for part in parts)
    if fused:
        return tf.compat.v1.nn.fused_batch_norm(
            x,
            scale,
            offset,
            mean,
            variance,
            epsilon=0.01,
            data_format=data_format,
            is_training=False,
        )[0]
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 0.01)


def convolution(tf, x, name="conv", channels=(4, 8)):
    return tf.nn.conv2d(x, variable(tf, name, 3, 3, *channels), 1, "SAME")


def depthwise(tf, x, multiplier=2):
    weights = variable(tf, "depthwise", 3, 3, 4, multiplier)
    return tf.nn.depthwise_conv2d(x, weights, [1, 1, 1, 1], "SAME")


NETS = {
    "fused": lambda tf, x: batch_norm(tf, convolution(tf, x), 8),
    "unfused": lambda tf, x: batch_norm(tf, convolution(tf, x), 8, fused=False),
    "with a bias": lambda tf, x: batch_norm(
        tf, tf.nn.bias_add(convolution(tf, x), variable(tf, "bias", 8)), 8
    ),
    "with an added bias, unfused": lambda tf, x: batch_norm(
        tf, convolution(tf, x) + variable(tf, "bias", 8), 8, fused=False
    ),
    "depthwise": lambda tf, x: batch_norm(tf, depthwise(tf, x), 8),
    "depthwise, unfused": lambda tf, x: batch_norm(tf, depthwise(tf, x), 8, fused=False),
    "separable": lambda tf, x: batch_norm(
        tf,
        tf.nn.separable_conv2d(
            x,
            variable(tf, "depthwise", 3, 3, 4, 2),
            variable(tf, "pointwise", 1, 1, 8, 8),
            [1, 1, 1, 1],
            "SAME",
        ),
        8,
    ),
    "dilated": lambda tf, x: batch_norm(
        tf,
        tf.compat.v1.batch_to_space_nd(
            tf.nn.conv2d(
                tf.compat.v1.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]),
                variable(tf, "conv", 3, 3, 4, 8),
                1,
                "SAME",
            ),
            [2, 2],
            [[0, 0], [0, 0]],
        ),
        8,
    ),
    "scaled residual": lambda tf, x: (
        0.17 * tf.nn.bias_add(convolution(tf, x), variable(tf, "bias", 8))
    ),
}

DENSE_NETS = {
    "dense, unfused": lambda tf, x: batch_norm(
        tf, tf.matmul(x, variable(tf, "w", 5, 8)), 8, fused=False
    ),
    "dense, transposed, with a bias": lambda tf, x: batch_norm(
        tf,
        tf.nn.bias_add(
            tf.matmul(x, variable(tf, "w", 8, 5), transpose_b=True), variable(tf, "b", 8)
        ),
        8,
        fused=False,
    ),
    "dense, fused, with room made for it": lambda tf, x: (
        lambda product: tf.reshape(
            batch_norm(tf, tf.reshape(product, [-1, 1, 1, 8]), 8), tf.shape(product)
        )
    )(tf.matmul(x, variable(tf, "w", 5, 8))),
}


@pytest.mark.parametrize("name", [*NETS, *DENSE_NETS])
def test_answers_stay_and_the_batch_norm_goes(name, save_graph, run_frozen, tmp_path):
    values, shape = (ROWS, [None, 5]) if name in DENSE_NETS else (IMAGES, [None, 6, 6, 4])

    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, shape, name="x")
        tf.identity(tf.nn.relu({**NETS, **DENSE_NETS}[name](tf, x)), name="answers")

    saved = save_graph(build, {"x:0": values}, ["answers:0"])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=OPTIMIZE)
    assert (done.verification.mode, done.verification.passed) == ("run", True)
    assert any(note.startswith("Optimised: 1 batch norm folded") for note in done.notes)
    ops = [node.op for node in read_graph(done.path).nodes.values()]
    assert not {"FusedBatchNormV3", "Mul", "AddV2", "Add", "Sub", "Rsqrt"} & set(ops)
    assert ops.count("BiasAdd") == 1
    # The one at the output keeps its name; ReadVariableOp's and the rest are gone.
    assert [n for n in read_graph(done.path).nodes.values() if n.op == "Identity"] == [
        read_graph(done.path).nodes["answers"]
    ]
    for batch in (values, values[:1]):
        answers = run_frozen(done.path, {"x:0": batch}, ["answers:0"])["answers:0"]
        np.testing.assert_allclose(
            answers, saved.answers["answers:0"][: len(batch)], rtol=1e-5, atol=1e-5
        )


LEFT_ALONE = {
    "without a convolution": lambda tf, x: batch_norm(tf, tf.nn.relu(x), 4),
    "with a relu between": lambda tf, x: batch_norm(tf, tf.nn.relu(convolution(tf, x)), 8),
    "with a convolution that is read twice": lambda tf, x: (
        lambda conv: batch_norm(tf, conv, 8) + conv
    )(convolution(tf, x)),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_cannot_be_folded_is_left_alone_and_said(name, save_graph, run_frozen, tmp_path):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 4], name="x")
        tf.identity(LEFT_ALONE[name](tf, x), name="answers")

    saved = save_graph(build, {"x:0": IMAGES}, ["answers:0"])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=OPTIMIZE)
    assert any(note.startswith("Optimised: 0 batch norms folded") for note in done.notes)
    assert any("1 batch norm left as it was" in note for note in done.notes)
    assert "FusedBatchNormV3" in {node.op for node in read_graph(done.path).nodes.values()}
    answers = run_frozen(done.path, {"x:0": IMAGES}, ["answers:0"])["answers:0"]
    np.testing.assert_allclose(answers, saved.answers["answers:0"], rtol=1e-4, atol=1e-5)


def test_a_shared_filter_is_left_alone(save_graph, run_frozen, tmp_path):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 4], name="x")
        weights = tf.compat.v1.get_variable("shared", [3, 3, 4, 8])
        left = batch_norm(tf, tf.nn.conv2d(x, weights, 1, "SAME"), 8, "left")
        right = batch_norm(tf, tf.nn.conv2d(-x, weights, 1, "SAME"), 8, "right")
        tf.add(left, right, name="answers")

    saved = save_graph(build, {"x:0": IMAGES}, ["answers:0"])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=OPTIMIZE)
    assert any("filter of the layer before it is read by others" in note for note in done.notes)
    answers = run_frozen(done.path, {"x:0": IMAGES}, ["answers:0"])["answers:0"]
    np.testing.assert_allclose(answers, saved.answers["answers:0"], rtol=1e-4, atol=1e-5)


def test_an_output_within_keeps_its_values(save_graph, run_frozen, tmp_path):
    """A convolution that is an output itself is not scaled."""

    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 4], name="x")
        conv = tf.identity(convolution(tf, x), name="bottleneck")
        tf.nn.relu(batch_norm(tf, conv, 8), name="answers")

    fetches = ["answers:0", "bottleneck:0"]
    saved = save_graph(build, {"x:0": IMAGES}, fetches)
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=fetches, options=OPTIMIZE)
    answers = run_frozen(done.path, {"x:0": IMAGES}, fetches)
    for name in fetches:
        np.testing.assert_allclose(answers[name], saved.answers[name], rtol=1e-4, atol=1e-5)


def test_a_batch_norm_of_2015(builder):
    """BatchNormWithGlobalNormalization, which today's TensorFlow refuses to build, still folds."""
    builder.graph_def.versions.producer = 8
    generator = np.random.default_rng(0)
    parts = [generator.uniform(0.5, 1.5, 8).astype(np.float32) for _ in range(4)]
    weights = generator.normal(size=(1, 1, 4, 8)).astype(np.float32)
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 4))
    names = [builder.const(f"p{place}", part) for place, part in enumerate(parts)]
    builder.add("Conv2D", "conv", "x", builder.const("w", weights), T=FLOAT)
    builder.add(
        "BatchNormWithGlobalNormalization",
        "bn",
        "conv",
        *names,
        T=FLOAT,
        scale_after_normalization=True,
    )
    builder.graph_def.node[-1].attr["variance_epsilon"].f = 0.001
    found = fold_batch_norm(builder.graph, {"x", "bn"})
    assert found.folded == 1
    mean, variance, beta, gamma = (part.astype(np.float64) for part in parts)
    scale = gamma / np.sqrt(variance + 0.001)
    nodes = found.graph.nodes
    assert (nodes["bn"].op, list(nodes["bn"].input)) == ("BiasAdd", ["conv", "bn/folded_bias"])
    np.testing.assert_allclose(constant_value(nodes["w"]), weights * scale, rtol=1e-6)
    np.testing.assert_allclose(
        constant_value(nodes["bn/folded_bias"]), beta - mean * scale, rtol=1e-5
    )


def test_channels_first_unfused(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4, 6, 6))
    weights = np.ones((1, 1, 4, 2), np.float32)
    scale = np.array([2.0, 3.0], np.float32).reshape(2, 1, 1)
    shift = np.array([5.0, 7.0], np.float32).reshape(1, 2, 1, 1)
    builder.add("Conv2D", "conv", "x", builder.const("w", weights), T=FLOAT, data_format="NCHW")
    builder.add("Mul", "mul", builder.const("s", scale), "conv", T=FLOAT)
    builder.add("Sub", "out", "mul", builder.const("b", shift), T=FLOAT)
    found = fold_batch_norm(builder.graph, {"x", "out"})
    nodes = found.graph.nodes
    assert found.folded == 1
    assert nodes["out"].op == "BiasAdd"
    assert nodes["out"].attr["data_format"].s == b"NCHW"
    np.testing.assert_array_equal(constant_value(nodes["w"])[0, 0, 0], [2.0, 3.0])
    np.testing.assert_array_equal(constant_value(nodes["out/folded_bias"]), [-5.0, -7.0])


@pytest.mark.parametrize(
    ("scale", "reason"),
    [
        (np.ones((6, 8), np.float32), "a width of its own"),
        (np.ones((2, 1, 6, 6, 8), np.float32), "more dimensions"),
        (np.ones(4, np.int32), "whole numbers"),
    ],
)
def test_multiplications_that_are_no_batch_norm(builder, scale, reason):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 4))
    weights = np.ones((1, 1, 4, 8), np.float32)
    builder.add("Conv2D", "conv", "x", builder.const("w", weights), T=FLOAT)
    builder.add("Mul", "out", "conv", builder.const("s", scale), T=FLOAT)
    assert fold_batch_norm(builder.graph, {"x", "out"}).folded == 0, reason


def test_a_wider_constant_behind_one_channel_is_left_alone(builder):
    """[?, 6, 6, 1] times [8] has eight channels, which the layer has not."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 4))
    weights = np.ones((1, 1, 4, 1), np.float32)
    builder.add("Conv2D", "conv", "x", builder.const("w", weights), T=FLOAT)
    builder.add("Mul", "out", "conv", builder.const("s", np.ones(8, np.float32)), T=FLOAT)
    assert fold_batch_norm(builder.graph, {"x", "out"}).folded == 0


def test_batch_norm_in_training_mode_is_left_alone(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 4))
    names = [builder.const(f"p{place}", np.ones(8, np.float32)) for place in range(4)]
    weights = np.ones((1, 1, 4, 8), np.float32)
    builder.add("Conv2D", "conv", "x", builder.const("w", weights), T=FLOAT)
    builder.add("FusedBatchNormV3", "bn", "conv", *names, T=FLOAT, U=FLOAT)
    assert fold_batch_norm(builder.graph, {"x", "bn"}).folded == 0


def test_the_old_graph_is_not_changed(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("MatMul", "m", "x", builder.const("w", np.ones((4, 2), np.float32)), T=FLOAT)
    builder.add("Mul", "out", "m", builder.const("s", np.full(2, 3, np.float32)), T=FLOAT)
    graph = builder.graph
    before = graph.graph_def.SerializeToString(deterministic=True)
    found = fold_batch_norm(graph, {"x", "out"})
    assert graph.graph_def.SerializeToString(deterministic=True) == before
    assert found.graph.nodes["out"].op == "Identity"
    np.testing.assert_array_equal(constant_value(found.graph.nodes["w"]), np.full((4, 2), 3))


def test_where_answers_differ_the_graph_is_written_as_it_was(
    dense_net, tmp_path, monkeypatch, run_frozen
):
    """An optimiser with a fault: what it made is not kept, and that is said."""
    import checkpoints

    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    graph = dense_net.graph

    def broken(frozen):
        from dataclasses import replace

        optimised = optimising.with_constants(frozen)
        for node in optimised.graph.graph_def.node:
            if node.op == "Softmax":
                node.op = "Sigmoid"
        return replace(optimised, said=(*frozen.said, "Optimised: all of it."))

    monkeypatch.setattr(optimising, "optimise", broken)
    done = exporters.convert(
        tmp_path / "m.ckpt",
        tmp_path / "m.pb",
        graph=graph.graph_def,
        outputs=["probs"],
        options=OPTIMIZE,
    )
    assert any(note.startswith("Not optimised, since the answers") for note in done.notes)
    assert not any("all of it" in note for note in done.notes)
    assert read_graph(done.path).nodes["probs"].op == "Softmax"
    assert done.verification.mode == "structure"


def test_the_structure_alone_cannot_prove_an_optimised_graph(dense_net, tmp_path):
    import checkpoints

    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    with pytest.raises(UsageError, match="cannot be proved by its structure"):
        exporters.convert(
            tmp_path / "m.ckpt",
            tmp_path / "m.pb",
            graph=dense_net.graph_def,
            outputs=["probs"],
            options=OPTIMIZE,
            verify="structure",
        )
    assert not (tmp_path / "m.pb").exists()


def test_a_fault_of_the_file_itself_is_not_taken_for_one_of_the_optimiser(
    dense_net, tmp_path, monkeypatch
):
    import checkpoints

    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)

    def refuse(*arguments, **options):
        raise VerificationError("m.pb is broken.", received="always")

    monkeypatch.setattr("exporters.proofs.proved.prove_structure", refuse)
    with pytest.raises(VerificationError, match="is broken"):
        exporters.convert(
            tmp_path / "m.ckpt",
            tmp_path / "m.pb",
            graph=dense_net.graph_def,
            outputs=["probs"],
            options=OPTIMIZE,
        )
    assert not (tmp_path / "m.pb").exists()


def test_what_the_metadata_names_is_kept(dense_net):
    from exporters.metadata import Metadata

    metadata = Metadata(input="x:0", outputs={"probabilities": "probs:0", "logits": "logits:0"})
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["probs"], metadata=metadata)
    optimised = optimising.optimise(frozen)
    assert isinstance(optimised.graph, Graph)
    assert optimised.outputs == (TensorName("probs"),)
    assert {"x", "logits", "probs"} <= optimised.graph.nodes.keys()
    assert "fc/weights/read" not in optimised.graph.nodes
