"""Nets as they are trained, saved, and what they answer when built for evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exporters
from exporters.runtime import load_tensorflow

SHAPE = (6, 6, 2)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def resource(request) -> bool:
    return request.param


@dataclass
class Trained:
    """A training graph that was saved, and what the same net answers when built for evaluation.

    Attributes:
      prefix: of the checkpoint; PREFIX.meta is the training graph.
      answers: batch of pictures -> what the evaluation net says.
    """

    prefix: Path
    answers: Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def train(tmp_path, resource):
    """Saves net(tf, pictures, training) as it is trained; builds it again for its answers."""

    def trained(
        net: Callable[[Any, Any, bool], Any],
        pipeline: Callable[[Any], Any] | None = None,
        fuss: bool = True,
        shape: tuple[int, ...] = SHAPE,
    ) -> Trained:
        tf = load_tensorflow()
        v1 = tf.compat.v1
        prefix = tmp_path / "run" / "model.ckpt"
        prefix.parent.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with tf.Graph().as_default():
                with v1.variable_scope("", use_resource=resource):
                    if pipeline is None:
                        pictures = v1.placeholder(tf.float32, [None, *shape], "pictures")
                        labels = v1.placeholder(tf.int64, [None], "labels")
                    else:
                        pictures, labels = pipeline(tf)
                    logits = net(tf, pictures, True)
                    if fuss:
                        add_training(tf, logits, labels)
                save(tf, prefix)
            graph = tf.Graph()
            with graph.as_default(), v1.variable_scope("", use_resource=resource):
                x = v1.placeholder(tf.float32, [None, *shape], "x")
                evaluated = net(tf, x, False)
                saver = v1.train.Saver()

        def answers(batch: np.ndarray) -> np.ndarray:
            with v1.Session(graph=graph) as session:
                saver.restore(session, str(prefix))
                return session.run(evaluated, {x: batch})

        return Trained(prefix, answers)

    return trained


def add_training(tf: Any, logits: Any, labels: Any) -> None:
    """Loss, optimiser with the updates under it, global step, accuracy and summaries."""
    v1 = tf.compat.v1
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    step = v1.train.get_or_create_global_step()
    total = v1.losses.get_total_loss()
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        v1.train.RMSPropOptimizer(0.01, momentum=0.9).minimize(total, step)
    hits = tf.equal(tf.argmax(logits, 1), labels)
    v1.summary.scalar("loss", loss)
    v1.summary.scalar("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    v1.summary.histogram("logits", logits)
    v1.summary.merge_all()


def save(tf: Any, prefix: Path) -> None:
    v1 = tf.compat.v1
    generator = np.random.default_rng(1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable in v1.global_variables():
            if variable.dtype.base_dtype.is_floating:
                positive = "variance" in variable.op.name
                value = generator.uniform(0.5 if positive else -1, 1, variable.shape)
                variable.load(value.astype(variable.dtype.base_dtype.name), session)
        v1.train.Saver().save(session, str(prefix))


@pytest.fixture
def check(train, run_frozen, tmp_path):
    """Trains, converts, and compares the answers at two batch sizes."""

    def checked(net: Any, pipeline: Any = None, **options: Any) -> exporters.conversion.Conversion:
        trained = train(net, pipeline)
        done = exporters.convert(trained.prefix, tmp_path / "model.pb", **options)
        shape = done.inputs[0].shape
        assert shape is not None and shape[0] is None
        for size in (1, 5):
            batch = np.random.default_rng(size).normal(size=(size, *shape[1:])).astype(np.float32)
            output = done.outputs[0].name
            answers = run_frozen(done.path, {done.inputs[0].name: batch}, [output])[output]
            np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)
        assert done.verification.mode == "run"
        assert done.verification.passed
        return done

    return checked


def build_slim_net(tf: Any, pictures: Any, training: Any, **norm: Any) -> Any:
    """Convolution with batch norm in `body`, dropout, dense `head`."""
    from finetune.slim import load_slim

    slim = load_slim()
    net = slim.conv2d(
        pictures,
        3,
        3,
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": training, "scale": True, **norm},
        weights_regularizer=slim.l2_regularizer(0.01),
        scope="body",
    )
    net = slim.dropout(slim.flatten(net), 0.6, is_training=training, scope="dropout")
    return slim.fully_connected(net, 4, activation_fn=None, scope="head")


@pytest.fixture
def slim_net() -> Callable[..., Any]:
    return build_slim_net


def place_setting(tf: Any, training: bool, name: str = "is_training") -> Any:
    """How a net is told its mode by a placeholder; the evaluation net simply has False."""
    return tf.compat.v1.placeholder(tf.bool, [], name) if training else False


@pytest.fixture
def setting() -> Callable[..., Any]:
    return place_setting


@pytest.fixture(params=["functions", "switch and merge"])
def control_flow(request):
    """Conditionals as TensorFlow 2 and as TensorFlow 1 write them."""
    v1 = load_tensorflow().compat.v1
    if request.param == "functions":
        v1.enable_control_flow_v2()
        yield request.param
    else:
        v1.disable_control_flow_v2()
        yield request.param
        v1.enable_control_flow_v2()
