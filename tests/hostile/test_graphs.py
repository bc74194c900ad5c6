"""Graphs that were made to do harm, or that messages cannot compare, with what each must give."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError
from checkpoints.messages import GraphDef, MetaGraphDef
from exporters.api import freeze
from exporters.graph import Graph, read_graph
from exporters.savers.names import saved_names

FLOAT, STRING = 1, 7


def net(weights=None):
    """x [2, 2] times w, taken from 1 and a constant that no number is; with `weights` frozen."""
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = FLOAT
    variable = graph.node.add(name="w", op="VariableV2" if weights is None else "Const")
    variable.attr["dtype"].type = FLOAT
    if weights is None:
        for _ in range(2):
            variable.attr["shape"].shape.dim.add(size=2)
    else:
        tensor = variable.attr["value"].tensor
        tensor.dtype, tensor.tensor_content = FLOAT, weights.tobytes()
        for _ in range(2):
            tensor.tensor_shape.dim.add(size=2)
    graph.node.add(name="w/read", op="Identity", input=["w"]).attr["T"].type = FLOAT
    product = graph.node.add(name="product", op="MatMul", input=["x", "w/read"])
    product.attr["T"].type = FLOAT
    nothing = graph.node.add(name="nothing", op="Const")
    nothing.attr["dtype"].type = FLOAT
    nothing.attr["value"].tensor.dtype = FLOAT
    nothing.attr["value"].tensor.float_val.append(float("nan"))
    nothing.attr["value"].tensor.tensor_shape.SetInParent()
    sum_ = graph.node.add(name="y", op="AddV2", input=["product", "nothing"])
    sum_.attr["T"].type = FLOAT
    return graph


def test_a_node_without_a_name(tmp_path):
    graph = net()
    graph.node[3].name = ""
    with pytest.raises(GraphError, match="has a node without a name, a MatMul"):
        freeze(Graph(graph), {"w": np.eye(2, dtype=np.float32)}, ["y"], tmp_path / "m.pb")
    assert list(tmp_path.iterdir()) == []


def test_constants_that_are_no_number_stay(tmp_path):
    weights = np.eye(2, dtype=np.float32)
    freeze(Graph(net()), {"w": weights}, ["y"], tmp_path / "m.pb", verify="structure")
    written = read_graph(tmp_path / "m.pb")
    assert np.isnan(written.nodes["nothing"].attr["value"].tensor.float_val[0])
    assert exporters.diff(written, Graph(net(weights))).is_equal
    thawed = exporters.thaw(written, tmp_path / "m.ckpt")
    assert [name for name in thawed.variables if name == "w"] == ["w"]


def test_a_constant_without_a_value_stays_so(tmp_path):
    graph = net(np.eye(2, dtype=np.float32))
    graph.node.add(name="empty", op="Const").attr["dtype"].type = FLOAT
    before = graph.SerializeToString(deterministic=True)
    exporters.thaw(Graph(graph), tmp_path / "m.ckpt")
    assert graph.SerializeToString(deterministic=True) == before
    assert not read_graph(tmp_path / "m.ckpt.meta").nodes["empty"].attr["value"].HasField("tensor")


def test_a_constant_that_says_it_is_a_reference_is_thawed_by_its_values(tmp_path):
    weights = np.arange(4, dtype=np.float32).reshape(2, 2)
    graph = net(weights)
    graph.node[1].attr["value"].tensor.dtype = FLOAT + 100
    exporters.thaw(Graph(graph), tmp_path / "m.ckpt")
    with checkpoints.open(tmp_path / "m.ckpt") as saved:
        assert saved["w"].tolist() == weights.tolist()


@pytest.mark.parametrize("sizes", [(1,), (2**40,)])
@pytest.mark.parametrize("dtype", [FLOAT, STRING])
def test_keys_of_a_saver_that_are_none_or_without_end(sizes, dtype):
    meta = MetaGraphDef(graph_def=net())
    keys = meta.graph_def.node.add(name="save/names", op="Const")
    tensor = keys.attr["value"].tensor
    tensor.dtype = dtype
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    if dtype == STRING:
        tensor.string_val.append(b"key")
    inputs = ["save/Const", "save/names", "save/slices", "w"]
    meta.graph_def.node.add(name="save/SaveV2", op="SaveV2", input=inputs)
    for name in ("save/Const", "save/slices"):
        meta.graph_def.node.add(name=name, op="Const")
    meta.saver_def.save_tensor_name = "save/SaveV2"
    names = saved_names(Graph(meta.graph_def, "meta-graph", None, meta))
    assert names == ({"w": "key"} if dtype == STRING else {})


@pytest.mark.parametrize("reference", ["x:" + "9" * 5000, "x/part_" + "9" * 5000])
def test_indices_of_more_digits_than_python_converts(tmp_path, reference):
    graph = net()
    graph.node[3].input[0] = reference
    if reference.startswith("x/part"):
        graph.node.add(name=reference, op="VariableV2").attr["dtype"].type = FLOAT
    else:
        with pytest.raises(GraphError, match="has no node"):
            freeze(Graph(graph), {}, ["y"], tmp_path / "m.pb")
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    exporters.inspect(tmp_path / "g.pb")
    assert exporters.verify(tmp_path / "g.pb").kind == "graph-def"


TEXTS = {
    "a number of 400 digits": "versions { producer: " + "9" * 400 + " }",
    "a surrogate": r'node { name: "\ud800" }',
    "an enum beyond 32 bits": 'node { attr { key: "T" value { type: 99999999999 } } }',
}


@pytest.mark.parametrize("what", TEXTS)
def test_texts_with_values_that_no_field_holds(tmp_path, what):
    (tmp_path / "g.pbtxt").write_text(TEXTS[what])
    with pytest.raises(GraphError, match="cannot be read as a GraphDef"):
        read_graph(tmp_path / "g.pbtxt")


def test_an_unknown_escape_stands_for_itself(tmp_path):
    (tmp_path / "g.pbtxt").write_text(r'node { name: "a" device: "\m" }')
    assert read_graph(tmp_path / "g.pbtxt").nodes["a"].device == r"\m"
