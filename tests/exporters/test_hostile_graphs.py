"""Whatever a file holds, what comes out is an error of ours or a proved file, never a crash."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fuzzing.readers import READERS
from fuzzing.reading import refusals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import checkpoints
import exporters
from checkpoints.errors import SlimtuneError
from checkpoints.messages import DataType, GraphDef, MetaGraphDef
from checkpoints.wire import encode_header
from exporters.api import freeze
from exporters.graph import Graph, read_graph
from exporters.inspecting.guess import guess_outputs
from exporters.metadata import read_metadata

OPS = (
    "Add", "ArgMax", "Assert", "Assign", "AssignSub", "BiasAdd", "Case", "Cast", "CheckNumerics",
    "ConcatV2", "Const", "Conv2D", "Enter", "Equal", "Exit", "Fill", "Floor", "FusedBatchNormV3",
    "GreaterEqual", "Identity", "InTopKV2", "IteratorGetNext", "Log", "LogicalNot", "MatMul",
    "Mean", "Merge", "Mul", "NextIteration", "NoOp", "Pack", "Placeholder",
    "PlaceholderWithDefault", "QueueDequeueV2", "RandomUniform", "ReadVariableOp",
    "ReaderReadUpToV2", "RealDiv", "RefSwitch", "Reshape", "ResourceGather", "SaveV2",
    "ScalarSummary", "Select", "SelectV2", "Shape", "Sigmoid", "Slice", "Softmax",
    "SoftmaxCrossEntropyWithLogits", "Split", "SquaredDifference", "Squeeze", "StopGradient",
    "StridedSlice", "Sub", "Sum", "Switch", "Unpack", "VarHandleOp", "Variable", "VariableShape",
    "VariableV2",
)  # fmt: skip
NAMES = tuple("abcdefgh")
CALLS = (
    ("f", ()),
    ("PartitionedCall", ("f",)),
    ("If", ("then_branch", "else_branch")),
    ("While", ("cond", "body")),
)
TYPES = (DataType.DT_FLOAT, DataType.DT_INT32, DataType.DT_RESOURCE, DataType.DT_STRING, 0, 99)


@st.composite
def graphs(draw) -> MetaGraphDef:
    """Nodes of ops that mean something here, put together without sense."""
    meta = MetaGraphDef()
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True))
    references = st.builds(
        lambda prefix, name, suffix: f"{prefix}{name}{suffix}",
        st.sampled_from(["", "", "", "^"]),
        st.sampled_from([*names, *names, "absent"]),
        st.sampled_from(["", "", ":0", ":1"]),
    )
    for name in names:
        node = meta.graph_def.node.add(name=name, op=draw(st.sampled_from(OPS)))
        node.input.extend(draw(st.lists(references, max_size=4)))
        for attribute in draw(st.sets(st.sampled_from(["T", "dtype", "SrcT", "Tout"]))):
            node.attr[attribute].type = draw(st.sampled_from(TYPES))
        if draw(st.booleans()):
            for size in draw(st.lists(st.integers(-2, 5), max_size=4)):
                node.attr["shape"].shape.dim.add(size=size)
            node.attr["shape"].shape.unknown_rank = draw(st.booleans())
        if draw(st.booleans()):
            tensor = node.attr["value"].tensor
            tensor.dtype = draw(st.sampled_from(TYPES))
            tensor.tensor_content = draw(st.binary(max_size=8))
            tensor.int_val.extend(draw(st.lists(st.integers(-3, 3), max_size=3)))
        if draw(st.booleans()):
            node.attr["_output_shapes"].list.shape.add().dim.add(size=draw(st.integers(-1, 4)))
    for function_name in draw(st.lists(st.sampled_from(["f", "g"]), unique=True)):
        add_function(draw, meta, function_name, references)
    meta.saver_def.save_tensor_name = draw(st.sampled_from([*names, "", "absent:0"]))
    return meta


def add_function(draw, meta, name, references) -> None:
    """A function of two arguments, its nodes, and a node of the graph that calls it."""
    function = meta.graph_def.library.function.add()
    function.signature.name = name
    for argument in ("a", "b"):
        function.signature.input_arg.add(name=argument, type=draw(st.sampled_from(TYPES)))
    function.signature.output_arg.add(name="y", type=DataType.DT_FLOAT)
    inner = st.sampled_from(["a", "b", "n0:output:0", "n1:value:0", "^n0", "absent", "n1"])
    for index in range(draw(st.integers(0, 3))):
        op = draw(st.sampled_from((*OPS, "f", "g", "PartitionedCall")))
        node = function.node_def.add(name=f"n{index}", op=op)
        node.input.extend(draw(st.lists(inner, max_size=3)))
        node.attr["T"].type = draw(st.sampled_from(TYPES))
        node.attr["f"].func.name = draw(st.sampled_from(["f", "g", "absent"]))
    function.ret["y"] = draw(inner)
    op, attributes = draw(st.sampled_from(CALLS))
    call = meta.graph_def.node.add(name=f"call_{name}", op=op)
    call.input.extend(draw(st.lists(references, max_size=3)))
    for attribute in attributes:
        call.attr[attribute].func.name = draw(st.sampled_from(["f", "g", "absent"]))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(graphs(), st.lists(st.sampled_from([*NAMES, "a:1", "^b"]), max_size=2), st.data())
def test_graphs_without_sense(tmp_path, meta, outputs, data):
    values = {name: np.zeros((2, 3), np.float32) for name in NAMES[:4]}
    inputs = data.draw(st.lists(st.sampled_from([*NAMES, "c=?x3"]), max_size=1))
    graph = Graph(meta.graph_def, "meta-graph", None, meta)
    before = meta.SerializeToString(deterministic=True)
    (tmp_path / "g.meta").write_bytes(before)
    with refusals():
        exporters.inspect(graph)
    with refusals():
        exporters.verify(tmp_path / "g.meta")
    with refusals():
        assert exporters.diff(graph, graph).is_equal
    with refusals():
        exporters.thaw(graph, tmp_path / "t.ckpt", overwrite=True)
    with refusals():
        guess_outputs(graph)
    for keep_training in (False, True):
        with refusals():
            freeze(
                graph,
                values,
                outputs,
                tmp_path / "m.pb",
                inputs=inputs,
                keep_training=keep_training,
                verify="structure",
                overwrite=True,
            )
    assert meta.SerializeToString(deterministic=True) == before


def without_one_attribute():
    """Small sound graphs, each with one attribute of one node taken out."""
    for files in READERS["graph-def"].seeds():
        for data in files.values():
            sound = GraphDef.FromString(data)
            for node in sound.node:
                for key in sorted(node.attr):
                    changed = GraphDef()
                    changed.CopyFrom(sound)
                    del next(n for n in changed.node if n.name == node.name).attr[key]
                    yield f"{node.name} {key}", changed


def test_what_is_read_stays_as_it_is_whichever_attribute_it_lacks(tmp_path):
    values = {name: np.zeros((2, 3), np.float32) for name in ("a", "b")}
    count = 0
    for what, graph_def in without_one_attribute():
        before = graph_def.SerializeToString(deterministic=True)
        graph = Graph(graph_def)
        reads = {
            "inspect": lambda graph=graph: exporters.inspect(graph),
            "diff": lambda graph=graph: exporters.diff(graph, graph),
            "freeze": lambda graph=graph: freeze(
                graph, values, (), tmp_path / "m.pb", verify="structure", overwrite=True
            ),
            "thaw": lambda graph=graph: exporters.thaw(graph, tmp_path / "t", overwrite=True),
        }
        for name, read in reads.items():
            with refusals():
                read()
            assert graph_def.SerializeToString(deterministic=True) == before, (what, name)
        count += 1
    assert count > 50


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files(shared, tmp_path, seed):
    prefix = shared / "data/models/lenet_300_100_v1/model.ckpt"
    source = prefix.with_name("model.ckpt.meta").read_bytes()
    generator = random.Random(seed)
    path = tmp_path / "damaged.meta"
    for _ in range(60):
        data = bytearray(source)
        for _ in range(generator.randrange(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        if generator.random() < 0.3:
            del data[generator.randrange(len(data)) :]
        path.write_bytes(bytes(data))
        with refusals():
            graph = read_graph(path)
            read_metadata(graph)
            with checkpoints.open(prefix) as values:
                freeze(graph, values, (), tmp_path / "m.pb", verify="structure", overwrite=True)


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_chain_of_many_nodes(tmp_path, count):
    graph_def = GraphDef()
    graph_def.node.add(name="n0", op="Placeholder").attr["dtype"].type = DataType.DT_FLOAT
    for index in range(1, count):
        graph_def.node.add(name=f"n{index}", op="Identity", input=[f"n{index - 1}"])
    reversed_order = GraphDef(node=reversed(graph_def.node))
    for graph in (graph_def, reversed_order):
        last = f"n{count - 1}"
        done = freeze(graph, {}, [last], tmp_path / "m.pb", verify="structure", overwrite=True)
        assert done.nodes == count
    with pytest.raises(SlimtuneError, match="no tensor that could be the output"):
        guess_outputs(Graph(reversed_order))


def nested(depth: int) -> bytes:
    """A GraphDef whose one node has functions with attributes with functions, so many deep."""

    def message(number: int, payload: bytes) -> bytes:
        return encode_header(number, len(payload)) + payload

    value = b"\x18\x01"
    for _ in range(depth):
        entry = message(1, b"a") + message(2, value)
        value = message(10, message(1, b"f") + message(2, entry))
    attribute = message(5, message(1, b"f") + message(2, value))
    return message(1, message(1, b"x") + message(2, b"PartitionedCall") + attribute)


@pytest.mark.parametrize("depth", [10, 31, 60, 20_000])
def test_messages_inside_messages(tmp_path, depth):
    path = tmp_path / "g.pb"
    path.write_bytes(nested(depth))
    assert not exporters.verify(path).is_ok
    with refusals():
        exporters.inspect(path)
        assert exporters.diff(path, path).is_equal
    opened = 'func { name:"f" attr { key:"a" value { ' * depth
    text = f'node {{ name:"x" op:"P" attr {{ key:"f" value {{ {opened}{"} } } " * depth}}} }} }}'
    (tmp_path / "g.pbtxt").write_text(text)
    with refusals():
        exporters.inspect(tmp_path / "g.pbtxt")
