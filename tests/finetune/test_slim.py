"""tf-slim's layers on today's TensorFlow: nothing it uses is missing, and it changes nothing else."""

import ast
import importlib
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from finetune.slim import load_slim, quietly, replaced_layers, variables_by_identity

pytestmark = pytest.mark.tensorflow


def _dotted(node):
    """`a.b.c` as ["a", "b", "c"], or None where the expression is no plain chain of names."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def test_every_module_attribute_that_tf_slim_uses_exists():
    slim = load_slim()
    root = pathlib.Path(slim.__file__).parent
    missing, seen = [], 0
    for file in sorted(root.rglob("*.py")):
        if file.name.endswith("_test.py"):
            continue
        parts = file.relative_to(root).with_suffix("").parts
        module = importlib.import_module(".".join(["tf_slim", *parts]).removesuffix(".__init__"))
        for node in ast.walk(ast.parse(file.read_text())):
            names = _dotted(node) if isinstance(node, ast.Attribute) else None
            value = getattr(module, names[0], None) if names else None
            for name in names[1:] if names else []:
                if not isinstance(value, types.ModuleType):
                    break
                seen += 1
                if not hasattr(value, name):
                    missing.append(f"{module.__name__}: {'.'.join(names)}")
                    break
                value = getattr(value, name)
    assert missing == []
    assert seen > 2000


def test_tensorflow_itself_is_left_as_it_is():
    load_slim()
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, control_flow_ops, variable_scope

    assert not hasattr(ops, "Tensor")
    assert not hasattr(array_ops, "stack")
    assert not hasattr(control_flow_ops, "cond")
    assert not hasattr(variable_scope, "variable")


@quietly
def test_batch_norm_in_place_and_a_clipped_train_op_update_averages_and_weights():
    slim = load_slim()
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        images = v1.placeholder(tf.float32, [None, 8, 8, 3])
        net = slim.conv2d(
            images,
            4,
            [3, 3],
            normalizer_fn=slim.batch_norm,
            normalizer_params={"is_training": True, "updates_collections": None, "decay": 0.5},
        )
        logits = slim.fully_connected(slim.flatten(net), 2, activation_fn=None)
        slim.losses.softmax_cross_entropy(logits, tf.one_hot([0, 1], 2))
        loss = slim.losses.get_total_loss()
        train = slim.learning.create_train_op(
            loss, v1.train.GradientDescentOptimizer(0.1), clip_gradient_norm=1e-3
        )
        weights = slim.get_variables_by_name("weights", scope="fully_connected")[0]
        mean = slim.get_variables_by_name("moving_mean")[0]
        pictures = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            before = session.run([weights, mean])
            convolution = session.graph.get_tensor_by_name("Conv/Conv2D:0")
            batch = session.run(convolution, {images: pictures}).mean((0, 1, 2))
            session.run(train, {images: pictures})
            after = session.run([weights, mean])
    np.testing.assert_allclose(after[1], 0.5 * batch, rtol=1e-4, atol=1e-6)
    step = np.linalg.norm(after[0] - before[0])
    np.testing.assert_allclose(step, 0.1 * 1e-3, rtol=1e-3)


def test_nothing_of_its_chatter_reaches_stderr():
    code = (
        "from finetune.nets import inference_graph\n"
        "inference_graph('inception_v3_sample', classes=3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == ""


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_by_identity_are_variables_like_any_other(use_resource):
    slim = load_slim()
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), variables_by_identity():
        ones = v1.ones_initializer()
        one, other = (
            v1.get_variable(name, [2], initializer=ones, use_resource=use_resource)
            for name in ("one", "other")
        )
        assert isinstance(one, tf.Variable)
        assert hash(one) == object.__hash__(one)
        assert len({one, other, one}) == 2
        assert (one == one.read_value(), one == other, one != other) == (False, False, True)
        update = v1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(one * one))
        quietly(slim.fully_connected)(one[None], 3, normalizer_fn=slim.batch_norm)
        assert len(v1.global_variables()) == 6
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(update)
            assert session.run([one, other])[0].tolist() == [0.0, 0.0]


def test_eager_variables_are_compared_number_by_number_as_ever():
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    with variables_by_identity():
        variable = tf.Variable([1.0, 2.0])
    assert type(variable) is type(tf.Variable(1.0))
    assert (variable == tf.constant([1.0, 3.0])).numpy().tolist() == [True, False]


def test_layers_are_replaced_inside_the_block_alone():
    slim = load_slim()
    from tf_slim.layers import layers

    plain = slim.conv2d
    with replaced_layers(["conv2d"], lambda name, layer: lambda: (name, layer)):
        assert slim.conv2d() == slim.layers.conv2d() == layers.conv2d() == ("conv2d", plain)
        assert slim.arg_scope([slim.conv2d], stride=2) is not None
    assert slim.conv2d is slim.layers.conv2d is layers.conv2d is plain
