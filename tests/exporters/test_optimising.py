"""Constants evaluated and Identities taken out, without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from exporters.constants import constant_value
from exporters.freezing import prepare
from exporters.names import TensorName
from exporters.optimising import optimise
from exporters.rewrites.fold_constants import fold_constants
from exporters.rewrites.identities import remove_identities

FLOAT = np.dtype("float32")
INT = np.dtype("int32")


def evaluated(builder, kept=()):
    return fold_constants(builder.graph, kept).nodes


class TestConstants:
    @pytest.mark.parametrize(
        ("op", "inputs", "expected"),
        [
            ("Add", [[1.5, 2.0], [1.0, -1.0]], [2.5, 1.0]),
            ("AddV2", [[1.5, 2.0], [1.0]], [2.5, 3.0]),
            ("Sub", [[1.5, 2.0], [1.0, -1.0]], [0.5, 3.0]),
            ("Mul", [[1.5, 2.0], [2.0, -1.0]], [3.0, -2.0]),
            ("RealDiv", [[3.0, 2.0], [2.0, -1.0]], [1.5, -2.0]),
            ("Rsqrt", [[4.0, 16.0]], [0.5, 0.25]),
            ("Sqrt", [[4.0, 9.0]], [2.0, 3.0]),
            ("Square", [[4.0, -3.0]], [16.0, 9.0]),
            ("Neg", [[4.0, -3.0]], [-4.0, 3.0]),
            ("Reciprocal", [[4.0, -2.0]], [0.25, -0.5]),
            ("Maximum", [[4.0, -3.0], [0.0, 0.0]], [4.0, 0.0]),
            ("Minimum", [[4.0, -3.0], [0.0, 0.0]], [0.0, -3.0]),
            ("BiasAdd", [[[4.0, -3.0]], [1.0, 2.0]], [[5.0, -1.0]]),
        ],
    )
    def test_arithmetic(self, builder, op, inputs, expected):
        names = [builder.const(f"c{i}", np.array(v, np.float32)) for i, v in enumerate(inputs)]
        builder.add(op, "out", *names, T=FLOAT)
        node = evaluated(builder)["out"]
        assert node.op == "Const"
        assert constant_value(node).dtype == np.float32
        np.testing.assert_array_equal(constant_value(node), np.array(expected, np.float32))

    def test_shapes(self, builder):
        value = np.arange(6, dtype=np.float32).reshape(2, 3)
        builder.const("value", value)
        builder.const("shape", np.array([3, -1], np.int32))
        builder.const("order", np.array([1, 0], np.int32))
        builder.const("axis", np.array(0, np.int32))
        builder.add("Reshape", "reshaped", "value", "shape", T=FLOAT)
        builder.add("Transpose", "transposed", "value", "order", T=FLOAT)
        builder.add("ExpandDims", "expanded", "value", "axis", T=FLOAT)
        builder.add("Squeeze", "squeezed", "expanded", T=FLOAT)
        builder.add("Pack", "packed", "value", "value", T=FLOAT, axis=1)
        builder.add("ConcatV2", "joined", "value", "value", "axis", T=FLOAT)
        builder.add("Fill", "filled", "order", "axis", T=INT)
        nodes = evaluated(builder)
        expected = {
            "reshaped": value.reshape(3, 2),
            "transposed": value.T,
            "expanded": value[None],
            "squeezed": value,
            "packed": np.stack([value, value], 1),
            "joined": np.concatenate([value, value]),
            "filled": np.zeros((1, 0), np.int32),
        }
        for name, wanted in expected.items():
            assert nodes[name].op == "Const", name
            found = constant_value(nodes[name])
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
            np.testing.assert_array_equal(found, wanted)

    def test_casts_that_are_exact(self, builder):
        builder.const("whole", np.array([1, 2], np.int32))
        builder.const("broken", np.array([1.5, 3e9], np.float32))
        for name, source, number in (
            ("wide", "whole", 2),
            ("half", "broken", 19),
            ("cut", "broken", 3),
        ):
            builder.add("Cast", name, source)
            builder.graph_def.node[-1].attr["DstT"].type = number
        nodes = evaluated(builder)
        assert constant_value(nodes["wide"]).dtype == np.float64
        assert constant_value(nodes["half"]).dtype == np.float16
        assert nodes["cut"].op == "Cast"

    def test_what_is_not_evaluated(self, builder):
        builder.const("value", np.array([1.0, 2.0], np.float32))
        builder.const("whole", np.array([1, 0], np.int32))
        builder.const("three", np.array([3], np.int32))
        builder.add("RandomUniform", "drawn", "whole", T=INT)
        builder.add("Div", "of whole numbers", "whole", "whole", T=INT)
        builder.add("Reshape", "does not fit", "value", "three", T=FLOAT)
        builder.add("Neg", "waits", "value", "^value", T=FLOAT)
        builder.const("large", np.array([1 << 12, 1 << 12], np.int32))
        builder.add("Fill", "would be large", "large", "three", T=INT)
        before = {name: node.op for name, node in builder.graph.nodes.items()}
        assert {name: node.op for name, node in evaluated(builder).items()} == before

    def test_a_constant_in_a_branch_stays_there(self, builder):
        """A constant that waits for a Switch is dead where the branch is not taken."""
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Const", "c", "^x", dtype=FLOAT, value=np.ones(2, np.float32))
        builder.add("Neg", "out", "c", T=FLOAT)
        assert evaluated(builder)["out"].op == "Neg"

    def test_inputs_stay(self, builder):
        builder.const("value", np.ones(2, np.float32))
        builder.add("Neg", "fed", "value", T=FLOAT)
        assert evaluated(builder, {"fed"})["fed"].op == "Neg"

    def test_nan_and_infinity_are_values_too(self, builder):
        builder.const("value", np.array([0.0, -1.0], np.float32))
        builder.add("Rsqrt", "out", "value", T=FLOAT)
        found = constant_value(evaluated(builder)["out"])
        assert np.isinf(found[0]) and np.isnan(found[1])


class TestIdentities:
    def test_readers_are_led_past_them(self, builder):
        builder.add("Split", "split", num_split=2)
        builder.add("Identity", "a", "split:1", T=FLOAT)
        builder.add("StopGradient", "b", "a", T=FLOAT)
        builder.add("Neg", "out", "b", T=FLOAT)
        nodes = remove_identities(builder.graph, {"out"}).nodes
        assert list(nodes) == ["split", "out"]
        assert list(nodes["out"].input) == ["split:1"]

    def test_no_ops_hand_on_what_they_wait_for(self, builder):
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Assert", "check", "x")
        builder.add("NoOp", "group", "^check")
        builder.add("NoOp", "empty")
        builder.add("Neg", "out", "x", "^group", "^empty", "^check", T=FLOAT)
        nodes = remove_identities(builder.graph, {"out"}).nodes
        assert list(nodes) == ["x", "check", "out"]
        assert list(nodes["out"].input) == ["x", "^check"]

    def test_what_is_asked_for_stays(self, builder):
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Identity", "out", "x", T=FLOAT)
        assert list(remove_identities(builder.graph, {"x", "out"}).nodes) == ["x", "out"]

    def test_what_waits_stays(self, builder):
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Assert", "check", "x")
        builder.add("Identity", "checked", "x", "^check", T=FLOAT)
        builder.add("Neg", "out", "checked", T=FLOAT)
        assert "checked" in remove_identities(builder.graph, {"out"}).nodes

    def test_a_pivot_of_a_branch_stays(self, builder):
        builder.add("Switch", "switch", "x", "p", T=FLOAT)
        builder.add("Identity", "pivot", "switch:1", T=FLOAT)
        builder.add("Const", "c", "^pivot", dtype=FLOAT, value=np.ones(1, np.float32))
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Placeholder", "p", dtype=np.dtype(bool), shape=())
        graph = remove_identities(builder.graph, {"c"})
        assert list(graph.nodes["c"].input) == ["^pivot"]

    def test_edges_that_only_wait_for_an_identity_wait_for_its_source(self, builder):
        builder.add("Placeholder", "x", dtype=FLOAT, shape=(2,))
        builder.add("Identity", "same", "x", T=FLOAT)
        builder.add("Const", "c", "^same", dtype=FLOAT, value=np.ones(1, np.float32))
        graph = remove_identities(builder.graph, {"c"})
        assert list(graph.nodes["c"].input) == ["^x"]


def test_a_whole_graph(dense_net):
    dense_net.const("two", np.float32(2))
    dense_net.add("Mul", "four", "two", "two", T=FLOAT)
    dense_net.add("Mul", "out", "probs", "four", T=FLOAT)
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["out"])
    optimised = optimise(frozen)
    assert optimised.outputs == (TensorName("out"),)
    assert optimised.variables == {}
    assert set(optimised.graph.nodes) == {
        "x",
        "fc/weights",
        "matmul",
        "fc/biases",
        "logits",
        "probs",
        "four",
        "out",
    }
    assert constant_value(optimised.graph.nodes["four"]) == 4.0
    np.testing.assert_array_equal(
        constant_value(optimised.graph.nodes["fc/weights"]), dense_net.values["fc/weights"]
    )
    assert optimised.said[-1] == "Optimised: 0 batch norms folded, 11 nodes became 8."
