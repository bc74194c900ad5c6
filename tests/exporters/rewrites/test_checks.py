"""Checks and prints are taken out on request, and only then."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import exporters
from exporters.graph import read_graph
from exporters.names import TensorName
from exporters.rewrites.checks import drop_checks
from exporters.rewrites.draft import Draft
from exporters.runtime import load_tensorflow

FLOAT = np.dtype("float32")


def dropped(builder, output: str = "out"):
    return drop_checks(Draft(builder.graph, (TensorName(output),)))


def test_what_passes_its_input_on(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("CheckNumerics", "finite", "x", T=FLOAT)
    builder.add("Print", "printed", "finite", "x", T=FLOAT)
    builder.add("Relu", "out", "printed", "^finite", T=FLOAT)
    draft = dropped(builder)
    assert list(draft.graph.nodes["out"].input) == ["x", "^x"]
    assert draft.said == ("Checks were taken out, 2 nodes.",)


def test_an_output_that_is_a_check_stands_for_what_it_checks(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("CheckNumerics", "out", "x", T=FLOAT)
    node = dropped(builder).graph.nodes["out"]
    assert (node.op, list(node.input)) == ("Identity", ["x"])


def test_what_is_only_waited_for_goes_with_all_that_is_for_it(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("Shape", "shape", "x", T=FLOAT)
    builder.add("Assert", "check", "shape")
    builder.add("NoOp", "group", "^check", "^other")
    builder.add("NoOp", "other")
    builder.add("Relu", "out", "x", "^group", T=FLOAT)
    draft = dropped(builder)
    assert set(draft.graph.nodes) == {"x", "other", "group", "out"}


def test_a_graph_without_checks_is_left_alone(dense_net):
    graph = dense_net.graph
    draft = drop_checks(Draft(graph, (TensorName("probs"),)))
    assert draft.said == ()
    assert draft.graph.nodes.keys() == graph.nodes.keys()


@pytest.mark.tensorflow
@pytest.mark.parametrize("functions", [True, False], ids=["functions", "switch and merge"])
def test_tensorflows_assertions(save_graph, run_frozen, tmp_path, functions):
    v1 = load_tensorflow().compat.v1

    def build(tf):
        x = v1.placeholder(tf.float32, [None, 4], "x")

        @tf.function
        def body(value):
            tf.debugging.assert_greater(tf.reduce_sum(value), -1e9)
            return tf.debugging.check_numerics(value, "bad")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checks = [
                v1.assert_equal(tf.shape(x)[1], 4),
                v1.assert_less(tf.reduce_max(x), 1e9),
                tf.print("seen", tf.shape(x)),
            ]
            with tf.control_dependencies(checks):
                weights = v1.get_variable("w", [4, 2])
                net = v1.Print(tf.matmul(x, weights), [x], "values")
        net = body(net) if functions else tf.debugging.check_numerics(net, "bad")
        tf.nn.softmax(net, name="probs")

    if not functions:
        v1.disable_control_flow_v2()
    try:
        feeds = {"x:0": np.ones((3, 4), np.float32)}
        saved = save_graph(build, feeds, ["probs:0"])
    finally:
        v1.enable_control_flow_v2()
    kept = exporters.convert(saved.prefix, tmp_path / "kept.pb")
    assert {"Print", "CheckNumerics"} & {n.op for n in read_graph(kept.path).nodes.values()} or (
        read_graph(kept.path).functions
    )
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", drop_checks=True)
    graph = read_graph(done.path)
    kinds = {node.op for node in graph.nodes.values()}
    assert kinds == {"Placeholder", "Const", "Identity", "MatMul", "Softmax"}
    assert not graph.functions
    assert not any("^" in reference for node in graph.nodes.values() for reference in node.input)
    answers = run_frozen(done.path, feeds, ["probs:0"])["probs:0"]
    np.testing.assert_array_equal(answers, saved.answers["probs:0"])
    assert any("Checks were taken out" in note for note in done.notes)
