"""A variable that is written and then read is not frozen to what it was before."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def resource(request) -> bool:
    return request.param


@pytest.fixture
def saved(save_graph, resource):
    """Saves net(tf, x), whose result is called `out`."""

    def save(net: Any) -> Path:
        def build(tf: Any) -> None:
            x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
            tf.identity(net(tf, x), "out")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return save_graph(build, {}, [], resource=resource, name="m.ckpt").prefix

    return save


def variable(tf: Any, name: str, shape: list[int]) -> Any:
    return tf.compat.v1.get_variable(name, shape, trainable=name in ("w", "u"))


def buffer_by_value(tf: Any, x: Any) -> Any:
    return tf.compat.v1.assign(variable(tf, "state", [5, 4]), x) @ variable(tf, "w", [4, 3])


def buffer_by_waiting(tf: Any, x: Any) -> Any:
    state = variable(tf, "state", [5, 4])
    with tf.control_dependencies([tf.compat.v1.assign(state, x)]):
        read = state.read_value()
    return read @ variable(tf, "w", [4, 3])


def recurrent_state(tf: Any, x: Any) -> Any:
    state = variable(tf, "state", [5, 4])
    new = tf.compat.v1.assign(state, tf.tanh(state @ variable(tf, "u", [4, 4]) + x))
    return new @ variable(tf, "w", [4, 3])


def counter(tf: Any, x: Any) -> Any:
    state = variable(tf, "state", [])
    with tf.control_dependencies([tf.compat.v1.assign_add(state, 1.0)]):
        return x * state.read_value()


def average(tf: Any, x: Any) -> Any:
    mean = tf.reduce_mean(x, 0)
    averages = tf.compat.v1.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([averages.apply([mean])]):
        return (x - averages.average(mean)) @ variable(tf, "w", [4, 3])


@pytest.mark.parametrize(
    "net",
    [buffer_by_value, buffer_by_waiting, recurrent_state, counter, average],
    ids=lambda net: net.__name__,
)
def test_what_was_just_written_is_not_frozen(saved, net, tmp_path):
    prefix = saved(net)
    with pytest.raises(GraphError, match="writes a variable, and an output depends on what") as e:
        exporters.convert(prefix, tmp_path / "m.pb", outputs=["out"])
    assert "--keep-training" in e.value.next_step
    assert not (tmp_path / "m.pb").exists()


def in_a_function(tf: Any, x: Any, state: Any) -> Any:
    @tf.function
    def called(value: Any) -> Any:
        state.assign(value)
        return state * 2.0

    return called(x)


def in_a_function_of_a_function(tf: Any, x: Any, state: Any) -> Any:
    @tf.function
    def inner(value: Any) -> Any:
        return value + state

    @tf.function
    def called(value: Any) -> Any:
        state.assign(value)
        return inner(value)

    return called(x)


def before_a_function(tf: Any, x: Any, state: Any) -> Any:
    @tf.function
    def called(value: Any) -> Any:
        return value + state

    with tf.control_dependencies([tf.compat.v1.assign(state, x)]):
        return called(x)


@pytest.mark.parametrize(
    "net",
    [in_a_function, in_a_function_of_a_function, before_a_function],
    ids=lambda net: net.__name__,
)
@pytest.mark.parametrize("resource", [True], indirect=True)
def test_functions_hide_no_write(saved, net, tmp_path):
    prefix = saved(lambda tf, x: net(tf, x, variable(tf, "state", [5, 4])))
    with pytest.raises(GraphError, match="reads state afterwards"):
        exporters.convert(prefix, tmp_path / "m.pb", outputs=["out"])


def test_an_input_that_is_lost_is_named(saved, tmp_path):
    with pytest.raises(GraphError, match="reads state afterwards, which is the way of x to it"):
        exporters.convert(saved(buffer_by_waiting), tmp_path / "m.pb", outputs=["out"])


def test_ways_out(saved, resource, tmp_path, run_frozen):
    prefix = saved(buffer_by_waiting)
    kept = exporters.convert(prefix, tmp_path / "kept.pb", outputs=["out"], keep_training=True)
    assert any(note.startswith("Read as it is stored: Assign") for note in kept.notes)
    read = "Read/ReadVariableOp" if resource else "read"
    cut = exporters.convert(prefix, tmp_path / "cut.pb", outputs=["out"], inputs=[f"{read}=5x4"])
    assert [entry.name for entry in cut.inputs] == [f"{read}:0"]
    weights = load_tensorflow().train.load_variable(str(prefix), "w")
    state = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    answers = run_frozen(tmp_path / "cut.pb", {f"{read}:0": state}, ["out:0"])["out:0"]
    np.testing.assert_allclose(answers, state @ weights, rtol=1e-5)


def test_a_step_of_training_is_no_part_of_the_answer(saved, tmp_path):
    def net(tf: Any, x: Any) -> Any:
        v1 = tf.compat.v1
        weights = variable(tf, "w", [4, 3])
        loss = tf.reduce_sum(tf.square(x @ weights))
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        with tf.control_dependencies([train]):
            return x @ weights.read_value()

    done = exporters.convert(saved(net), tmp_path / "m.pb", outputs=["out"])
    assert [entry.name for entry in done.inputs] == ["x:0"]
