"""Loops of TensorFlow 1 in a written .meta: TensorFlow differentiates them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import exporters
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

ROWS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def saved(save_graph, request):
    """A loop with a conditional in it, whose counter no output needs."""

    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None, 4], "x")
        weights = v1.get_variable("w", [4, 4])

        def body(count: Any, rows: Any) -> Any:
            made = tf.cond(
                tf.reduce_sum(rows) > 0,
                lambda: tf.tanh(rows @ weights),
                lambda: tf.tanh(rows * 2.0),
            )
            return count + 1, made

        looped = v1.while_loop(lambda count, rows: count < 3, body, [0, x])
        tf.identity(looped[1], "out")

    v1 = load_tensorflow().compat.v1
    v1.disable_control_flow_v2()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return save_graph(build, {}, [], resource=request.param, name="m.ckpt").prefix
    finally:
        v1.enable_control_flow_v2()


def gradients(meta, prefix) -> list[np.ndarray]:
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with warnings.catch_warnings(), tf.Graph().as_default() as graph:
        warnings.simplefilter("ignore")
        saver = v1.train.import_meta_graph(str(meta))
        x = graph.get_tensor_by_name("x:0")
        out = graph.get_tensor_by_name("out:0")
        wanted = tf.gradients(out, [x, *v1.trainable_variables()])
        with v1.Session() as session:
            saver.restore(session, str(prefix))
            return [session.run(wanted, {x: sign * ROWS + 0.1}) for sign in (1, -1)]


def test_a_written_meta_is_differentiated_as_its_source(saved, tmp_path):
    done = exporters.convert(saved, tmp_path / "n.meta", outputs=["out"])
    assert not [note for note in done.notes if "differentiate" in note]
    before, after = gradients(f"{saved}.meta", saved), gradients(done.path, saved)
    for ours, theirs in zip(before, after, strict=True):
        assert len(ours) == len(theirs) == 2
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_a_frozen_graph_does_not_hold_is_said(saved, tmp_path):
    exporters.convert(saved, tmp_path / "m.pb", outputs=["out"])
    thawed = exporters.convert(tmp_path / "m.pb", tmp_path / "t.ckpt", outputs=["out"])
    kept = exporters.convert(
        tmp_path / "t.ckpt",
        f"{tmp_path}/kept/",
        outputs=["out"],
        options=exporters.ModelOptions(keep_variables=True),
    )
    for done in (thawed, kept):
        assert (
            "What TensorFlow needs to differentiate the loop at while/Enter is not in the source:"
            " tf.gradients fails there. The graph runs all the same." in done.notes
        )
