"""The notes on graphs as files: the .meta, freezing, importing, devices, what training left in them."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from exporters.runtime import session_config
from finetune import partition

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def addition(v1, tmp_path_factory):
    """Variables v1 and v2 and their sum `add`, saved by TensorFlow: the checkpoint's prefix."""
    with v1.Graph().as_default(), v1.Session() as session:
        first = v1.get_variable("v1", initializer=np.array([1.0], np.float32))
        second = v1.get_variable("v2", initializer=np.array([2.0], np.float32))
        v1.add(first, second, name="add")
        session.run(v1.global_variables_initializer())
        prefix = tmp_path_factory.mktemp("addition") / "model.ckpt"
        return v1.train.Saver().save(session, str(prefix))


def test_fetch_by_tensor_name_from_a_meta(addition):
    """The graph comes from the .meta, the values from the checkpoint; nothing is built again."""
    with (
        exporters.GraphRunner(f"{addition}.meta", outputs=["add:0"]) as runner,
        checkpoints.open(addition) as saved,
    ):
        runner.assign(saved)
        (found,) = runner.run()
    assert found.tolist() == [3.0]


def test_import_meta_graph_of_a_converted_checkpoint(v1, session, addition, tmp_path):
    """TensorFlow imports and restores a .meta of ours as it does its own."""
    exporters.convert(addition, tmp_path / "copy.ckpt")
    saver = v1.train.import_meta_graph(str(tmp_path / "copy.ckpt.meta"))
    saver.restore(session, str(tmp_path / "copy.ckpt"))
    assert session.run("add:0").tolist() == [3.0]


def test_freezing_and_import_with_return_elements(v1, session, addition, tmp_path):
    """Freezing is told the node `add`; importing gives the tensor `add:0`, in a list."""
    path = tmp_path / "add.pb"
    with checkpoints.open(addition) as saved:
        frozen = exporters.freeze(f"{addition}.meta", saved, outputs=["add"], path=path)
    assert frozen.outputs == ("add:0",)
    assert frozen.parameters == 2
    graph_def = v1.GraphDef.FromString(path.read_bytes())
    assert {node.op for node in graph_def.node} <= {"Const", "Identity", "Add", "AddV2"}
    imported = v1.import_graph_def(graph_def, return_elements=["add:0"])
    assert [tensor.name for tensor in imported] == ["import/add:0"]
    assert [value.tolist() for value in session.run(imported)] == [[3.0]]
    (node,) = v1.import_graph_def(graph_def, return_elements=["add"])
    assert isinstance(node, v1.Operation)
    with exporters.GraphRunner(path, outputs=["add"]) as runner:
        assert [value.tolist() for value in runner.run()] == [[3.0]]


def test_keep_prob_is_one_minus_rate(tf, v1, session):
    """The share that is kept, in the words of today: what is kept is divided by it."""
    ones, keep = tf.ones([2000]), 0.8
    by_rate = tf.nn.dropout(ones, rate=1 - keep, seed=5)
    by_keep = v1.nn.dropout(ones, keep_prob=keep, seed=5)
    found = session.run(by_rate)
    assert np.array_equal(found, session.run(by_keep))
    assert set(found.tolist()) == {0.0, 1.25}
    assert 0.75 < np.mean(found > 0) < 0.85


@pytest.mark.parametrize("settings", [{}, {"keep_prob": 1.0}])
def test_no_dropout_is_left_in_a_frozen_graph(tf, v1, session, tmp_path, settings):
    """keep_prob is no input of a model that serves; it is folded, asked for or not."""
    x = v1.placeholder(tf.float32, [None, 3], name="x")
    keep_prob = v1.placeholder(tf.float32, name="keep_prob")
    weights = v1.get_variable("weights", initializer=np.arange(6, dtype="f4").reshape(3, 2))
    tf.matmul(tf.nn.dropout(x, rate=1 - keep_prob), weights, name="logits")
    session.run(v1.global_variables_initializer())
    frozen = exporters.freeze(
        session.graph, session, ["logits"], tmp_path / "model.pb", set=settings
    )
    assert frozen.inputs == ("x:0",)
    inputs = np.eye(3, dtype=np.float32)
    with exporters.GraphRunner(frozen.path) as runner:
        assert np.array_equal(runner.run(inputs)[0], np.arange(6).reshape(3, 2))
    ops = {node.op for node in exporters.read_graph(frozen.path).graph_def.node}
    assert not any("Random" in op for op in ops)


def test_soft_placement_of_a_device_that_is_not_there_in_float64(tf, v1, tmp_path):
    """float64 asked for on an eighth GPU: refused hard, run softly; the frozen graph names no device."""
    with v1.Graph().as_default() as graph, v1.device("/device:GPU:7"):
        x = v1.placeholder(tf.float64, [None], name="x")
        third = v1.get_variable("third", dtype=tf.float64, initializer=np.float64(1) / 3)
        tf.multiply(x, third, name="product")
    strict = v1.ConfigProto(allow_soft_placement=False)
    refused = pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device")
    with v1.Session(graph=graph, config=strict) as hard, refused:
        hard.run(third.initializer)
    numbers = np.array([1, 3, 1e-300])
    expected = numbers * (np.float64(1) / 3)
    assert session_config().allow_soft_placement
    with graph.as_default(), v1.Session(graph=graph, config=session_config()) as soft:
        plan = partition([third], None, trainable=["third"])
        assert [variable.dtype for variable in plan.plan.variables] == ["float64"]
        plan.apply(soft)
        assert np.array_equal(soft.run("product:0", {x: numbers}), expected)
        path = tmp_path / "product.pb"
        exporters.freeze(graph, soft, outputs=["product"], path=path)
    assert {node.device for node in exporters.read_graph(path).graph_def.node} == {""}
    with exporters.GraphRunner(path, outputs=["product"]) as runner:
        (found,) = runner.run(numbers)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected)
