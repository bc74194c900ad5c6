import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.names import TensorName
from exporters.rewrites.prune import prune

FLOAT = np.dtype("float32")


def names(graph) -> list[str]:
    return list(graph.nodes)


def test_only_what_the_output_needs_stays_in_its_order(dense_net):
    dense_net.add("Identity", "unused", "x", T=FLOAT)
    dense_net.variable("global_step", np.int64(7))
    pruned, cut = prune(dense_net.graph, [TensorName("logits")])
    assert names(pruned) == [
        "x",
        "fc/weights",
        "fc/weights/read",
        "fc/biases",
        "fc/biases/read",
        "matmul",
        "logits",
    ]
    assert cut == ()
    assert pruned.graph_def.versions.producer == 27


def test_the_source_is_left_alone(dense_net):
    dense_net.add("AssignAdd", "update", "fc/biases", "fc/biases/read")
    dense_net.add("Identity", "out", "probs", "^update", T=FLOAT)
    graph = dense_net.graph
    before = graph.graph_def.SerializeToString(deterministic=True)
    prune(graph, [TensorName("out")])
    assert graph.graph_def.SerializeToString(deterministic=True) == before


def test_control_edges_to_updates_are_cut(dense_net):
    dense_net.add("AssignSub", "moving/update", "fc/biases", "fc/biases/read")
    dense_net.add("Identity", "moving/done", "moving/update", T=FLOAT)
    dense_net.add("ScalarSummary", "summary", "probs")
    dense_net.add("NoOp", "group", "^moving/update", "^moving/done", "^summary")
    dense_net.add("NoOp", "all", "^group")
    dense_net.add("Identity", "out", "probs", "^all", "^moving/done", T=FLOAT)
    pruned, cut = prune(dense_net.graph, [TensorName("out")])
    assert list(pruned.nodes["out"].input) == ["probs"]
    assert not {"all", "group", "moving/update", "moving/done", "summary"} & set(names(pruned))
    assert set(cut) == {
        ("out", "moving/done"),
        ("group", "moving/update"),
        ("group", "moving/done"),
        ("group", "summary"),
        ("all", "group"),
        ("out", "all"),
    }


def test_control_edges_that_guard_something_stay(dense_net):
    dense_net.add("Assert", "check", "probs")
    dense_net.add("AssignSub", "update", "fc/biases", "fc/biases/read")
    dense_net.add("NoOp", "group", "^check", "^update")
    dense_net.add("Identity", "out", "probs", "^group", "^x", T=FLOAT)
    pruned, cut = prune(dense_net.graph, [TensorName("out")])
    assert list(pruned.nodes["out"].input) == ["probs", "^group", "^x"]
    assert list(pruned.nodes["group"].input) == ["^check"]
    assert cut == (("group", "update"),)


def test_a_data_edge_to_an_update_is_never_cut(dense_net):
    dense_net.add("AssignAdd", "counted", "fc/biases", "fc/biases/read")
    dense_net.add("Identity", "out", "counted", T=FLOAT)
    assert "counted" in names(prune(dense_net.graph, [TensorName("out")]).graph)


def test_barriers_in_a_circle_and_deep_chains_end(builder):
    builder.add("NoOp", "a", "^b")
    builder.add("NoOp", "b", "^a")
    builder.add("NoOp", "chain0", "^a")
    for index in range(1, 5000):
        builder.add("NoOp", f"chain{index}", f"^chain{index - 1}")
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.add("Identity", "out", "x", "^chain4999", T=FLOAT)
    assert len(prune(builder.graph, [TensorName("out")]).graph.nodes) == 5004


def test_an_input_that_is_not_there_is_named(builder):
    builder.add("Identity", "out", "gone", T=FLOAT)
    with pytest.raises(GraphError, match="no node 'gone'"):
        prune(builder.graph, [TensorName("out")])


def test_functions_that_are_called_stay_and_others_go(builder):
    for name in ("outer", "inner", "other", "gradient"):
        builder.graph_def.library.function.add().signature.name = name
    builder.graph_def.library.function[0].node_def.add(name="call", op="inner")
    builder.graph_def.library.gradient.add(function_name="outer", gradient_func="gradient")
    builder.graph_def.library.gradient.add(function_name="outer", gradient_func="inner")
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.add("PartitionedCall", "out", "x")
    builder.graph_def.node[-1].attr["f"].func.name = "outer"
    library = prune(builder.graph, [TensorName("out")]).graph.graph_def.library
    assert [function.signature.name for function in library.function] == ["outer", "inner"]
    assert [gradient.gradient_func for gradient in library.gradient] == ["inner"]


def test_functions_in_lists_and_in_attributes_of_attributes_are_called_too(builder):
    for name in ("branch", "nested", "direct"):
        builder.graph_def.library.function.add().signature.name = name
    builder.add("direct", "a")
    builder.add("Case", "out", "a")
    listed = builder.graph_def.node[-1].attr["branches"].list.func.add(name="branch")
    listed.attr["f"].func.name = "nested"
    library = prune(builder.graph, [TensorName("out")]).graph.graph_def.library
    assert {function.signature.name for function in library.function} == {
        "branch",
        "nested",
        "direct",
    }


def test_a_variable_waits_for_nothing(builder):
    builder.add("NoOp", "first")
    builder.variable("w", 1.0)
    builder.graph_def.node[1].input.append("^first")
    assert list(prune(builder.graph, [TensorName("w/read")]).graph.nodes) == ["w", "w/read"]
