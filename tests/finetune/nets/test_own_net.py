"""Nets and losses that are functions of the user's: what they may do, and how their faults are told."""

import sys

import pytest

from checkpoints.errors import GraphError, PlanError, UsageError
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, train
from finetune.nets import build_net, inference_graph
from finetune.nets.file_options import NetOptions
from finetune.nets.own_net import load_function, read_own_net
from finetune.training.heads import Head

pytestmark = pytest.mark.tensorflow

SOURCE = """
import tensorflow as tf, tf_slim as slim
v1 = tf.compat.v1

def plain(inputs, num_classes, is_training):
    with v1.variable_scope("N"):
        net = tf.reduce_mean(slim.conv2d(inputs, 4, 3, stride=4, scope="c1"), [1, 2])
        return slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits"), {}

def dropped(inputs, num_classes, is_training, dropout_keep_prob=0.9):
    with v1.variable_scope("N"):
        net = slim.dropout(tf.reduce_mean(inputs, [1, 2]), dropout_keep_prob, is_training=is_training)
        return slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits"), {}

def products(inputs, num_classes, is_training):
    with v1.variable_scope("N/Logits"):
        weights = v1.get_variable("weights", [3, num_classes])
    return tf.matmul(tf.reduce_mean(inputs, [1, 2]), weights), {}

def by_hand(inputs, num_classes, is_training):
    with v1.variable_scope("N"):
        scale = v1.get_variable("c1/gamma", [3], initializer=v1.ones_initializer())
        mean = v1.get_variable("c1/mean", [3], trainable=False)
        net, _, _ = v1.nn.fused_batch_norm(inputs, scale, scale, is_training=is_training,
            **({} if is_training else {"mean": mean, "variance": scale}))
        net = tf.reduce_mean(net, [1, 2])
        return slim.fully_connected(net, num_classes, activation_fn=None, scope="Logits"), {}

def raises(inputs, num_classes, is_training):
    raise ValueError("my own fault")

def wrong_arguments(inputs):
    return inputs, {}

def alone(inputs, num_classes, is_training):
    return inputs

def nothing(inputs, num_classes, is_training):
    return None, {}
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """The name of a module of nets in the current directory."""
    name = "slimtune_test_own_nets"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield name
    sys.modules.pop(name, None)


def read(name):
    return read_own_net(name, NetOptions(None, None, None, 16))


def built(net, **options):
    tf = load_tensorflow()
    with tf.Graph().as_default() as graph:
        build_net(net, tf.zeros([2, 16, 16, 3]), 3, is_training=True, **options)
        names = [variable.op.name for variable in tf.compat.v1.global_variables()]
        return names, {op.type for op in graph.get_operations()}


def test_a_module_that_imports_tf_slim_as_ever_is_a_net_and_takes_hidden_layers(nets):
    net = read(f"{nets}:plain")
    assert net.main_head == "N/Logits"
    names, _ = built(net, head=Head((5,)))
    assert "N/Logits/Hidden_1/weights" in names


def test_a_function_gets_as_many_channels_as_its_preprocessing_gives(nets):
    net = read_own_net(f"{nets}:plain", NetOptions(preprocessing="grey", image_size=16))
    graph = inference_graph(net, 3)
    shapes = {variable.name: variable.shape for variable in graph.variables}
    assert shapes["N/c1/weights"] == (3, 3, 1, 4)


def test_hidden_layers_that_cannot_be_put_in_are_refused(nets):
    with pytest.raises(UsageError, match=r"--hidden: the logits of .*:products are no layer"):
        built(read(f"{nets}:products"), head=Head((5, 4)))


def test_dropout_is_built_where_the_function_takes_it_and_refused_elsewhere(nets):
    _, kinds = built(read(f"{nets}:dropped"), dropout=0.5)
    assert "RandomUniform" in kinds
    with pytest.raises(UsageError, match=r"--dropout: the function .*:plain has no parameter"):
        built(read(f"{nets}:plain"), dropout=0.5)


@pytest.mark.parametrize(
    ("function", "message", "received"),
    [
        ("raises", "fails", "ValueError: my own fault (FILE, line 30)"),
        ("wrong_arguments", "fails", "TypeError: wrong_arguments() takes 1 positional argument"),
        ("alone", "does not give logits and end points", "Tensor("),
        ("nothing", "does not give logits", "None"),
    ],
)
def test_a_function_that_is_no_net_is_told_with_its_file(
    nets, tmp_path, function, message, received
):
    with pytest.raises(PlanError) as caught:
        read(f"{nets}:{function}")
    assert f"{nets}:{function} {message}." in caught.value.message
    assert "(inputs, num_classes, is_training)" in str(caught.value) or function == "nothing"
    assert received.replace("FILE", str(tmp_path / f"{nets}.py")) in caught.value.received
    if message == "fails":
        assert f"{nets}.py" in caught.value.received


@pytest.mark.parametrize(
    ("source", "said"),
    [("x = (\n", "SyntaxError"), ("\nprint(undefined)\n", "NameError: name 'undefined'")],
)
def test_a_module_with_a_fault_of_its_own_is_told(tmp_path, monkeypatch, source, said):
    (tmp_path / "slimtune_test_faulty.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError, match="cannot be imported") as caught:
        load_function("slimtune_test_faulty:net")
    assert said in caught.value.received
    assert "slimtune_test_faulty.py, line" in caught.value.received


def test_a_module_without_the_function_is_told(nets):
    with pytest.raises(UsageError, match="There is no function") as caught:
        load_function(f"{nets}:missing")
    assert "has no function 'missing'" in caught.value.received


def test_a_frozen_part_with_batch_norm_by_hand_gets_advice_that_train_knows(
    nets, colours, tmp_path
):
    options = {"checkpoint": "none", "image_size": 16, "steps": 2, "batch_size": 8}
    with pytest.raises(GraphError, match="in training mode") as caught:
        train(TrainConfig(str(colours), str(tmp_path / "run"), net=f"{nets}:by_hand", **options))
    assert "--keep-training" not in str(caught.value)
    assert "with is_training=False; or train everything with --trainable all" in (
        caught.value.next_step
    )
