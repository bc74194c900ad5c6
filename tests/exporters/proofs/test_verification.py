import numpy as np
import pytest

from checkpoints.errors import GraphError, UnsupportedError, VerificationError
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def, write_frozen
from exporters.proofs.verification import Answers, verify_run

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


def test_answers_without_a_number_in_them_prove_nothing():
    answers = Answers()
    answers.compare("boxes", np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    with pytest.raises(UnsupportedError, match="all answers are empty") as caught:
        answers.verdict("m.pb")
    assert "--verify structure" in caught.value.next_step


def run(builder, tmp_path, **options):
    frozen = prepare(builder.graph, builder.values, **options)
    path = tmp_path / "model.pb"
    path.write_bytes(frozen_graph_def(frozen).SerializeToString())
    return verify_run(frozen, path)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_ids_stay_within_an_embedding(builder, tmp_path, resource, rows):
    builder.add("Placeholder", "ids", dtype=np.dtype("int64"), shape=(None, 50))
    table = builder.variable("table", np.ones((rows, 4), np.float32), resource)
    axis = builder.const("axis", np.int32(0))
    types = {"Tparams": FLOAT, "Tindices": np.dtype("int64"), "Taxis": np.dtype("int32")}
    builder.add("GatherV2", "out", table, "ids", axis, **types)
    assert run(builder, tmp_path, outputs=["out"]).passed


def test_what_tensorflow_says_is_told_in_one_line(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    table = builder.variable("table", np.ones((3, 4), np.float32))
    nine = builder.const("nine", np.array([9]))
    gathered = builder.add(
        "Gather", "net/gather", table, nine, Tparams=FLOAT, Tindices=np.dtype("int64")
    )
    builder.add("MatMul", "out", "x", gathered, T=FLOAT)
    with pytest.raises(GraphError, match="cannot be run") as caught:
        run(builder, tmp_path, outputs=["net/gather"])
    assert caught.value.received == "indices[0] = 9 is not in [0, 3) (node net/gather)"
    assert "--verify structure" in caught.value.next_step


def test_an_op_that_tensorflow_does_not_know_is_named_with_its_node(builder, tmp_path):
    builder.dense_net()
    builder.add("CustomRelu", "custom", "logits", T=FLOAT)
    with pytest.raises(GraphError, match="cannot be run") as caught:
        run(builder, tmp_path, outputs=["custom"])
    assert "Op type not registered 'CustomRelu'" in caught.value.received
    assert caught.value.received.endswith("(node custom)")
    assert "--verify structure" in caught.value.next_step
