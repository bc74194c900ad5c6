"""Dropout in the body of a loop, which is a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph

pytestmark = pytest.mark.tensorflow

SHAPE = (3, 4)


def looped(tf: Any, sequence: Any, noisy: Any) -> Any:
    weights = tf.compat.v1.get_variable("weights", [4, 4])

    def body(step: Any, state: Any) -> Any:
        return step + 1, noisy(tf.tanh(state @ weights + sequence[:, step]))

    first = tf.zeros_like(sequence[:, 0])
    return tf.while_loop(lambda step, _: step < 3, body, [0, first])[1]


@pytest.mark.parametrize("is_last", [False, True])
def test_dropout_in_a_loop(train, run_frozen, tmp_path, is_last):
    """The dropout may be what the body returns, or something may be made of it."""

    def net(tf, sequence, training):
        def noisy(state):
            dropped = tf.nn.dropout(state, rate=0.4) if training else state
            return dropped if is_last else dropped * 0.5 + 1.0

        return tf.identity(looped(tf, sequence, noisy), "logits")

    trained = train(net, fuss=False, shape=SHAPE)
    done = exporters.convert(trained.prefix, tmp_path / "m.pb", outputs=["logits"])
    assert any(note.startswith("Dropout taken out of 1 loop: ") for note in done.notes)
    assert done.verification.mode == "run"
    functions = read_graph(done.path).functions.values()
    ops = {node.op for function in functions for node in function.node_def}
    assert "Tanh" in ops and "RandomUniform" not in ops
    batch = np.random.default_rng(2).normal(size=(5, *SHAPE)).astype(np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, ["logits:0"])["logits:0"]
    np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)


def test_other_noise_in_a_loop_is_refused_with_the_loop(train, tmp_path):
    def net(tf, sequence, training):
        def noisy(state):
            return state + tf.random.uniform([4]) if training else state

        return tf.identity(looped(tf, sequence, noisy), "logits")

    trained = train(net, fuss=False, shape=SHAPE)
    with pytest.raises(GraphError, match=r"RandomUniform\) inside \w+ \((Stateless)?While\)"):
        exporters.convert(trained.prefix, tmp_path / "m.pb", outputs=["logits"])
