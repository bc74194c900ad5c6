"""Two graphs compared."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError, UsageError
from checkpoints.messages import GraphDef, MetaGraphDef
from exporters.graph import Graph

FLOAT = np.dtype("float32")


@pytest.fixture
def pair(builder):
    """A net of two products with constants, twice."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    generator = np.random.default_rng(0)
    for name in ("one", "two"):
        builder.const(name, generator.normal(size=(4, 4)).astype(np.float32))
    builder.add("MatMul", "first", "x", "one", T=FLOAT)
    builder.add("MatMul", "second", "first", "two", T=FLOAT)
    builder.add("Softmax", "probs", "second", T=FLOAT)
    other = GraphDef()
    other.CopyFrom(builder.graph_def)
    return builder.graph_def, other


def node(graph_def, name):
    return next(node for node in graph_def.node if node.name == name)


def values(graph_def, name):
    return np.frombuffer(node(graph_def, name).attr["value"].tensor.tensor_content, np.float32)


def set_values(graph_def, name, array):
    node(graph_def, name).attr["value"].tensor.tensor_content = array.tobytes()


def compared(pair, **tolerances):
    return exporters.diff(*map(Graph, pair), **tolerances)


def test_the_same(pair):
    _, b = pair
    nodes = list(reversed(b.node))
    del b.node[:]
    b.node.extend(nodes)
    node(b, "probs").device = "/device:GPU:0"
    node(b, "probs").input[:] = ["second:0"]
    node(b, "probs").attr["_class"].list.s.append(b"loc:@second")
    node(b, "probs").attr["_output_shapes"].list.shape.add()
    found = compared(pair)
    assert found.is_equal and found.num_same == 6 and found.first is None


def test_three_faults_of_a_constant_have_three_verdicts(pair):
    a, b = pair
    near = values(a, "two").copy()
    near[5] += 1e-3
    set_values(b, "two", near)
    found = compared(pair)
    assert [(entry.name, entry.verdict) for entry in found.nodes] == [("two", "values")]
    assert found.first.figures.num_different == 1
    assert found.first.figures.max_abs == pytest.approx(1e-3, rel=1e-2)
    assert compared(pair, atol=2e-3).is_equal

    near[5] = np.nan
    set_values(b, "two", near)
    found = compared(pair, atol=2e-3)
    assert [(entry.name, entry.verdict) for entry in found.nodes] == [("two", "nan")]
    assert found.first.figures.num_nan == 1
    set_values(a, "two", near)
    assert compared(pair).is_equal

    set_values(b, "two", values(a, "one"))
    set_values(b, "one", values(a, "two"))
    found = compared(pair)
    assert [(entry.name, entry.verdict, entry.swapped_with) for entry in found.nodes] == [
        ("one", "swapped", "two"),
        ("two", "swapped", "one"),
    ]
    assert found.as_json()["first"]["swapped_with"] == "two"


@pytest.mark.parametrize(
    ("change", "verdict", "detail"),
    [
        (lambda b: setattr(node(b, "probs"), "op", "Sigmoid"), "op", "Softmax became Sigmoid"),
        (
            lambda b: node(b, "probs").input.__setitem__(0, "first"),
            "inputs",
            "input 0: second became first",
        ),
        (lambda b: node(b, "probs").input.append("x"), "inputs", "1 inputs became 2"),
        (
            lambda b: node(b, "probs").input.append("^x"),
            "inputs",
            "it waits for nothing, in B for ^x",
        ),
        (
            lambda b: setattr(node(b, "probs").attr["T"], "type", 2),
            "attributes",
            "T: type: DT_FLOAT became type: DT_DOUBLE",
        ),
        (lambda b: node(b, "probs").attr.pop("T"), "attributes", "T is in A only"),
        (
            lambda b: node(b, "one").attr["value"].tensor.tensor_shape.dim.add(size=1),
            "dtype-or-shape",
            "float32 [4, 4] became float32 [4, 4, 1]",
        ),
        (
            lambda b: setattr(node(b, "one").attr["value"].tensor, "tensor_content", b"x"),
            "unreadable",
            "The constant one cannot be read.",
        ),
    ],
)
def test_what_else_differs(pair, change, verdict, detail):
    change(pair[1])
    (found,) = compared(pair).nodes
    assert (found.verdict, found.detail) == (verdict, detail)


def test_the_first_is_the_one_nearest_to_the_inputs(pair):
    a, b = pair
    nodes = list(reversed(a.node))
    del a.node[:]
    a.node.extend(nodes)
    for name in ("probs", "first"):
        node(b, name).attr["T"].type = 2
    found = compared(pair)
    assert found.first.name == "first"
    assert [entry.name for entry in found.nodes] == ["first", "probs"]


def test_only_in_one_functions_and_versions(pair):
    a, b = pair
    b.node.add(name="more", op="Identity", input=["probs"])
    a.node.add(name="less", op="NoOp")
    a.library.function.add().signature.name = "f"
    b.versions.producer += 1
    found = compared(pair)
    assert (found.only_in_a, found.only_in_b) == ((("less", "NoOp"),), (("more", "Identity"),))
    assert found.functions == ("f",)
    assert found.versions == ((27, 0), (28, 0))
    function = b.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="n", op="Identity", device="/device:GPU:0")
    a.library.function[0].node_def.add(name="n", op="Identity")
    assert compared(pair).functions == ()


def test_forms_do_not_matter(dense_net, tmp_path):
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    (tmp_path / "m.meta").write_bytes(meta.SerializeToString())
    frozen = exporters.freeze(dense_net.graph, dense_net.values, path=tmp_path / "m.pb").path
    text = exporters.convert(frozen, tmp_path / "m.pbtxt").path
    model = exporters.convert(frozen, f"{tmp_path}/model/").path
    for path in (text, model):
        assert exporters.diff(frozen, path).is_equal
    found = exporters.diff(frozen, tmp_path / "m.meta")
    assert [(entry.name, entry.detail) for entry in found.nodes] == [
        ("fc/weights", "Const became VariableV2"),
        ("fc/biases", "Const became VariableV2"),
    ]


def test_what_is_refused(pair, tmp_path):
    with pytest.raises(UsageError):
        compared(pair, atol=-1)
    (tmp_path / "x.pb").write_bytes(b"no graph")
    with pytest.raises(GraphError):
        exporters.diff(tmp_path / "x.pb", Graph(pair[0]))


def test_one_value_for_more_elements_than_memory_has(builder):
    graphs = []
    for value in (1.0, 2.0):
        graph_def = GraphDef()
        tensor = graph_def.node.add(name="c", op="Const").attr["value"].tensor
        tensor.dtype = 1
        tensor.float_val.append(value)
        for _ in range(2):
            tensor.tensor_shape.dim.add(size=1 << 20)
        graphs.append(Graph(graph_def))
    assert exporters.diff(graphs[0], graphs[0]).is_equal
    (found,) = exporters.diff(*graphs).nodes
    assert (found.verdict, found.figures) == ("values", None)
