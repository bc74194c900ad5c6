import pytest

from exporters.names import TensorName, is_control, node_of, reference_to, tensor_of


@pytest.mark.parametrize(
    ("reference", "node", "control"),
    [("x", "x", False), ("x:1", "x", False), ("^x", "x", True), ("a/b:12", "a/b", False)],
)
def test_a_reference_names_a_node(reference, node, control):
    assert node_of(reference) == node
    assert is_control(reference) is control


@pytest.mark.parametrize(
    ("text", "tensor"),
    [
        ("probs", TensorName("probs", 0)),
        ("probs:0", TensorName("probs", 0)),
        (" probs:1 ", TensorName("probs", 1)),
        ("^probs", TensorName("probs", 0)),
        ("a/b", TensorName("a/b", 0)),
        ("a:b", TensorName("a:b", 0)),
        ("a:", TensorName("a:", 0)),
    ],
)
def test_a_typed_name_becomes_a_tensor(text, tensor):
    assert tensor_of(text) == tensor


def test_a_tensor_is_spelt_in_two_ways():
    assert str(TensorName("x")) == "x:0"
    assert reference_to(TensorName("x")) == "x"
    assert reference_to(TensorName("x", 2)) == "x:2"
