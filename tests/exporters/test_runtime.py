import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def, write_frozen
from exporters.metadata import Metadata
from exporters.runtime import GraphRunner, load_tensorflow, reason_of, session_config

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(4).uniform(-1, 1, (3, 4)).astype(np.float32)


@pytest.fixture
def frozen(dense_net):
    return prepare(dense_net.graph, dense_net.values)


def expected(values, x=X):
    logits = x @ values["fc/weights"] + values["fc/biases"]
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_a_message_is_run(frozen):
    with GraphRunner(frozen_graph_def(frozen)) as runner:
        assert (runner.inputs, runner.outputs) == (("x:0",), ("probs:0",))
        assert runner.metadata is None
        (probs,) = runner.run(X)
        np.testing.assert_allclose(probs, expected(frozen.values), rtol=1e-5)
        assert runner.run(X[:1])[0].shape == (1, 4)


def test_a_file_is_run_with_chosen_outputs_and_further_feeds(frozen, tmp_path):
    with (tmp_path / "model.pb").open("wb") as file:
        write_frozen(frozen, file)
    with GraphRunner(tmp_path / "model.pb", ["x"], ["logits", "probs:0"], threads=1) as runner:
        logits, probs = runner.run(X)
        np.testing.assert_allclose(
            logits, X @ frozen.values["fc/weights"] + frozen.values["fc/biases"], rtol=1e-5
        )
        logits, _ = runner.run(feeds={"logits:0": np.ones((2, 4), np.float32)})
        np.testing.assert_array_equal(logits, np.ones((2, 4), np.float32))
        assert probs.shape == (3, 4)


def test_metadata_says_inputs_and_outputs(dense_net):
    metadata = Metadata(input="x:0", outputs={"logits": "logits:0"})
    frozen = prepare(dense_net.graph, dense_net.values, metadata=metadata)
    with GraphRunner(frozen_graph_def(frozen)) as runner:
        assert runner.outputs == ("logits:0",)
        assert runner.metadata == metadata


def test_a_data_set_feeds_the_graph(frozen):
    tf = load_tensorflow()
    labels = np.arange(3)
    runner = GraphRunner(frozen_graph_def(frozen))
    batches = list(
        runner.run_dataset(lambda: tf.data.Dataset.from_tensor_slices((X, labels)).batch(2))
    )
    assert [rest[0].tolist() for _, rest in batches] == [[0, 1], [2]]
    answers = np.concatenate([outputs[0] for outputs, _ in batches])
    np.testing.assert_allclose(answers, expected(frozen.values), rtol=1e-5)

    (outputs, rest), *_ = runner.run_dataset(lambda: tf.data.Dataset.from_tensors(X))
    assert (outputs[0].shape, rest) == ((3, 4), ())


@pytest.mark.parametrize("resource", [False, True])
def test_variables_can_be_assigned(builder, resource):
    builder.dense_net(resource=resource)
    with GraphRunner(builder.graph) as runner:
        with pytest.raises(GraphError):
            runner.run(X)
        runner.assign(builder.values)
        np.testing.assert_allclose(runner.run(X)[0], expected(builder.values), rtol=1e-5)
        with pytest.raises(GraphError):
            runner.assign({"fc/biases": np.zeros(9, np.float32)})


def test_what_does_not_fit_is_an_error_of_ours(frozen):
    with GraphRunner(frozen_graph_def(frozen)) as runner:
        with pytest.raises(GraphError, match="cannot be run") as caught:
            runner.run(np.zeros((2, 7), np.float32))
        assert "Cannot feed value of shape (2, 7)" in caught.value.received
        with pytest.raises(GraphError, match="takes fewer inputs"):
            runner.run(X, X)
    with pytest.raises(GraphError, match="no node 'y', named as input"):
        GraphRunner(frozen_graph_def(frozen), ["y"])
    tf = load_tensorflow()
    runner = GraphRunner(frozen_graph_def(frozen))
    with pytest.raises(GraphError, match="cannot be run"):
        list(runner.run_dataset(lambda: tf.data.Dataset.from_tensors(X.astype(np.int32))))
    with pytest.raises(GraphError, match="cannot be run"):
        list(runner.run_dataset(lambda: tf.data.Dataset.from_tensors(X[:, :3])))


def test_an_op_that_tensorflow_does_not_know_is_an_error_of_ours(builder):
    builder.add("Placeholder", "x", dtype=np.dtype("float32"))
    builder.add("ContribFancyOp", "out", "x")
    with GraphRunner(builder.graph, outputs=["out"]) as runner:
        with pytest.raises(GraphError, match="cannot be run") as caught:
            runner.run(X)
        assert "ContribFancyOp" in caught.value.received


def test_closing_twice_and_running_again(frozen):
    runner = GraphRunner(frozen_graph_def(frozen))
    first = runner.run(X)[0]
    runner.close()
    runner.close()
    np.testing.assert_array_equal(runner.run(X)[0], first)
    runner.close()


def test_two_runners_do_not_meet(builder):
    builder.dense_net(resource=True)
    other = {name: value + 1 for name, value in builder.values.items()}
    with GraphRunner(builder.graph) as one, GraphRunner(builder.graph) as two:
        one.assign(builder.values)
        two.assign(other)
        np.testing.assert_allclose(one.run(X)[0], expected(builder.values), rtol=1e-5)
        np.testing.assert_allclose(two.run(X)[0], expected(other), rtol=1e-5)


def test_the_configuration_of_sessions():
    config = session_config(3)
    assert config.intra_op_parallelism_threads == 3
    assert config.inter_op_parallelism_threads == 3
    assert config.allow_soft_placement
    assert session_config().intra_op_parallelism_threads == 0


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Out of memory.\nMore of it.", "Out of memory."),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
            "    File \"x.py\", line 1, in <module>\nNode: 'a'\nFrom /job:worker/task:0:\nNo room.\n"
            "\t [[{{node a}}]]",
            "No room.",
        ),
        ("Graph execution error:\n\nNo room.", "No room."),
        ("", ""),
    ],
)
def test_the_reason_in_a_message(message, reason):
    assert reason_of(message) == reason
