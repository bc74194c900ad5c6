"""Functions become nodes where they are called."""

from __future__ import annotations

import re

import numpy as np
import pytest

from checkpoints.errors import GraphError
from checkpoints.messages import DataType
from exporters import op_outputs
from exporters.graph import as_graph
from exporters.names import TensorName
from exporters.op_outputs import output_index
from exporters.rewrites.draft import Draft
from exporters.rewrites.inlining import inline_calls
from exporters.rewrites.prune import prune
from exporters.runtime import load_tensorflow

FLOAT = np.dtype("float32")
OUT = (TensorName("out"),)


def add_function(builder, name: str, arguments: list[str], results: dict[str, str]):
    """An empty function of floats; nodes are added to what comes back."""
    function = builder.graph_def.library.function.add()
    function.signature.name = name
    for argument in arguments:
        function.signature.input_arg.add(name=argument, type=DataType.DT_FLOAT)
    for result, tensor in results.items():
        function.signature.output_arg.add(name=result, type=DataType.DT_FLOAT)
        function.ret[result] = tensor
    return function


@pytest.fixture
def calling(builder):
    """out = call(x), call being PartitionedCall of `body`: a ~> relu(-a)."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("PartitionedCall", "call", "x")
    builder.graph_def.node[-1].attr["f"].func.name = "body"
    builder.add("Identity", "out", "call", T=FLOAT)
    function = add_function(builder, "body", ["a"], {"r": "relu:activations:0"})
    function.node_def.add(name="negative", op="Neg", input=["a"], device="/device:GPU:0")
    function.node_def.add(name="relu", op="Relu", input=["negative:y:0"])
    return builder


def inlined(builder, is_wanted=lambda function: True):
    draft = inline_calls(Draft(builder.graph, OUT), is_wanted)
    return prune(draft.graph, OUT).graph


def test_a_call(calling):
    graph = inlined(calling)
    assert {name: (node.op, list(node.input)) for name, node in graph.nodes.items()} == {
        "x": ("Placeholder", []),
        "call/negative": ("Neg", ["x"]),
        "call/relu": ("Relu", ["call/negative"]),
        "out": ("Identity", ["call/relu"]),
    }
    assert graph.nodes["call/negative"].device == ""
    assert not graph.functions


def test_what_nobody_wants_stays(calling):
    draft = Draft(calling.graph, OUT)
    assert inline_calls(draft, lambda function: False) is draft


def test_a_function_that_calls_a_wanted_one_is_inlined_too(calling):
    function = calling.graph_def.library.function[0]
    function.node_def[1].op = "inner"
    function.ret["r"] = "relu:s:0"
    add_function(calling, "inner", ["b"], {"s": "b"})
    graph = inlined(calling, lambda function: function.signature.name == "inner")
    assert {name: list(node.input) for name, node in graph.nodes.items()} == {
        "x": [],
        "call/negative": ["x"],
        "out": ["call/negative"],
    }


def test_control_edges_go_in_and_out(calling):
    calling.add("NoOp", "before")
    calling.graph_def.node[1].input.append("^before")
    calling.add("NoOp", "after", "^call")
    calling.graph_def.node[2].input.append("^after")
    function = calling.graph_def.library.function[0]
    function.node_def.add(name="check", op="Assert", input=["^a", "^negative"])
    function.node_def.add(name="alone", op="NoOp")
    function.control_ret["c"] = "check"
    function.node_def[1].input.append("^alone")
    graph = inlined(calling)
    assert set(graph.nodes["after"].input) == {"^call/check", "^call/relu"}
    assert list(graph.nodes["call/check"].input) == ["^x", "^call/negative"]
    assert list(graph.nodes["call/alone"].input) == ["^before"]


def test_names_that_are_taken_and_devices(calling):
    calling.add("Identity", "call/relu", "call", T=FLOAT)
    calling.graph_def.node[2].input[0] = "call/relu"
    graph = inlined(calling)
    assert list(graph.nodes["call/relu"].input) == ["call/relu_1"]


def test_a_function_as_an_op_with_attributes_of_its_call(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("body", "call", "x", dtype=FLOAT)
    builder.add("Identity", "out", "call", T=FLOAT)
    function = add_function(builder, "body", ["a"], {"r": "same:output:0"})
    function.node_def.add(name="same", op="Identity", input=["a"]).attr["T"].placeholder = "dtype"
    graph = inlined(builder)
    assert graph.nodes["call/same"].attr["T"].type == DataType.DT_FLOAT
    del builder.graph_def.node[1].attr["dtype"]
    with pytest.raises(GraphError, match="the call does not say its dtype"):
        inlined(builder)


def test_what_calls_itself_stays(calling):
    calling.graph_def.library.function[0].node_def[1].op = "body"
    graph = calling.graph
    assert "call" in inlined(calling).nodes
    assert graph.nodes.keys() == calling.graph.nodes.keys()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda f, call: f.node_def[1].ClearField("input") or f.node_def[1].input.append("b"),
            "'b'",
        ),
        (lambda f, call: f.node_def[1].input.append("^b"), "no node 'b'"),
        (lambda f, call: f.ret.pop("r"), "does not say what its output r is"),
        (lambda f, call: call.input.append("x"), "1 arguments too many"),
        (lambda f, call: call.ClearField("input"), "gives it no a"),
        (lambda f, call: f.signature.input_arg.add(name="n", number_attr="N"), "how many n are"),
    ],
)
def test_a_function_that_does_not_fit_its_call(calling, damage, words):
    damage(calling.graph_def.library.function[0], calling.graph_def.node[1])
    with pytest.raises(GraphError, match=re.escape(words)):
        inlined(calling)


def test_a_function_of_functions_does_not_grow_without_end(builder):
    """Each of forty functions calls the next twice: a trillion nodes."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("f0", "out", "x")
    for index in range(40):
        function = add_function(builder, f"f{index}", ["a"], {"r": "second:r:0"})
        function.node_def.add(name="first", op=f"f{index + 1}", input=["a"])
        function.node_def.add(name="second", op=f"f{index + 1}", input=["first:r:0"])
    with pytest.raises(GraphError, match="too many nodes"):
        inline_calls(Draft(builder.graph, OUT), lambda function: True)


class TestOutputsByName:
    def test_of_ops_with_several(self, calling):
        node = calling.graph_def.node.add(name="norm", op="FusedBatchNormV3")
        assert output_index(calling.graph, node, "y", 0) == 0
        assert output_index(calling.graph, node, "batch_variance", 0) == 2
        with pytest.raises(GraphError, match="has no output 'variance'"):
            output_index(calling.graph, node, "variance", 0)

    def test_of_lists(self, calling):
        node = calling.graph_def.node.add(name="parsed", op="ParseExample")
        node.attr["Nsparse"].i = 2
        node.attr["sparse_types"].list.type.extend([1, 1])
        assert output_index(calling.graph, node, "sparse_values", 1) == 3
        assert output_index(calling.graph, node, "dense_values", 1) == 7
        split = calling.graph_def.node.add(name="split", op="Split")
        assert output_index(calling.graph, split, "output", 4) == 4

    @pytest.mark.tensorflow
    def test_the_table_is_tensorflows(self):
        tf = load_tensorflow()
        registry = tf.raw_ops
        from tensorflow.python.framework import op_def_registry

        assert registry is not None
        for op, outputs in op_outputs._table().items():
            definition = op_def_registry.get(op)
            assert definition is not None, op
            declared = [
                (argument.name, argument.number_attr or argument.type_list_attr)
                for argument in definition.output_arg
            ]
            assert [tuple(output) for output in outputs] == declared, op


@pytest.mark.tensorflow
def test_tensorflows_functions():
    tf = load_tensorflow()
    v1 = tf.compat.v1

    @tf.function
    def inner(value, scale):
        values, indices = tf.nn.top_k(value * scale, 2)
        mean, variance = tf.nn.moments(values, [1])
        return values + tf.cast(indices, tf.float32), mean / (variance + 1.0)

    @tf.function
    def outer(value):
        values, ratio = inner(value, 2.0)
        return tf.unstack(values, axis=1)[1] - ratio

    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        fed = v1.placeholder(tf.float32, [None, 4], "x")
        tf.identity(outer(fed), "out")
        with v1.Session() as session:
            expected = session.run("out:0", {fed: x})
    source = as_graph(graph)
    draft = inline_calls(Draft(source, OUT), lambda function: True)
    assert draft.said == ("2 calls of functions were inlined.",)
    found = prune(draft.graph, OUT).graph
    assert not found.functions
    with tf.Graph().as_default():
        message = v1.GraphDef.FromString(found.graph_def.SerializeToString())
        tf.import_graph_def(message, name="")
        with v1.Session() as session:
            np.testing.assert_array_equal(session.run("out:0", {"x:0": x}), expected)
