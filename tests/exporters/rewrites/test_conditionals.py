"""Conditionals that constants decide; TensorFlow says which branch it takes."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import TensorName
from exporters.rewrites.conditionals import resolve_conditionals
from exporters.rewrites.draft import Draft
from exporters.rewrites.prune import prune
from exporters.runtime import load_tensorflow

FLOAT = np.dtype("float32")
BOOL = np.dtype("bool")


def switched(builder, predicate: str) -> None:
    """cond(predicate, 2 * x, -x), as TensorFlow 1 writes it."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("Switch", "cond/Switch", predicate, predicate, T=BOOL)
    builder.add("Identity", "cond/switch_t", "cond/Switch:1", T=BOOL)
    builder.add("Identity", "cond/switch_f", "cond/Switch", T=BOOL)
    builder.add("Identity", "cond/pred_id", predicate, T=BOOL)
    builder.add("Switch", "cond/x", "x", "cond/pred_id", T=FLOAT)
    builder.add("Const", "cond/two", "^cond/switch_t", dtype=FLOAT, value=np.float32(2))
    builder.add("Mul", "cond/yes", "cond/x:1", "cond/two", T=FLOAT)
    builder.add("Neg", "cond/no", "cond/x", T=FLOAT)
    builder.add("Merge", "cond/Merge", "cond/no", "cond/yes", T=FLOAT, N=2)
    builder.add("Identity", "out", "cond/Merge", T=FLOAT)


def resolved(builder, *outputs: str) -> Graph:
    wanted = tuple(TensorName(*name.split(":")[:1]) for name in outputs or ("out",))
    draft = resolve_conditionals(Draft(builder.graph, wanted))
    return prune(draft.graph, draft.outputs).graph


@pytest.mark.parametrize(
    ("value", "nodes"),
    [
        (True, {"x", "cond/two", "cond/yes", "out"}),
        (False, {"x", "cond/no", "out"}),
    ],
)
def test_switch_and_merge(builder, value, nodes):
    builder.const("flag", value)
    switched(builder, "flag")
    graph = resolved(builder)
    assert set(graph.nodes) == nodes
    assert all("^" not in reference for node in graph.nodes.values() for reference in node.input)


def test_the_predicate_may_be_computed(builder):
    builder.const("flag", False)
    builder.const("also", True)
    builder.add("LogicalNot", "not", "flag")
    builder.add("LogicalAnd", "both", "not", "also")
    switched(builder, "both")
    assert "cond/yes" in resolved(builder).nodes


def test_an_undecided_conditional_stays(builder):
    builder.add("Placeholder", "flag", dtype=BOOL, shape=())
    switched(builder, "flag")
    draft = Draft(builder.graph, (TensorName("out"),))
    assert resolve_conditionals(draft) is draft


def test_which_input_a_merge_took_is_a_constant(builder):
    builder.const("flag", True)
    switched(builder, "flag")
    builder.add("Identity", "index", "cond/Merge:1", T=np.dtype("int32"))
    graph = resolved(builder, "index")
    (name,) = set(graph.nodes) - {"index"}
    assert constant_value(graph.nodes[name]).item() == 1


def test_a_conditional_inside_a_branch(builder):
    builder.const("flag", True)
    builder.add("Placeholder", "other", dtype=BOOL, shape=())
    switched(builder, "flag")
    builder.add("Switch", "inner", "cond/yes", "other", T=FLOAT)
    builder.add("Neg", "inner/no", "inner", T=FLOAT)
    builder.add("Merge", "inner/Merge", "inner/no", "inner:1", T=FLOAT, N=2)
    builder.add("Identity", "second", "inner/Merge", T=FLOAT)
    assert {"inner", "inner/Merge", "cond/yes"} <= set(resolved(builder, "second").nodes)
    builder.graph_def.node[0].attr["value"].tensor.tensor_content = b"\0"
    with pytest.raises(GraphError, match="does not compute these") as caught:
        resolved(builder, "second")
    assert "second:0" in caught.value.message


def test_of_several_ways_into_a_merge_the_dead_ones_go(builder):
    builder.const("flag", False)
    builder.add("Placeholder", "other", dtype=BOOL, shape=())
    switched(builder, "flag")
    builder.add("Switch", "open", "x", "other", T=FLOAT)
    builder.add("Neg", "open/no", "open", T=FLOAT)
    builder.add("Merge", "three", "cond/yes", "open/no", "open:1", T=FLOAT, N=3)
    builder.add("Identity", "second", "three", T=FLOAT)
    merge = resolved(builder, "second").nodes["three"]
    assert (list(merge.input), merge.attr["N"].i) == (["open/no", "open:1"], 2)


@pytest.mark.parametrize(("op", "shape"), [("Select", None), ("SelectV2", (3,))])
def test_a_choice_by_one_value(builder, op, shape):
    builder.const("flag", False)
    for name in ("a", "b"):
        builder.add("Placeholder", name, dtype=FLOAT, shape=(3,))
    builder.add(op, "chosen", "flag", "a", "b", T=FLOAT)
    builder.add("Neg", "out", "chosen", T=FLOAT)
    assert list(resolved(builder).nodes) == ["b", "out"]


def test_a_choice_that_may_broadcast_stays(builder):
    builder.const("flag", False)
    builder.add("Placeholder", "a", dtype=FLOAT, shape=(3,))
    builder.const("zero", np.float32(0))
    builder.add("SelectV2", "out", "flag", "a", "zero", T=FLOAT)
    assert set(resolved(builder).nodes) == {"flag", "a", "zero", "out"}


@pytest.mark.tensorflow
class TestAgainstTensorFlow:
    """Branches as functions: the inlined graph answers like the one with the conditional."""

    @staticmethod
    def check(build, flags: dict[str, object]) -> Graph:
        """Builds with placeholders, and again with constants in their place."""
        tf = load_tensorflow()
        v1 = tf.compat.v1
        v1.enable_control_flow_v2()
        x = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
        with tf.Graph().as_default() as graph:
            fed = v1.placeholder(tf.float32, [None, 2], "x")
            settings = {
                name: v1.placeholder(tf.as_dtype(np.asarray(value).dtype), [], name)
                for name, value in flags.items()
            }
            tf.identity(build(tf, fed, **settings), "out")
            with v1.Session() as session:
                feeds = {settings[name]: value for name, value in flags.items()}
                expected = session.run("out:0", {fed: x, **feeds})
        from exporters.graph import as_graph
        from exporters.rewrites.settings import fold_settings

        source = as_graph(graph)
        draft = Draft(prune(source, [TensorName("out")]).graph, (TensorName("out"),))
        requested = {TensorName(name): str(value) for name, value in flags.items()}
        draft = resolve_conditionals(fold_settings(draft, requested).draft)
        found = prune(draft.graph, draft.outputs).graph
        message = v1.GraphDef.FromString(found.graph_def.SerializeToString())
        with tf.Graph().as_default():
            tf.import_graph_def(message, name="")
            with v1.Session() as session:
                np.testing.assert_array_equal(session.run("out:0", {"x:0": x}), expected)
        assert not {"If", "StatelessIf", "Case", "StatelessCase"} & {
            node.op for node in found.nodes.values()
        }
        assert not found.functions
        return found

    @pytest.mark.parametrize("flag", [True, False])
    def test_if(self, flag):
        self.check(
            lambda tf, x, flag: tf.cond(
                flag, lambda: tf.nn.moments(x, [0])[1] + x, lambda: x * 2.0
            ),
            {"flag": flag},
        )

    @pytest.mark.parametrize("flag", [True, False])
    def test_branches_with_several_outputs_and_gradients(self, flag):
        def build(tf, x, flag):
            def yes():
                values, indices = tf.nn.top_k(tf.tanh(x), 1)
                return values, tf.cast(indices, tf.float32)

            first, second = tf.cond(flag, yes, lambda: (x[:, :1], tf.exp(x[:, 1:])))
            (gradient,) = tf.compat.v1.gradients(first + second, x)
            return first - second + gradient

        self.check(build, {"flag": flag})

    @pytest.mark.parametrize("outer", [True, False])
    @pytest.mark.parametrize("inner", [True, False])
    def test_nested(self, outer, inner):
        def build(tf, x, outer, inner):
            def yes():
                return tf.cond(
                    tf.logical_not(inner), lambda: x + 1.0, lambda: tf.split(x, 2, 1)[1] * x
                )

            return tf.cond(outer, yes, lambda: x)

        self.check(build, {"outer": outer, "inner": inner})

    @pytest.mark.parametrize("which", [-3, 0, 1, 2, 9])
    def test_case(self, which):
        self.check(
            lambda tf, x, which: tf.switch_case(which, [lambda: x, lambda: -x, lambda: x * x]),
            {"which": np.int32(which)},
        )

    def test_functions_with_functions_in_them(self):
        def build(tf, x, flag):
            @tf.function
            def double(value):
                return tf.cond(flag, lambda: value * 2.0, lambda: value)

            return tf.cond(flag, lambda: x + 1.0, lambda: x) * 3.0

        self.check(build, {"flag": True})
