"""Models with a fixed batch, and how their runners tell it."""

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.runtime import GraphRunner
from exporters.runtimes.fixed_batch import FixedBatchRunner
from exporters.runtimes.runners import ArrayRunner, open_runner


class Doubling(ArrayRunner):
    """Gives twice what it gets, and what its batches were."""

    def __init__(self, batch_size):
        self.label, self.inputs, self.outputs, self.metadata = "doubling", ("x",), ("y",), None
        self.batch_size = batch_size
        self.batches = []
        self.is_closed = False

    def run_feeds(self, feeds):
        self.batches.append(feeds["x"].tolist())
        return [feeds["x"] * 2]

    def close(self):
        self.is_closed = True


def test_pieces_are_filled_up_and_what_fills_them_is_dropped():
    inner = Doubling(2)
    with FixedBatchRunner(inner) as runner:
        assert runner.batch_size is None
        (found,) = runner.run(np.array([1, 2, 3]))
    assert found.tolist() == [2, 4, 6]
    assert inner.batches == [[1, 2], [3, 3]]
    assert inner.is_closed


def test_a_free_batch_needs_none_of_it():
    with pytest.raises(GraphError, match="is free"):
        FixedBatchRunner(Doubling(None))


@pytest.mark.tensorflow
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_the_runners_tell_the_batch(colour_model, tmp_path, batch):
    frozen = colour_model.write_pb(tmp_path / "m.pb", batch=batch)
    assert GraphRunner(frozen).batch_size == batch
    for name in ("m.tflite", "m.onnx"):
        model = exporters.convert(frozen, tmp_path / name, verify="none").path
        with open_runner(model) as runner:
            assert runner.batch_size == batch
