"""Shapes followed through graphs; TensorFlow's own inference is the independent side."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from exporters.graph import Graph, as_graph
from exporters.names import TensorName
from exporters.runtime import load_tensorflow
from exporters.shapes.inference import ShapeInference
from exporters.shapes.sizes import ShapeError, broadcast

FLOAT = np.dtype("float32")
BATCH = 1009


def shapes_by_tensorflow(graph) -> dict[TensorName, tuple[int, ...]]:
    """Every tensor of numbers whose shape TensorFlow knows wholly."""
    return {
        TensorName(operation.name, index): tuple(tensor.shape)
        for operation in graph.get_operations()
        for index, tensor in enumerate(operation.outputs)
        if tensor.shape.is_fully_defined() and tensor.dtype.name not in ("resource", "variant")
    }


def compare(graph, inputs: list[str], min_share: float = 1.0) -> ShapeInference:
    """Infers with shapes left out of the message, and compares whatever both know."""
    expected = shapes_by_tensorflow(graph)
    given = {TensorName(name): expected[TensorName(name)] for name in inputs}
    message = graph.as_graph_def(add_shapes=False)
    inference = ShapeInference(as_graph(Graph(as_graph(message).graph_def)), given)
    assert inference.problems == []
    found = {tensor: shape for tensor, shape in inference.shapes.items() if tensor in expected}
    assert {t: s for t, s in found.items() if s != expected[t]} == {}
    computed = {
        tensor
        for tensor in expected
        if not any(part in tensor.node for part in ("Initializer", "IsInitialized", "random"))
        # Outputs 3 to 5 of a fused batch norm are for its gradient.
        and not ("FusedBatchNorm" in tensor.node and tensor.output_index > 2)
    }
    missing = computed - found.keys()
    assert len(missing) <= (1 - min_share) * len(computed), sorted(missing)
    return inference


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("module", "name", "size"),
    [
        ("inception_v3", "inception_v3", 149),
        ("resnet_v2", "resnet_v2_50", 65),
        ("vgg", "vgg_a", 224),
        ("overfeat", "overfeat", 231),
    ],
)
def test_slims_nets(module, name, size):
    import importlib

    from finetune.slim import load_slim

    load_slim()
    tf = load_tensorflow()
    net = getattr(importlib.import_module(f"tf_slim.nets.{module}"), name)
    options = {"depth_multiplier": 0.1} if name == "inception_v3" else {}
    with warnings.catch_warnings(), tf.Graph().as_default() as graph:
        warnings.simplefilter("ignore")
        x = tf.compat.v1.placeholder(tf.float32, [BATCH, size, size, 3], "x")
        net(x, 5, is_training=False, **options)
        compare(graph, ["x"])


@pytest.mark.tensorflow
def test_ops_one_by_one():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = v1.placeholder(tf.float32, [BATCH, 9, 12, 4], "x")
        first = v1.placeholder(tf.float32, [BATCH, 4, 9, 12], "nchw")
        flat = tf.reshape(x, [-1, 9 * 12 * 4])
        rows = tf.shape(x)[0]
        kernel = tf.zeros([3, 3, 4, 8])
        for padding in ("SAME", "VALID", [[0, 0], [1, 2], [0, 1], [0, 0]]):
            tf.nn.conv2d(x, kernel, [1, 2, 3, 1], padding)
        tf.nn.conv2d(x, kernel, 1, "VALID", dilations=2)
        tf.nn.conv2d(first, kernel, [1, 1, 2, 2], "SAME", data_format="NCHW")
        tf.nn.depthwise_conv2d(x, tf.zeros([3, 3, 4, 2]), [1, 1, 1, 1], "VALID", dilations=[2, 2])
        tf.nn.conv2d_transpose(x, tf.zeros([3, 3, 5, 4]), tf.stack([rows, 18, 24, 5]), 2)
        tf.nn.max_pool2d(x, 3, 2, "VALID")
        tf.nn.avg_pool2d(first, 2, 2, "SAME", data_format="NCHW")
        tf.nn.batch_normalization(x, tf.zeros([4]), tf.ones([4]), None, None, 1e-3)
        v1.nn.fused_batch_norm(x, *[tf.ones([4])] * 4, is_training=False)
        tf.nn.local_response_normalization(x)
        tf.matmul(flat, tf.zeros([432, 7]))
        tf.matmul(tf.zeros([6, 7]), tf.zeros([5, 7]), transpose_b=True)
        tf.matmul(x, tf.zeros([BATCH, 9, 4, 5]))
        tf.reduce_mean(x, [1, 2])
        tf.reduce_max(x, -1, keepdims=True)
        tf.argmax(x, 3)
        tf.squeeze(tf.reduce_mean(x, [1, 2], keepdims=True), [1, 2])
        tf.squeeze(tf.expand_dims(tf.expand_dims(x, 0), -1))
        tf.transpose(x, [0, 3, 1, 2])
        tf.concat([x, x * 2.0, tf.zeros([BATCH, 9, 12, 1])], 3)
        tf.pad(x, [[0, 0], [1, 2], [3, 0], [0, 0]])
        tf.pad(x, [[0, 0], [1, 2], [3, 0], [0, 0]], "SYMMETRIC")
        tf.unstack(tf.stack([x, x], axis=1), axis=1)
        tf.split(x, 3, axis=2)
        tf.split(x, [2, 3, -1], axis=1)
        tf.slice(x, [0, 1, 0, 2], [-1, 3, 12, -1])
        x[:, 1:-1, ::-2, tf.newaxis, 0]
        x[..., 1:]
        tf.tile(x, [1, 2, 1, 3])
        tf.gather(flat, [3, 1], axis=1)
        tf.one_hot(tf.argmax(flat, 1), 10)
        tf.one_hot(tf.argmax(flat, 1), 10, axis=0)
        tf.fill(tf.stack([rows, 3]), 1.0)
        tf.broadcast_to(tf.zeros([1, 5]), tf.stack([rows, 5]))
        tf.zeros_like(x) + tf.ones([12, 1])
        tf.where(x > 0.0, x, 0.0)
        v1.where(x > 0.0, x, x)
        tf.image.resize(x, [18, 5])
        v1.image.resize_nearest_neighbor(x, [4, 4])
        tf.nn.space_to_batch(x, [3, 3], [[0, 0], [0, 0]])
        tf.nn.top_k(flat, 3)
        tf.nn.softmax(tf.nn.relu6(tf.nn.leaky_relu(flat)))
        tf.reshape(flat, tf.concat([tf.shape(flat)[:1], [9, -1]], 0))
        tf.reshape(x, tf.stack([tf.size(x) // 432, 432]))
        tf.cast(tf.rank(x), tf.float32) * tf.nn.l2_loss(x)
        tf.ensure_shape(tf.identity_n([x, flat])[1], [BATCH, 432])
        tf.cumsum(x, 1)
        # What stops at ops whose shapes depend on values, or that are not known, is left out.
        compare(graph, ["x", "nchw"], min_share=0.97)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([(2, 3), (3,)], (2, 3)),
        ([(None, 3), (2, 1)], (2, 3)),
        ([(None, 1), (1, 1)], (None, 1)),
        ([(), (4,), (5, 1)], (5, 4)),
        ([(2,), None], None),
        ([], ()),
    ],
)
def test_broadcasting(shapes, result):
    assert broadcast(shapes) == result


def test_sizes_that_do_not_go_together():
    with pytest.raises(ShapeError, match=r"combines \[2, 3\] with \[4, 3\]"):
        broadcast([(2, 3), (4, 3)])


def test_what_does_not_fit_is_named_and_what_follows_is_unknown(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.const("zeros", np.zeros((4, 4), np.float32))
    builder.add("Add", "sum", "x", "zeros", T=FLOAT)
    builder.add("Relu", "out", "sum", T=FLOAT)
    inference = ShapeInference(builder.graph, {TensorName("x"): (BATCH, 4)})
    assert inference.problems == [("sum", "combines [1009, 4] with [4, 4]")]
    assert TensorName("out") not in inference.shapes


def test_loops_and_unknown_ops_end_the_following(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("Enter", "enter", "x", T=FLOAT)
    builder.add("Merge", "merge", "enter", "next", T=FLOAT)
    builder.add("NextIteration", "next", "merge", T=FLOAT)
    builder.add("SomebodysOp", "theirs", "x")
    builder.add("Relu", "out", "theirs", T=FLOAT)
    inference = ShapeInference(builder.graph, {TensorName("x"): (BATCH, 4)})
    assert inference.shapes == {TensorName("x"): (BATCH, 4), TensorName("enter"): (BATCH, 4)}


def test_placeholders_variables_and_reads(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 2), np.float32), resource=True)
    builder.add("MatMul", "out", "x", read, T=FLOAT)
    inference = ShapeInference(builder.graph, {})
    assert inference.shapes[TensorName("out")] == (None, 2)
