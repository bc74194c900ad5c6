"""Nets from files and from functions of one's own: planned, trained, evaluated, exported."""

import json
import sys
import types

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError, NotFoundError, PlanError, UsageError
from exporters.runtime import GraphRunner, load_tensorflow
from finetune import TrainConfig, evaluate, features, plan, train
from finetune.nets import build_net

pytestmark = pytest.mark.tensorflow

OPTIONS = {"batch_size": 8, "steps": 3, "learning_rate": 0.05, "precision": "fp32"}


@pytest.fixture
def frozen(tiny_checkpoint, tmp_path):
    """The tiny net with 7 classes as a frozen graph of somebody's, without metadata."""
    v1 = load_tensorflow().compat.v1
    path = tmp_path / "somebody" / "tiny.pb"
    with v1.Graph().as_default() as graph:
        images = v1.placeholder(v1.float32, [1, 16, 16, 3], name="pictures")
        net = build_net("tiny", images, 7)
        answers = net.predictions.op.name
    with checkpoints.open(tiny_checkpoint) as saved:
        exporters.freeze(graph, saved, [answers], path)
    return path


def test_a_plan_of_a_file_restores_all_of_it_but_the_head(frozen, heard):
    made = plan(net=str(frozen), classes=3, progress=heard)
    states = {variable.name: (variable.state, variable.origin) for variable in made.variables}
    assert states["Tiny/Conv2d_1/weights"] == ("frozen", "restored")
    assert states["Tiny/Conv2d_10/BatchNorm/moving_mean"] == ("frozen", "restored")
    assert states["Head/Logits/weights"] == ("trainable", "initialised")
    assert not any(name.startswith("Tiny/Logits") for name in states)
    assert made.totals()["trainable_parameters"] == 16 * 3 + 3
    assert "Input pictures:0, the placeholder for pictures." in heard.said
    assert any(line.startswith("Bottleneck Tiny/Logits/") for line in heard.said)
    assert "Preprocessing inception: the file says nothing of one." in heard.said


def test_a_file_is_trained_evaluated_and_exported(frozen, colours, tmp_path, tiny_checkpoint):
    run = tmp_path / "run"
    result = train(TrainConfig(data=str(colours), run=str(run), net=str(frozen), **OPTIONS))
    # Batch norm without gamma has ones in its place, which thawing takes for a variable.
    assert result.frozen_verified == 8 + 2
    with checkpoints.open(tiny_checkpoint) as source, checkpoints.open(run) as trained:
        for name in ("Tiny/Conv2d_1/weights", "Tiny/Conv2d_10/BatchNorm/moving_variance"):
            assert trained[name].tobytes() == source[name].tobytes()
    assert evaluate(run, colours).accuracy == result.accuracy
    model = tmp_path / "model.pb"
    done = exporters.convert(run, model)
    assert done.verification.passed
    assert evaluate(model, colours).accuracy == result.accuracy
    assert (run / "report.html").is_file()
    again = plan(net=str(model), classes=5)
    assert "Head_1/Logits/weights" not in {v.name for v in again.variables}
    written = features(model, colours, tmp_path / "own.npz")
    other = features(frozen, colours, tmp_path / "file.npz", bottleneck=written.tensor)
    assert (written.count, written.channels) == (other.count, other.channels) == (60, 16)
    with np.load(tmp_path / "own.npz") as one, np.load(tmp_path / "file.npz") as two:
        np.testing.assert_array_equal(one["features"], two["features"])


def test_scopes_of_a_file_train_with_its_averages_left_as_they_are(frozen, colours, tmp_path):
    run = tmp_path / "run"
    scopes = ("Tiny/Conv2d_10", "Head")
    train(
        TrainConfig(data=str(colours), run=str(run), net=str(frozen), trainable=scopes, **OPTIONS)
    )
    stored = json.loads((run / "plan.json").read_text())
    states = {v["name"]: (v["state"], v["optimised"]) for v in stored["variables"]}
    assert states["Tiny/Conv2d_10/weights"] == ("trainable", True)
    assert states["Tiny/Conv2d_10/BatchNorm/moving_mean"] == ("trainable", False)
    assert states["Tiny/Conv2d_1/weights"] == ("frozen", False)


def test_a_meta_graph_with_its_checkpoint_is_a_net_too(tiny_net, colours, tmp_path, heard):
    v1 = load_tensorflow().compat.v1
    prefix = tmp_path / "theirs" / "model.ckpt"
    with v1.Graph().as_default(), v1.Session() as session:
        images = v1.placeholder(v1.float32, [8, 16, 16, 3], name="pictures")
        build_net("tiny", images, 7, is_training=True)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(prefix))
    made = plan(
        net=f"{prefix}.meta",
        bottleneck="Tiny/Logits/Mean",
        input="pictures",
        classes=3,
        progress=heard,
    )
    assert {v.name for v in made.restored} == {
        f"Tiny/{layer}/{name}"
        for layer in ("Conv2d_1", "Conv2d_10")
        for name in (
            "weights",
            "BatchNorm/beta",
            "BatchNorm/moving_mean",
            "BatchNorm/moving_variance",
        )
    }


def test_the_net_of_a_file_answers_as_the_file_does(frozen, tmp_path, colours):
    run = tmp_path / "run"
    train(TrainConfig(data=str(colours), run=str(run), net=str(frozen), **OPTIONS))
    model = tmp_path / "model.pb"
    exporters.convert(run, model)
    pictures = np.random.default_rng(0).uniform(-1, 1, (1, 16, 16, 3)).astype(np.float32)
    with (
        GraphRunner(frozen, ["pictures"], ["Tiny/Logits/Mean"]) as one,
        GraphRunner(model, ["input"], ["Tiny/Logits/Mean"]) as other,
    ):
        np.testing.assert_array_equal(one.run(pictures)[0], other.run(pictures)[0])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"bottleneck": "nothing"}, GraphError, "no node 'nothing'"),
        ({"input": "nothing"}, GraphError, "no node 'nothing'"),
        ({"checkpoint": "x.ckpt"}, PlanError, "holds its own weights"),
    ],
)
def test_what_a_file_does_not_have_is_said(frozen, options, error, text):
    with pytest.raises(error, match=text):
        plan(net=str(frozen), classes=3, **options)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFoundError, match=r"missing\.pb is not there"):
        plan(net=str(tmp_path / "missing.pb"), classes=3)


def test_a_file_that_reads_files_is_not_built_into_a_training_graph(tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        images = v1.placeholder(v1.float32, [None, 16, 16, 3], name="pictures")
        length = tf.strings.length(tf.io.read_file("/etc/hostname"))
        pooled = tf.reduce_mean(images, [1, 2]) + tf.cast(length, tf.float32)
        tf.matmul(pooled, tf.ones([3, 2]), name="logits")
    path = tmp_path / "reads.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(GraphError, match="more than compute"):
        plan(net=str(path), classes=3)


def test_options_of_files_are_refused_for_registered_nets(tiny_net):
    with pytest.raises(UsageError, match="--bottleneck: the net tiny is registered"):
        plan(net="tiny", checkpoint="none", classes=3, bottleneck="x")


def build_own(inputs, num_classes, is_training):
    """A net as a person writes it: no options, no end points to speak of."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with v1.variable_scope("Body"):
        kernel = v1.get_variable("kernel", [3, 3, 3, 4])
        net = tf.nn.relu(tf.nn.conv2d(inputs, kernel, 2, "SAME"))
    net = tf.reduce_mean(net, [1, 2])
    with v1.variable_scope("Top"):
        weights = v1.get_variable("w", [4, num_classes])
        biases = v1.get_variable("b", [num_classes])
    return tf.nn.bias_add(tf.matmul(net, weights), biases), {}


@pytest.fixture
def own_net(monkeypatch):
    module = types.ModuleType("slimtune_own_net")
    module.build = build_own
    module.headless = lambda inputs, num_classes, is_training: (
        load_tensorflow().zeros([1, num_classes]),
        {},
    )
    monkeypatch.setitem(sys.modules, "slimtune_own_net", module)
    return "slimtune_own_net:build"


def test_a_function_of_ones_own_is_trained(own_net, colours, tmp_path, heard):
    run = tmp_path / "run"
    options = {**OPTIONS, "image_size": 16, "preprocessing": "none", "checkpoint": "none"}
    result = train(
        TrainConfig(data=str(colours), run=str(run), net=own_net, **options), progress=heard
    )
    stored = json.loads((run / "plan.json").read_text())
    states = {v["name"]: v["state"] for v in stored["variables"]}
    assert states == {"Body/kernel": "frozen", "Top/w": "trainable", "Top/b": "trainable"}
    assert result.frozen_verified == 1
    assert any("4 numbers a picture (Mean" in line for line in heard.said)
    assert exporters.convert(run, tmp_path / "model.pb").verification.passed


def test_a_function_without_a_head_or_that_is_not_there_is_refused(own_net):
    with pytest.raises(PlanError, match="no head that stands in one variable scope"):
        plan(net="slimtune_own_net:headless", checkpoint="none", classes=3)
    with pytest.raises(UsageError, match="There is no function slimtune_own_net:nothing"):
        plan(net="slimtune_own_net:nothing", checkpoint="none", classes=3)
