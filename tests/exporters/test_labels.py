import numpy as np
import pytest

from checkpoints.errors import DataError, GraphError, NotFoundError
from exporters.freezing import prepare
from exporters.labels import count_classes, is_probabilities, read_labels, refuse_other_count
from exporters.names import TensorName

FLOAT = np.dtype("float32")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("daisy\nrose\n", ("daisy", "rose")),
        ("\ufeffdaisy\r\n rose \r\n\r\n", ("daisy", "rose")),
        ("0:daisy\n1:rose\n", ("daisy", "rose")),
        ("10:daisy\n11:rose\n", ("10:daisy", "11:rose")),
        ("a\u2028b\nc\x0bd\rtail\x85e\n", ("a\u2028b", "c\x0bd", "tail\x85e")),
        ("花\nC++\nC#\ncrane\ncrane", ("花", "C++", "C#", "crane", "crane")),
    ],
)
def test_a_name_a_line(tmp_path, text, names):
    (tmp_path / "labels.txt").write_text(text, encoding="utf-8")
    assert read_labels(tmp_path / "labels.txt") == names


def test_what_lists_no_names_is_refused(tmp_path):
    path = tmp_path / "labels.txt"
    with pytest.raises(NotFoundError, match="is not there"):
        read_labels(path)
    with pytest.raises(NotFoundError, match="is a directory"):
        read_labels(tmp_path)
    path.write_bytes(b"a\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_labels(path)
    path.write_text("a\n\nb\n")
    with pytest.raises(DataError, match="line 2: blank"):
        read_labels(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="no line"):
        read_labels(path)


@pytest.mark.parametrize("count", [3, 5])
def test_another_number_of_names_than_classes_is_refused(count):
    with pytest.raises(GraphError, match=r"labels\.txt does not fit") as caught:
        refuse_other_count(("a",) * count, 4, "labels.txt")
    assert caught.value.expected == "4 class names, one for each logit"
    assert caught.value.received == str(count)
    refuse_other_count(("a",) * 4, 4, "labels.txt")


@pytest.mark.parametrize("resource", [False, True])
def test_classes_are_counted_by_the_variables(builder, resource):
    builder.dense_net(classes=7, resource=resource)
    builder.const("shape", np.array([-1, 7], np.int32))
    builder.add("Reshape", "reshaped", "probs", "shape", T=FLOAT)
    frozen = prepare(builder.graph, builder.values, outputs=["reshaped"])
    for name in ("reshaped", "probs", "logits", "matmul"):
        assert count_classes(frozen.graph, TensorName(name), frozen.variables) == 7, name
    assert count_classes(frozen.graph, TensorName("x"), frozen.variables) == 4


def test_classes_are_counted_by_constants_and_stay_unknown_elsewhere(builder):
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.const("w", np.zeros((2, 3), np.float32))
    builder.add("MatMul", "plain", "x", "w", T=FLOAT)
    builder.add("MatMul", "turned", "x", "w", T=FLOAT, transpose_b=True)
    builder.add("Relu", "relu", "plain", T=FLOAT)
    graph = builder.graph
    assert count_classes(graph, TensorName("plain"), {}) == 3
    assert count_classes(graph, TensorName("turned"), {}) is None
    assert count_classes(graph, TensorName("relu"), {}) is None
    assert count_classes(graph, TensorName("x"), {}) is None


def test_a_circle_ends(builder):
    builder.add("Identity", "a", "b", T=FLOAT)
    builder.add("Identity", "b", "a", T=FLOAT)
    assert count_classes(builder.graph, TensorName("a"), {}) is None
    assert not is_probabilities(builder.graph, TensorName("a"))


def test_probabilities_are_told_from_logits(dense_net):
    dense_net.const("shape", np.array([-1, 4], np.int32))
    dense_net.add("Reshape", "reshaped", "probs", "shape", T=FLOAT)
    assert is_probabilities(dense_net.graph, TensorName("reshaped"))
    assert not is_probabilities(dense_net.graph, TensorName("logits"))
