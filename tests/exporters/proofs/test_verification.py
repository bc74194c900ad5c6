import numpy as np
import pytest

from checkpoints.errors import UnsupportedError, VerificationError
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def, write_frozen
from exporters.proofs.verification import Answers, made_up_inputs, verify_run

pytestmark = pytest.mark.tensorflow

FLOAT = np.dtype("float32")


def test_equal_answers_pass_with_figures():
    answers = Answers(rtol=1e-3, atol=1e-6)
    source = np.array([[1.0, 2.0], [3.0, 1.0]], np.float32)
    answers.compare("probs", source, source + np.array([[0, 0.001], [0, 0]], np.float32))
    found = answers.verdict("m.pb")
    assert (found.mode, found.passed, found.top1_agreement) == ("run", True, 1.0)
    assert found.max_abs == pytest.approx(0.001, rel=1e-3)
    assert found.max_rel == pytest.approx(0.0005, rel=1e-2)


def test_the_share_of_equal_top_entries_is_counted_by_rows():
    answers = Answers(rtol=1.0, atol=1.0)
    source = np.array([[1.0, 0.9], [0.9, 1.0], [1.0, 0.0], [0.0, 1.0]], np.float32)
    answers.compare("probs", source, source[[0, 0, 2, 3]])
    assert answers.verdict("m.pb").top1_agreement == 0.75


def test_answers_without_rows_have_no_top_entry():
    answers = Answers()
    answers.compare("sum", np.float32(1), np.float32(1))
    answers.compare("labels", np.array([b"a"], object), np.array([b"a"], object))
    assert answers.verdict("m.pb").top1_agreement is None


@pytest.mark.parametrize(
    ("output", "received"),
    [
        (np.array([[1.0, 2.1]], np.float32), "max_abs 0.1"),
        (np.array([[1.0, np.nan]], np.float32), "NaN or infinity"),
        (np.array([[1.0, np.inf]], np.float32), "NaN or infinity"),
        (np.array([[1.0, 2.0, 3.0]], np.float32), "became float32 [1, 3]"),
        (np.array([[1.0, 2.0]], np.float64), "became float64 [1, 2]"),
    ],
)
def test_different_answers_fail_with_figures(output, received):
    answers = Answers()
    answers.compare("probs", np.array([[1.0, 2.0]], np.float32), output)
    with pytest.raises(VerificationError, match=r"m\.pb does not answer like") as caught:
        answers.verdict("m.pb")
    assert received in str(caught.value.received)


def test_the_same_nan_on_both_sides_is_no_difference():
    answers = Answers()
    value = np.array([[np.nan, np.inf, 1.0]], np.float32)
    answers.compare("probs", value, value.copy())
    assert answers.verdict("m.pb").max_abs == 0.0


def test_different_strings_fail():
    answers = Answers()
    answers.compare("labels", np.array([b"a"], object), np.array([b"b"], object))
    with pytest.raises(VerificationError, match="labels: the strings differ"):
        answers.verdict("m.pb")


@pytest.mark.parametrize("resource", [False, True])
def test_source_and_file_are_run_at_two_batch_sizes(builder, tmp_path, heard, resource):
    builder.dense_net(resource=resource)
    for node in builder.graph_def.node:
        node.device = "/job:ps/task:3/device:GPU:7"
    frozen = prepare(builder.graph, builder.values, outputs=["probs", "logits"])
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(frozen, file)
    found = verify_run(frozen, path, progress=heard)
    assert (found.mode, found.passed, found.top1_agreement) == ("run", True, 1.0)
    assert found.max_abs < 1e-6
    assert heard.advanced == [1, 1]


@pytest.mark.parametrize("change", [1e-3, np.nan])
def test_one_changed_weight_is_found(dense_net, tmp_path, change):
    frozen = prepare(dense_net.graph, dense_net.values)
    changed = {name: value.copy() for name, value in dense_net.values.items()}
    changed["fc/weights"][1, 2] += change
    path = tmp_path / "model.pb"
    path.write_bytes(frozen_graph_def(prepare(dense_net.graph, changed)).SerializeToString())
    with pytest.raises(VerificationError, match="does not answer like its source"):
        verify_run(frozen, path)


def test_made_up_inputs_fit_their_placeholders(builder):
    add = builder.add
    add("Placeholder", "pictures", dtype=FLOAT, shape=(None, 2, 2, 3))
    add("Placeholder", "bytes", dtype=np.dtype("uint8"), shape=(None, 100))
    add("Placeholder", "ids", dtype=np.dtype("int64"), shape=(5,))
    add("Placeholder", "is_training", dtype=np.dtype("bool"), shape=())
    add("Placeholder", "net/keep_prob", dtype=FLOAT, shape=())
    add("Placeholder", "rate", dtype=FLOAT, shape=())
    add("PlaceholderWithDefault", "optional", "rate", dtype=FLOAT, shape=())
    from exporters.inspecting.endpoints import placeholders

    graph = builder.graph
    feeds = made_up_inputs(graph, placeholders(graph), 2, np.random.default_rng(0))
    assert {name: (value.dtype.name, value.shape) for name, value in feeds.items()} == {
        "pictures:0": ("float32", (2, 2, 2, 3)),
        "bytes:0": ("uint8", (2, 100)),
        "ids:0": ("int64", (5,)),
        "is_training:0": ("bool", ()),
        "net/keep_prob:0": ("float32", ()),
        "rate:0": ("float32", ()),
    }
    assert feeds["pictures:0"].min() < 0 < feeds["pictures:0"].max() <= 1
    assert feeds["bytes:0"].max() > 100
    assert feeds["ids:0"].max() < 10
    assert not feeds["is_training:0"]
    assert feeds["net/keep_prob:0"] == 1
    assert feeds["rate:0"] == 0


@pytest.mark.parametrize(
    ("dtype", "shape"), [("float32", None), ("float32", (None, None, 3)), ("str", (None,))]
)
def test_inputs_that_cannot_be_made_up_are_named(builder, dtype, shape):
    from exporters.names import TensorName

    attributes = {} if shape is None else {"shape": shape}
    builder.add("Placeholder", "x", dtype=np.dtype(dtype), **attributes)
    with pytest.raises(UnsupportedError, match="No input can be made up for x:0") as caught:
        made_up_inputs(builder.graph, [TensorName("x")], 2, np.random.default_rng(0))
    assert "--inputs x=?x224x224x3" in caught.value.next_step
