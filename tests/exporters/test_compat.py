"""Graphs for older readers: TensorFlow's registry is the independent side, and definitions of 2016."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints.messages import MetaGraphDef
from exporters.compat import LATER_ATTRIBUTES, PRODUCER
from exporters.graph import read_graph
from exporters.ops import is_bookkeeping
from exporters.options import ModelOptions
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

COMPAT = ModelOptions(compat=True)
IMAGES = np.random.default_rng(1).normal(size=(2, 6, 6, 1)).astype(np.float32)


def registry():
    load_tensorflow()
    from tensorflow.python.framework import op_def_registry

    return op_def_registry


def defaults_left(graph):
    """(node, attribute) of every attribute that has its op's default value."""
    left = []
    for name, node in graph.nodes.items():
        for attribute in registry().get(node.op).attr:
            held = node.attr.get(attribute.name)
            if held is not None and attribute.HasField("default_value"):
                default = attribute.default_value.SerializeToString(deterministic=True)
                if held.SerializeToString(deterministic=True) == default:
                    left.append((name, attribute.name))
    return left


def build(tf):
    """The ops whose attributes trip older readers, each as today's TensorFlow writes it."""
    x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], name="x")
    weights = tf.compat.v1.get_variable("weights", [3, 3, 1, 4])
    conv = tf.nn.conv2d(x, weights, 1, "SAME")
    pooled = tf.nn.max_pool2d(conv, 2, 2, "VALID")
    parts = [tf.compat.v1.get_variable(name, [4]) for name in ("g", "b", "m", "moving_variance")]
    normed = tf.compat.v1.nn.fused_batch_norm(pooled, *parts, is_training=False)[0]
    equal = tf.cast(tf.equal(normed, pooled), tf.float32)
    tf.add(normed + equal, pooled, name="answers")


@pytest.fixture
def saved(save_graph):
    return save_graph(build, {"x:0": IMAGES}, ["answers:0"])


def test_no_default_value_is_left_and_the_answers_are_the_same(saved, tmp_path, run_frozen):
    plain = exporters.convert(saved.prefix, tmp_path / "plain.pb", outputs=["answers"])
    left = {attribute for _, attribute in defaults_left(read_graph(plain.path))}
    assert {"explicit_paddings", "dilations", "Truncate", "incompatible_shape_error"} <= left

    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=COMPAT)
    assert (done.verification.mode, done.verification.passed) == ("run", True)
    graph = read_graph(done.path)
    assert defaults_left(graph) == []
    ops = {node.op for node in graph.nodes.values()}
    assert {"Add", "FusedBatchNorm", "Conv2D", "MaxPool", "Cast", "Equal"} <= ops
    assert not {"AddV2", "FusedBatchNormV3"} & ops
    assert "U" not in graph.nodes["FusedBatchNormV3"].attr
    assert graph.graph_def.versions.producer == PRODUCER
    assert any(note.startswith("For older readers: ") for note in done.notes)
    answers = run_frozen(done.path, {"x:0": IMAGES}, ["answers:0"])["answers:0"]
    np.testing.assert_allclose(answers, saved.answers["answers:0"], rtol=1e-6, atol=1e-6)


def test_what_has_another_value_is_kept_and_named(save_graph, tmp_path, run_frozen):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], name="x")
        weights = tf.compat.v1.get_variable("weights", [3, 3, 1, 4])
        padding = [[0, 0], [1, 0], [0, 1], [0, 0]]
        conv = tf.nn.conv2d(x, weights, 1, padding, name="padded")
        tf.compat.v1.image.resize_bilinear(conv, [3, 3], half_pixel_centers=True, name="resized")
        tf.nn.leaky_relu(
            tf.compat.v1.get_default_graph().get_tensor_by_name("resized:0"), name="answers"
        )

    saved = save_graph(build, {"x:0": IMAGES}, ["answers:0"])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=COMPAT)
    said = "\n".join(done.notes)
    assert "padded (Conv2D): explicit_paddings" in said
    assert "resized (ResizeBilinear): half_pixel_centers" in said
    assert "answers: the op LeakyRelu" in said
    assert "dilations" not in said
    graph = read_graph(done.path)
    assert list(graph.nodes["padded"].attr["explicit_paddings"].list.i) == [0, 0, 1, 0, 0, 1, 0, 0]
    answers = run_frozen(done.path, {"x:0": IMAGES}, ["answers:0"])["answers:0"]
    np.testing.assert_allclose(answers, saved.answers["answers:0"], rtol=1e-6)


def test_functions_are_gone_through_too(save_graph, tmp_path, run_frozen):
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], name="x")
        weights = tf.compat.v1.get_variable("weights", [3, 3, 1, 4])

        @tf.function
        def inner(x, weights):
            return tf.nn.conv2d(x, weights, 1, "SAME") + 1.0

        tf.identity(inner(x, weights), name="answers")

    saved = save_graph(build, {"x:0": IMAGES}, ["answers:0"])
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["answers"], options=COMPAT)
    nodes = [node for f in read_graph(done.path).functions.values() for node in f.node_def]
    convolutions = [node for node in nodes if node.op == "Conv2D"]
    assert convolutions
    assert all("explicit_paddings" not in node.attr for node in convolutions)
    answers = run_frozen(done.path, {"x:0": IMAGES}, ["answers:0"])["answers:0"]
    np.testing.assert_allclose(answers, saved.answers["answers:0"], rtol=1e-6)


def test_later_attributes_have_defaults_in_the_registry():
    for name, ops in LATER_ATTRIBUTES.items():
        for op in ops:
            attributes = {a.name: a for a in registry().get(op).attr}
            assert attributes[name].HasField("default_value"), (op, name)


@pytest.mark.parametrize(
    "model", ["lenet_300_100_v1/model.ckpt.meta", "mnist_mlp/model.ckpt-1999.meta"]
)
def test_attributes_that_came_after_a_definition_of_2016_are_in_the_table(shared, model):
    meta = MetaGraphDef.FromString((shared / "data/models" / model).read_bytes())
    old_ops = meta.meta_info_def.stripped_op_list.op
    assert len(old_ops) > 20
    for old in old_ops:
        had = {attribute.name for attribute in old.attr}
        if is_bookkeeping(old.name) or old.name.endswith("Grad"):
            continue  # No part of a served graph.
        for attribute in registry().get(old.name).attr:
            if attribute.name not in had:
                listed = LATER_ATTRIBUTES.get(attribute.name, ())
                assert old.name in listed, (old.name, attribute.name)
