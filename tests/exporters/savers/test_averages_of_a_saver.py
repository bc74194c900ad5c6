"""An evaluation graph whose Saver restores variables from their moving averages."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError
from checkpoints.selection import Selection
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

AVERAGE = "w/ExponentialMovingAverage"
RAW = np.full((4, 3), 1.0, np.float32)
MEAN = np.full((4, 3), 0.9, np.float32)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def evaluation(tmp_path, request):
    """Writes eval.meta; returns its path."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.variable_scope("", use_resource=request.param):
        x = v1.placeholder(tf.float32, [None, 4], "x")
        tf.matmul(x, v1.get_variable("w", [4, 3]), name="out")
        averages = v1.train.ExponentialMovingAverage(0.9)
        saver = v1.train.Saver(averages.variables_to_restore())
        saver.export_meta_graph(str(tmp_path / "eval.meta"))
    return tmp_path / "eval.meta"


def converted(graph, tmp_path, weights, values):
    checkpoints.write(tmp_path / "m.ckpt", values, overwrite=True)
    done = exporters.convert(
        graph,
        tmp_path / "m.pb",
        checkpoint=tmp_path / "m.ckpt",
        outputs=["out"],
        selection=Selection(weights=weights),
    )
    return done, constant_value(read_graph(done.path).nodes["w"])


@pytest.mark.parametrize(("weights", "value"), [("auto", MEAN), ("raw", RAW), ("ema", MEAN)])
def test_which_weights(evaluation, tmp_path, weights, value):
    done, constant = converted(evaluation, tmp_path, weights, {"w": RAW, AVERAGE: MEAN})
    np.testing.assert_array_equal(constant, value)
    said = [note[:22] for note in done.notes if note.startswith("Weights: ")]
    assert (
        said
        == {
            "auto": ["Weights: the averages "],
            "raw": [],
            "ema": ["Weights: ema, the aver"],
        }[weights]
    )


def test_a_checkpoint_without_averages(evaluation, tmp_path):
    done, constant = converted(evaluation, tmp_path, "auto", {"w": RAW})
    np.testing.assert_array_equal(constant, RAW)
    assert not [note for note in done.notes if note.startswith("Weights: ")]


def test_raw_weights_that_are_not_there(evaluation, tmp_path):
    with pytest.raises(GraphError, match="1 absent from the checkpoint"):
        converted(evaluation, tmp_path, "raw", {AVERAGE: MEAN})
