"""Variables that reach functions, and partitioned variables, frozen and run by TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError, UnsupportedError
from checkpoints.messages import DataType, GraphDef
from exporters.graph import Graph, read_graph
from exporters.rewrites.read_before_calls import read_before_calls
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

FEEDS = {"x:0": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}


def placeholder(tf):
    return tf.compat.v1.placeholder(tf.float32, [None, 4], "x")


def conditional(tf):
    x = placeholder(tf)
    weights = tf.compat.v1.get_variable("w", [4, 2])
    table = tf.compat.v1.get_variable("table", [5, 2])

    def yes():
        return tf.matmul(x, weights) + tf.gather(table, [1])

    def no():
        return tf.matmul(-x, weights) * tf.cast(tf.shape(weights)[0], tf.float32)

    tf.identity(tf.cond(tf.reduce_sum(x) > 0, yes, no), "out")


def loop(tf):
    x = placeholder(tf)
    weights = tf.compat.v1.get_variable("w", [4, 4])

    def body(step, value):
        return step + 1, tf.tanh(tf.matmul(value, weights))

    _, value = tf.while_loop(lambda step, value: step < 3, body, [tf.constant(0), x])
    tf.identity(value, "out")


def nested(tf):
    x = placeholder(tf)
    weights = tf.compat.v1.get_variable("w", [4, 4])
    offset = tf.compat.v1.get_variable("b", [4])

    @tf.function
    def inner(value):
        if tf.reduce_sum(value) > 0:
            return tf.matmul(value, weights)
        return value + offset

    @tf.function
    def outer(value):
        return inner(inner(value)) + tf.reduce_sum(weights)

    tf.identity(outer(x), "out")


def case(tf):
    x = placeholder(tf)
    weights = tf.compat.v1.get_variable("w", [4, 4])
    branches = [lambda: x, lambda: tf.matmul(x, weights), lambda: x + weights[0]]
    index = tf.cast(tf.reduce_sum(tf.cast(x > 0, tf.float32)), tf.int32) % 3
    tf.identity(tf.switch_case(index, branches), "out")


@pytest.fixture
def control_flow_v2():
    tf = load_tensorflow()
    was_on = tf.compat.v1.control_flow_v2_enabled()
    tf.compat.v1.enable_control_flow_v2()
    yield
    if not was_on:
        tf.compat.v1.disable_control_flow_v2()


@pytest.mark.parametrize("build", [conditional, loop, nested, case])
@pytest.mark.usefixtures("control_flow_v2")
def test_functions_that_take_handles(save_graph, run_frozen, tmp_path, build):
    saved = save_graph(build, FEEDS, ["out:0"], resource=True)
    original = read_graph(f"{saved.prefix}.meta")
    assert any(
        argument.type == DataType.DT_RESOURCE
        for function in original.functions.values()
        for argument in function.signature.input_arg
    )
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["out"])
    assert done.verification.mode == "run"
    assert any("take values of variables where they took handles" in note for note in done.notes)
    frozen = read_graph(done.path)
    text = str(frozen.graph_def)
    assert "DT_RESOURCE" not in text
    assert "ReadVariableOp" not in {node.op for node in frozen.graph_def.node}
    for feeds in (FEEDS, {"x:0": -FEEDS["x:0"]}):
        ours = run_frozen(done.path, feeds, ["out:0"])["out:0"]
        if feeds is FEEDS:
            np.testing.assert_allclose(ours, saved.answers["out:0"], rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("control_flow_v2")
def test_functions_that_write_are_refused(save_graph, tmp_path):
    def build(tf):
        x = placeholder(tf)
        counter = tf.compat.v1.get_variable("counter", [], initializer=tf.zeros_initializer())

        @tf.function
        def counted(value):
            counter.assign_add(1.0)
            return value * counter

        tf.identity(counted(x), "out")

    saved = save_graph(build, FEEDS, ["out:0"], resource=True)
    with pytest.raises(UnsupportedError, match="AssignAddVariableOp"):
        exporters.convert(saved.prefix, tmp_path / "m.pb", outputs=["out"], keep_training=True)


def test_a_graph_that_draws_random_numbers_is_proved_and_not_run(save_graph, tmp_path):
    def build(tf):
        scale = tf.compat.v1.get_variable("scale", [], initializer=tf.ones_initializer())

        @tf.function
        def scaled(value):
            return value * scale

        tf.identity(tf.nn.dropout(scaled(placeholder(tf)), rate=0.5), "out")

    saved = save_graph(build, FEEDS, ["out:0"], resource=True)
    options = {"outputs": ["out"], "keep_training": True}
    done = exporters.convert(saved.prefix, tmp_path / "m.pb", **options)
    assert done.verification.mode == "structure"
    assert any(note.startswith("Not run, its structure was proved: ") for note in done.notes)
    with pytest.raises(UnsupportedError, match="draws random numbers, so that no two") as caught:
        exporters.convert(saved.prefix, tmp_path / "run.pb", verify="run", **options)
    assert caught.value.next_step == "Use --verify structure."
    assert not (tmp_path / "run.pb").exists()


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize("knows", ["saver", "collections", "names"])
def test_partitioned_variables(save_graph, run_frozen, tmp_path, resource, version, knows):
    def build(tf):
        v1 = tf.compat.v1
        x = placeholder(tf)
        by_rows = v1.fixed_size_partitioner(3, axis=0)
        by_columns = v1.fixed_size_partitioner(2, axis=1)
        one = v1.get_variable("net/one", [4, 5], partitioner=by_rows)
        two = v1.get_variable("net/two", [5, 4], partitioner=by_columns)
        tf.identity(tf.matmul(tf.matmul(x, one), two), "out")

    saved = save_graph(build, FEEDS, ["out:0"], resource=resource, version=version)
    graph = read_graph(f"{saved.prefix}.meta")
    assert {"net/one/part_0", "net/two/part_1"} <= graph.nodes.keys()
    if knows != "saver":
        graph.meta_graph.ClearField("saver_def")
    if knows == "names":
        graph = Graph(graph.graph_def)
    done = exporters.convert(
        saved.prefix, tmp_path / "m.pb", graph=graph, outputs=["out"], verify="run"
    )
    assert done.parameters == 40
    ours = run_frozen(done.path, FEEDS, ["out:0"])["out:0"]
    np.testing.assert_allclose(ours, saved.answers["out:0"], rtol=1e-5, atol=1e-6)


def test_endless_functions_are_named():
    graph_def = GraphDef()
    variable = graph_def.node.add(name="v", op="VarHandleOp")
    variable.attr["dtype"].type = DataType.DT_FLOAT
    call = graph_def.node.add(name="call", op="PartitionedCall", input=["v"])
    call.attr["f"].func.name = "f0"
    for index in range(300):
        function = graph_def.library.function.add()
        function.signature.name = f"f{index}"
        function.signature.input_arg.add(name="a", type=DataType.DT_RESOURCE)
        inner = function.node_def.add(name="n", op="PartitionedCall", input=["a"])
        inner.attr["f"].func.name = f"f{index + 1}"
    with pytest.raises(GraphError, match="endlessly, or too deeply: f97 calls f98 calls f99"):
        read_before_calls(Graph(graph_def))
    graph_def.library.function[5].node_def[0].attr["f"].func.name = "f5"
    with pytest.raises(GraphError, match="f4 calls f5 calls f5"):
        read_before_calls(Graph(graph_def))


def test_variables_of_functions_are_refused():
    graph_def = GraphDef()
    graph_def.node.add(name="call", op="f")
    function = graph_def.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="v", op="VarHandleOp")
    with pytest.raises(UnsupportedError, match=r"made inside functions:\n  f/v \(VarHandleOp\)"):
        read_before_calls(Graph(graph_def))
