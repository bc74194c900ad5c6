"""Values that follow from constants; TensorFlow's own results are the independent side."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from exporters.evaluation import MAX_ELEMENTS, Evaluator
from exporters.graph import Graph, as_graph
from exporters.names import TensorName
from exporters.runtime import load_tensorflow

FLOAT = np.dtype("float32")
INT = np.dtype("int32")
BOOL = np.dtype("bool")


@pytest.mark.tensorflow
def test_every_op_gives_what_tensorflow_gives():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = tf.constant([[1.5, -2.5, 0.0], [4.0, 0.25, -1.0]])
        b = tf.constant([[2.0, 3.0, -1.0], [0.5, -4.0, 2.0]])
        i, j = tf.constant([7, -7, 5]), tf.constant([2, 2, -3])
        positive = tf.abs(a) + 1.0
        fetched = [
            a + b, a - b, a * b, a / b, -a, tf.add_n([a, b, a]), v1.div(a, b), v1.div(i, j),
            i // j, i % j, v1.mod(i, j), tf.truncatemod(i, j), tf.math.floormod(a, b),
            tf.math.divide_no_nan(a, b * 0.0), tf.maximum(a, b), tf.minimum(a, b),
            tf.floor(a), tf.math.ceil(a), tf.round(a), tf.sqrt(positive), tf.math.rsqrt(positive),
            tf.square(a), tf.exp(a), tf.math.log(positive), tf.pow(positive, 1.5),
            tf.math.reciprocal(positive), a > b, a >= b, a < b, a <= b, tf.equal(a, b),
            tf.not_equal(a, b), tf.logical_not(a > b), tf.logical_and(a > b, a > 0.0),
            tf.logical_or(a > b, a > 0.0), tf.cast(a, tf.int32), tf.cast(a > b, tf.float32),
            tf.where(a > b, a, b), v1.where(a > b, a, b), tf.zeros_like(a), tf.ones_like(a),
            tf.reduce_sum(a, 0), tf.reduce_prod(a, [0, 1]), tf.reduce_max(a, -1, keepdims=True),
            tf.reduce_min(a, 1), tf.reshape(a, [3, -1]), tf.expand_dims(a, -1),
            tf.squeeze(tf.expand_dims(a, 0)), tf.squeeze(tf.expand_dims(a, 0), [0]),
            tf.concat([a, b], 1), tf.stack([a, b], 1), *tf.unstack(a, axis=1), *tf.split(a, 3, 1),
            tf.gather(a, [1, 0], axis=1), tf.slice(a, [0, 1], [-1, 2]), a[1, ::-1], a[..., 1:],
            a[:, tf.newaxis, 0], tf.fill([2, 3], 5), tf.range(2, 11, 3), tf.stop_gradient(a),
            tf.shape(a), tf.size(a), tf.rank(a), tf.shape_n([a, tf.constant([1.0])])[1],
        ]  # fmt: skip
        with v1.Session() as session:
            expected = session.run(fetched)
    read = as_graph(Graph(as_graph(graph).graph_def))
    evaluator = Evaluator(read, shape_of=read.shape)
    for tensor, value in zip(fetched, expected, strict=True):
        name = TensorName(tensor.op.name, tensor.value_index)
        found = evaluator.value(name)
        assert found is not None, (tensor.op.type, name)
        assert found.shape == value.shape, tensor.op.type
        np.testing.assert_allclose(
            found.astype(np.float64), value.astype(np.float64), rtol=1e-6, err_msg=tensor.op.type
        )


def test_what_does_not_follow_is_unknown(dense_net):
    evaluator = Evaluator(dense_net.graph)
    assert evaluator.value(TensorName("probs")) is None
    assert evaluator.value(TensorName("not there")) is None
    assert evaluator.scalar(TensorName("x")) is None


def test_given_and_assumed_values(builder):
    builder.add("Placeholder", "keep", dtype=FLOAT)
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.add("Mul", "product", "keep", "x", T=FLOAT)
    given = {TensorName("x"): np.arange(3.0)}
    evaluator = Evaluator(builder.graph, given, assumed=lambda tensor: np.array(0.5))
    assert evaluator.value(TensorName("product")).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("op", "known", "value"),
    [("LogicalAnd", False, False), ("LogicalOr", True, True), ("LogicalAnd", True, None)],
)
def test_one_of_two_may_decide(builder, op, known, value):
    builder.const("known", known)
    builder.add("Placeholder", "x", dtype=BOOL)
    builder.add(op, "first", "known", "x")
    builder.add(op, "second", "x", "known")
    evaluator = Evaluator(builder.graph)
    assert evaluator.scalar(TensorName("first")) == value
    assert evaluator.scalar(TensorName("second")) == value


def test_a_choice_needs_the_chosen_alone(builder):
    builder.const("yes", True)
    builder.const("one", np.float32(1))
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.add("SelectV2", "chosen", "yes", "one", "x", T=FLOAT)
    builder.add("SelectV2", "other", "yes", "x", "one", T=FLOAT)
    evaluator = Evaluator(builder.graph)
    assert evaluator.scalar(TensorName("chosen")) == 1
    assert evaluator.scalar(TensorName("other")) is None


def test_nonsense_is_unknown(builder):
    builder.const("two", np.zeros(2, np.float32))
    builder.const("three", np.zeros(3, np.float32))
    builder.const("axis", np.int32(7))
    builder.add("Add", "sum", "two", "three", T=FLOAT)
    builder.add("ExpandDims", "expanded", "two", "axis", T=FLOAT)
    builder.add("Cast", "cast", "two")
    builder.add("Const", "empty")
    builder.add("Add", "itself", "itself", "two", T=FLOAT)
    builder.add("Add", "few", "two")
    evaluator = Evaluator(builder.graph)
    for name in ("sum", "expanded", "itself", "few"):
        assert evaluator.value(TensorName(name)) is None, name
    assert evaluator.value(TensorName("two", 1)) is None
    assert evaluator.value(TensorName("empty")) is None


def test_large_values_are_unknown(builder):
    builder.const("shape", np.array([MAX_ELEMENTS + 1], np.int32))
    builder.const("huge", np.array([2**30, 2**30], np.int32))
    builder.const("zero", np.float32(0))
    builder.const("one", np.int32(1))
    builder.add("Fill", "filled", "shape", "zero", T=FLOAT)
    builder.add("Fill", "too large", "huge", "zero", T=FLOAT)
    builder.add("Range", "range", "one", "huge", "one")
    evaluator = Evaluator(builder.graph)
    for name in ("filled", "too large", "range"):
        assert evaluator.value(TensorName(name)) is None


def test_deep_chains_end(builder):
    builder.const("n0", np.float32(0))
    for index in range(1, 5000):
        builder.add("Identity", f"n{index}", f"n{index - 1}", T=FLOAT)
    assert Evaluator(builder.graph).scalar(TensorName("n4999")) == 0
