"""Models of others, converted; TensorFlow runs the results."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import exporters
from checkpoints.errors import UnsupportedError
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow


def read_idx(path, header_bytes: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read()[header_bytes:], np.uint8)


def test_mnist_mlp_equals_what_its_author_froze(shared, tmp_path, run_frozen):
    folder = shared / "data/models/mnist_mlp"
    done = exporters.convert(folder / "model.ckpt-1999", tmp_path / "m.pb")
    assert [output.name for output in done.outputs] == ["softmax_linear/add:0"]
    ours = read_graph(done.path).nodes
    theirs = read_graph(folder / "mnist_frozen.pb").nodes
    assert ours.keys() == theirs.keys()
    for name, node in theirs.items():
        assert (ours[name].op, list(ours[name].input)) == (node.op, list(node.input)), name
        if node.op == "Const":
            value = constant_value(node)
            assert constant_value(ours[name]).dtype == value.dtype
            assert constant_value(ours[name]).tobytes() == value.tobytes(), name
    feeds = {"Placeholder:0": np.random.default_rng(0).random((100, 784), np.float32)}
    one, other = (
        run_frozen(path, feeds, ["softmax_linear/add:0"])["softmax_linear/add:0"]
        for path in (done.path, folder / "mnist_frozen.pb")
    )
    np.testing.assert_array_equal(one, other)


def test_a_sharded_v1_checkpoint_of_2017_gives_half_plus_two(shared, tmp_path, run_frozen):
    source = shared / "data/models/half_plus_two_v1_sharded"
    done = exporters.convert(source, tmp_path / "m.pb", outputs=["y"], inputs=["x=?x1"])
    assert done.verification.mode == "run"
    assert done.verification.max_abs == 0.0
    assert done.verification.top1_agreement is None
    x = np.array([[0.0], [1.0], [5.0], [-4.0]], np.float32)
    np.testing.assert_array_equal(run_frozen(done.path, {"x:0": x}, ["y:0"])["y:0"], x / 2 + 2)

    whole = exporters.convert(source, tmp_path / "whole.pb")
    assert whole.inputs[0].dtype == "string"
    tf = load_tensorflow()
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[5.0]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    feeds = {"tf_example:0": [example.SerializeToString()]}
    name = whole.outputs[0].name
    assert run_frozen(whole.path, feeds, [name])[name].tolist() == [[4.5]]
    with pytest.raises(UnsupportedError, match="No input can be made up for tf_example:0"):
        exporters.convert(source, tmp_path / "run.pb", verify="run")
    assert not (tmp_path / "run.pb").exists()


def test_a_v1_checkpoint_of_2016_scores_as_its_author_said(shared, tmp_path, run_frozen):
    done = exporters.convert(shared / "data/models/lenet_300_100_v1", tmp_path / "m.pb")
    pictures = read_idx(shared / "data/mnist/t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    labels = read_idx(shared / "data/mnist/t10k-labels-idx1-ubyte.gz", 8)
    feeds = {"Placeholder:0": pictures.astype(np.float32) / 255}
    logits = run_frozen(done.path, feeds, ["add:0"])["add:0"]
    accuracy = (logits.argmax(axis=1) == labels).mean()
    assert logits.shape == (10_000, 10)
    assert accuracy == pytest.approx(0.977, abs=0.001)


def test_a_saved_model_answers_like_itself(shared, tmp_path, run_frozen):
    source = shared / "data/models/half_plus_two_saved_model"
    done = exporters.convert(source, tmp_path / "m.pb", inputs=["x=?x1"], verify="run")
    x = np.array([[3.0]], np.float32)
    assert run_frozen(done.path, {"x:0": x}, ["y:0"])["y:0"].tolist() == [[3.5]]


def dense(tf, x, name):
    with tf.compat.v1.variable_scope(name):
        return tf.matmul(x, tf.compat.v1.get_variable("weights", [x.shape[-1], 3]))


def test_an_input_pipeline_is_cut_at_its_pictures(save_graph, run_frozen, tmp_path):
    def build(tf):
        v1 = tf.compat.v1
        data = tf.data.Dataset.from_tensors((tf.zeros([4]), 1)).repeat().batch(8)
        x, y = v1.data.make_one_shot_iterator(data).get_next()
        logits = dense(tf, x, "head")
        tf.nn.softmax(logits, name="probs")
        v1.train.GradientDescentOptimizer(0.1).minimize(
            v1.losses.sparse_softmax_cross_entropy(y, logits)
        )

    saved = save_graph(build, {}, [])
    automatic = exporters.convert(saved.prefix, tmp_path / "automatic.pb")
    assert automatic.inputs[0].shape == (None, 4)
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", inputs=["IteratorGetNext:0"])
    assert done.inputs[0].as_json() == {
        "name": "IteratorGetNext:0",
        "dtype": "float32",
        "shape": [None, 4],
    }
    assert (done.verification.mode, done.verification.top1_agreement) == ("run", 1.0)
    feeds = {"IteratorGetNext:0": np.ones((5, 4), np.float32)}
    probs = run_frozen(done.path, feeds, ["probs:0"])["probs:0"]
    np.testing.assert_allclose(probs.sum(axis=1), np.ones(5), rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
def test_queue_fed_training_is_cut_at_its_pictures(save_graph, tmp_path, resource):
    def build(tf):
        v1 = tf.compat.v1
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pictures, labels = v1.train.shuffle_batch([tf.zeros([4]), 1], 8, 40, 10)
        logits = dense(tf, pictures, "head")
        tf.nn.softmax(logits, name="probs")
        v1.train.GradientDescentOptimizer(0.1).minimize(
            v1.losses.sparse_softmax_cross_entropy(labels, logits)
        )

    saved = save_graph(build, {}, [], resource=resource)
    automatic = exporters.convert(saved.prefix, tmp_path / "automatic.pb")
    assert automatic.inputs[0].shape == (None, 4)
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", inputs=["shuffle_batch"])
    assert done.verification.passed
    assert done.inputs[0].shape == (None, 4)
