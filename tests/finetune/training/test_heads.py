"""Hidden layers before the logits, leaky relu, and dropout that depends on the step alone."""

import re

import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.nets import build_net, inference_graph
from finetune.training.heads import Head, leaky_relu

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("leak", [0.0, 0.2, 0.5, 1.0])
def test_leaky_relu_equals_tensorflows(leak):
    tf = load_tensorflow()
    values = np.linspace(-3, 3, 101).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ours, theirs = session.run((leaky_relu(values, leak), tf.nn.leaky_relu(values, leak)))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(ours, np.where(values > 0, values, leak * values), atol=1e-6)


def test_hidden_layers_stand_in_the_scope_of_the_head_and_the_bottleneck_stays(tiny_net):
    plain = inference_graph("tiny", 3)
    deep = inference_graph("tiny", 3, head=Head((8, 4), "leaky-relu"))
    new = {v.name: v.shape for v in deep.variables if v not in plain.variables}
    assert new == {
        "Tiny/Logits/Hidden_1/weights": (1, 1, 16, 8),
        "Tiny/Logits/Hidden_1/biases": (8,),
        "Tiny/Logits/Hidden_2/weights": (1, 1, 8, 4),
        "Tiny/Logits/Hidden_2/biases": (4,),
        "Tiny/Logits/fc/weights": (1, 1, 4, 3),
    }
    assert deep.bottleneck == plain.bottleneck


@pytest.mark.parametrize(
    ("net", "layer", "width"),
    [("vgg_16", "vgg_16/fc8", 4096), ("resnet_v1_50", "resnet_v1_50/logits", 2048)],
)
def test_a_head_that_is_one_layer_gets_its_hidden_layers_inside_its_own_scope(net, layer, width):
    graph = inference_graph(net, 5, 64 if net == "resnet_v1_50" else 224, head=Head((6,)))
    shapes = {v.name: v.shape for v in graph.variables}
    assert shapes[f"{layer}/Hidden_1/weights"] == (1, 1, width, 6)
    assert shapes[f"{layer}/weights"] == (1, 1, 6, 5)
    before = next(t for t in graph.graph_def.node if t.name == graph.bottleneck.split(":")[0])
    assert "Hidden_1" not in before.name


def hidden_output(head, values):
    """What the hidden layers give, and numpy's answer from the same variables."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    from finetune.training.heads import hidden_layers

    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        out = hidden_layers(tf.constant(values), head)
        session.run(v1.global_variables_initializer())
        found, variables = session.run((out, v1.global_variables()))
    net = values
    for weights, biases in zip(variables[::2], variables[1::2], strict=True):
        net = net @ weights.reshape(weights.shape[-2:]) + biases
        net = np.where(net > 0, net, (0.2 if head.activation == "leaky-relu" else 0.0) * net)
    return found, net


@pytest.mark.parametrize("activation", ["relu", "leaky-relu"])
@pytest.mark.parametrize("shape", [(4, 7), (4, 1, 1, 7)])
def test_hidden_layers_are_products_and_activations(activation, shape):
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    found, expected = hidden_output(Head((5, 3), activation), values)
    assert found.shape == (*shape[:-1], 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def dropped(step, seed=0):
    """Logits of the tiny net in training mode at a step, in a session of its own."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(seed)
        at = v1.placeholder(tf.int64, [])
        images = tf.constant(np.random.default_rng(2).normal(size=(4, 16, 16, 3)), tf.float32)
        built = build_net("tiny", images, 3, is_training=True, dropout=0.5, step=at)
        session.run([v.initializer for v in v1.global_variables()])
        # Two runs: what is drawn must not depend on how many came before.
        first = session.run(built.end_points["PreLogits"], {at: step})
        return first, session.run(built.end_points["PreLogits"], {at: step})


def test_what_dropout_drops_is_a_function_of_seed_and_step(tiny_net):
    first, again = dropped(7)
    np.testing.assert_array_equal(first == 0, again == 0)
    elsewhere, _ = dropped(7)
    np.testing.assert_array_equal(first, elsewhere)
    assert 0.3 < (first == 0).mean() < 0.7
    assert ((dropped(8)[0] == 0) != (first == 0)).any()
    assert ((dropped(7, seed=1)[0] == 0) != (first == 0)).any()


def random_scopes(net, scopes, size=224, dropout=None):
    """The layers in whose names a net that trains draws random numbers."""
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default() as graph:
        images = v1.placeholder(v1.float32, [2, size, size, 3])
        built = build_net(net, images, 5, is_training=True, training_scopes=scopes, dropout=dropout)
        drawn = [op.name for op in graph.get_operations() if op.type == "RandomUniform"]
        layers = [name for name in drawn if "nitializer" not in name]
    return [re.sub(r"/dropout(_\d+)?/.*", "", name) for name in layers], built


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (("alexnet_v2/fc8",), ["alexnet_v2/dropout7"]),
        (("alexnet_v2/fc7", "alexnet_v2/fc8"), ["alexnet_v2/dropout6", "alexnet_v2/dropout7"]),
        (("alexnet_v2/conv1",), []),
        (None, ["alexnet_v2/dropout6", "alexnet_v2/dropout7"]),
    ],
)
def test_dropout_outside_the_scope_of_the_layer_it_feeds_drops_where_that_layer_trains(
    scopes, expected
):
    layers, built = random_scopes("alexnet_v2", scopes)
    assert layers == expected
    assert built.bottleneck.op.name == "alexnet_v2/fc7/Relu"


def test_dropout_of_a_net_without_any_of_its_own_stands_before_the_logits():
    layers, built = random_scopes("resnet_v1_50", ("resnet_v1_50/logits",), 33, dropout=0.5)
    assert layers == ["resnet_v1_50/logits/Dropout"]
    assert built.bottleneck.op.name == "resnet_v1_50/pool5"
