"""Freezing without TensorFlow: what is refused, what is written byte by byte."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError, OutputExistsError, UnsupportedError
from checkpoints.messages import GraphDef
from checkpoints.tensors import Variable
from exporters.api import freeze
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def, write_frozen
from exporters.graph import read_graph

FLOAT = np.dtype("float32")


def written(frozen, path) -> GraphDef:
    with path.open("wb") as file:
        write_frozen(frozen, file)
    return GraphDef.FromString(path.read_bytes())


@pytest.mark.parametrize("resource", [False, True])
def test_the_file_is_the_message_byte_by_byte(builder, tmp_path, resource):
    builder.dense_net(resource=resource)
    frozen = prepare(builder.graph, builder.values)
    path = tmp_path / "model.pb"
    message = written(frozen, path)
    assert message == frozen_graph_def(frozen)
    assert path.read_bytes() == message.SerializeToString(deterministic=True)
    kinds = {node.name: node.op for node in message.node}
    read = "fc/weights/Read" if resource else "fc/weights/read"
    assert (kinds["fc/weights"], kinds[read]) == ("Const", "Identity")
    assert frozen.num_nodes == len(message.node) == 8
    assert frozen.parameters == 20


@pytest.mark.parametrize(
    "value",
    [
        np.float32(2.5),
        np.zeros((0, 3), np.float32),
        np.arange(3, dtype=np.int64),
        np.array([True, False]),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([1.5, -2], np.float16),
        np.array([1 + 2j], np.complex64),
        np.array([[b"a", b"\xff\x00"]], object),
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(3, dtype=">f4"),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_every_dtype_and_shape(builder, tmp_path, value):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", value)
    builder.add("Any", "out", "x", read)
    freeze(builder.graph, builder.values, ["out"], tmp_path / "model.pb")
    from exporters.constants import constant_value

    stored = constant_value(read_graph(tmp_path / "model.pb").nodes["w"])
    assert stored.shape == value.shape
    assert stored.dtype == value.dtype.newbyteorder("=")
    np.testing.assert_array_equal(stored, value)


def test_variables_of_another_shape_or_dtype_are_all_listed(dense_net):
    values = {
        "fc/weights": np.zeros((4, 10), np.float32),
        "fc/biases": np.zeros(4, np.float64),
    }
    with pytest.raises(GraphError, match="do not fit") as caught:
        prepare(dense_net.graph, values)
    assert "fc/weights: graph float32 [4, 4], checkpoint float32 [4, 10]" in caught.value.message
    assert "fc/biases: graph float32 [4], checkpoint float64 [4]" in caught.value.message
    assert "2 of another dtype or shape" in caught.value.message


def test_absent_variables_are_all_listed_with_near_names(dense_net):
    values = {"model/fc/weight": np.zeros(1, np.float32)}
    with pytest.raises(GraphError, match="2 absent from the checkpoint") as caught:
        prepare(dense_net.graph, values)
    assert "  fc/weights\n  fc/biases" in caught.value.message
    assert "model/fc/weight" in caught.value.received


@pytest.mark.parametrize("resource", [False, True])
def test_a_graph_that_was_imported_finds_its_variables(builder, resource):
    builder.dense_net(resource=resource)
    for node in builder.graph_def.node:
        node.name = f"import/{node.name}"
        node.input[:] = [f"import/{name}" for name in node.input]
    frozen = prepare(builder.graph, builder.values, outputs=["probs"])
    assert {name: variable.key for name, variable in frozen.variables.items()} == {
        "import/fc/weights": "fc/weights",
        "import/fc/biases": "fc/biases",
    }


def test_an_unknown_dimension_of_a_variable_takes_any_size(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 2), np.float32))
    builder.graph_def.node[1].attr["shape"].shape.dim[1].size = -1
    builder.add("MatMul", "out", "x", read, T=FLOAT)
    assert prepare(builder.graph, builder.values).variables["w"].header.shape == (4, 2)
    builder.graph_def.node[1].attr["shape"].shape.dim[0].size = 5
    with pytest.raises(
        GraphError, match=r"w: graph float32 \[5, \?\], checkpoint float32 \[4, 2\]"
    ):
        prepare(builder.graph, builder.values)


class HeaderOnly(dict):
    """An open checkpoint whose values must not be read."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__({name: None})
        self.variables = {name: Variable(name, np.dtype("float32"), "float32", shape)}

    def __getitem__(self, name):
        raise AssertionError(f"{name} was read")


@pytest.mark.parametrize(
    ("form", "message", "step"),
    [
        ("tflite", "that a .tflite is made from can hold", "--to saved-model --keep-variables"),
        ("onnx", "that an .onnx is made from can hold", "--to saved-model --keep-variables"),
        ("saved-model", "the graph of a SavedModel can hold", "Add --keep-variables"),
    ],
)
def test_two_gibibytes_in_other_forms(builder, form, message, step):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 1), np.float32))
    builder.graph_def.node[1].attr["shape"].shape.dim[1].size = 1 << 27
    builder.add("MatMul", "out", "x", read, T=FLOAT)
    with pytest.raises(UnsupportedError) as caught:
        prepare(builder.graph, HeaderOnly("w", (4, 1 << 27)), outputs=["out"], form=form)
    assert message in caught.value.message and step in caught.value.next_step


def test_more_than_two_gibibytes_are_foretold_from_the_header(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 1), np.float32))
    builder.graph_def.node[1].attr["shape"].shape.dim[1].size = 1 << 27
    builder.add("MatMul", "out", "x", read, T=FLOAT)
    path = tmp_path / "model.pb"
    with pytest.raises(UnsupportedError, match=r"would be 2\.00 GiB") as caught:
        freeze(builder.graph, HeaderOnly("w", (4, 1 << 27)), ["out"], path)
    assert caught.value.expected == "at most 2147483647 bytes, protobuf's limit for one message"
    assert ".ckpt" in caught.value.next_step
    assert not list(tmp_path.iterdir())


def test_devices_and_colocation_are_gone(dense_net, tmp_path):
    for node in dense_net.graph_def.node:
        node.device = "/job:worker/device:GPU:0"
        node.attr["_class"].list.s.append(b"loc:@fc/weights")
        node.attr["_output_shapes"].list.shape.add()
    dense_net.graph_def.node[-1].attr["_class"].list.s.append(b"other:thing")
    function = dense_net.graph_def.library.function.add()
    function.signature.name = "Softmax"
    inner = function.node_def.add(name="n", op="Identity", device="/device:GPU:0")
    inner.attr["_class"].list.s.append(b"loc:@x")
    for node in (inner, dense_net.graph_def.node[-1]):
        node.attr["config_proto"].s = b"\n\x07\n\x03GPU\x10\x01"
    path = tmp_path / "model.pb"
    message = written(prepare(dense_net.graph, dense_net.values, outputs=["probs"]), path)
    assert len(message.library.function) == 1
    assert b"GPU" not in path.read_bytes()
    assert b"loc:@" not in path.read_bytes()
    assert b"_output_shapes" not in path.read_bytes()
    assert list(message.node[-1].attr["_class"].list.s) == [b"other:thing"]
    assert message.node[-1].attr["config_proto"].WhichOneof("value") == "s"
    assert message.library.function[0].node_def[0].attr["config_proto"].s == b""


@pytest.mark.parametrize("resource", [False, True])
def test_a_written_saver_names_no_places(builder, tmp_path, resource):
    builder.dense_net(resource=resource)
    checkpoints.write(tmp_path / "m.ckpt", builder.values)
    graph = builder.graph_def
    exporters.convert(tmp_path / "m.ckpt", tmp_path / "n.meta", graph=graph, outputs=["probs"])
    data = (tmp_path / "n.meta").read_bytes()
    assert b"save/Assign" in data and b"loc:@" not in data


def test_training_mode_is_refused_and_kept_on_request(dense_net, heard):
    dense_net.add("RandomUniform", "dropout/random", "probs")
    dense_net.add("Mul", "out", "probs", "dropout/random", T=FLOAT)
    with pytest.raises(GraphError, match="dropout/random"):
        prepare(dense_net.graph, dense_net.values, outputs=["out"])
    frozen = prepare(
        dense_net.graph, dense_net.values, outputs=["out"], keep_training=True, progress=heard
    )
    assert frozen.said == ("1 nodes of training were kept, dropout/random first.",)
    assert heard.said == list(frozen.said)


def test_uses_of_a_handle_that_have_no_constant_are_all_named(builder):
    builder.dense_net(resource=True)
    builder.add("PartitionedCall", "call", "fc/weights")
    builder.add("ResourceGather", "gather", "fc/weights", "x", batch_dims=1)
    builder.add("VarIsInitializedOp", "initialised", "fc/biases")
    builder.add("Any", "out", "probs", "call", "gather", "initialised")
    with pytest.raises(UnsupportedError, match="constants have no answer for") as caught:
        prepare(builder.graph, builder.values, outputs=["out"])
    for name in ("call (PartitionedCall)", "gather (ResourceGather)", "initialised (VarIs"):
        assert name in caught.value.message


def test_asking_whether_a_variable_is_initialised_has_no_constant(dense_net):
    dense_net.add("IsVariableInitialized", "initialised", "fc/biases")
    dense_net.add("Any", "out", "probs", "initialised")
    with pytest.raises(UnsupportedError, match="initialised"):
        prepare(dense_net.graph, dense_net.values, outputs=["out"])


def test_an_existing_file_stays_unless_it_may_be_replaced(dense_net, tmp_path):
    path = tmp_path / "model.pb"
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError):
        freeze(dense_net.graph, dense_net.values, path=path)
    with pytest.raises(GraphError):
        freeze(dense_net.graph, {}, path=path, overwrite=True)
    assert path.read_bytes() == b"old"
    result = freeze(dense_net.graph, dense_net.values, path=path, overwrite=True)
    assert (result.outputs, result.inputs) == (("probs:0",), ("x:0",))
    assert (result.nodes, result.parameters) == (8, 20)
    assert result.num_bytes == path.stat().st_size
    assert result.verification.as_json() == {
        "mode": "structure",
        "passed": True,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "top1_agreement": 1.0,
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pb"]


def test_a_failed_proof_leaves_nothing(dense_net, tmp_path, monkeypatch):
    from checkpoints.errors import VerificationError
    from exporters.proofs import proved

    def write_wrongly(frozen, file):
        write_frozen(frozen, file)
        file.seek(-30, 2)
        file.write(b"wrong")

    monkeypatch.setattr(proved, "write_frozen", write_wrongly)
    path = tmp_path / "model.pb"
    path.write_bytes(b"old")
    with pytest.raises(VerificationError, match=str(path)):
        freeze(dense_net.graph, dense_net.values, path=path, overwrite=True)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.pb"]


def test_the_graph_keeps_its_metadata(dense_net, tmp_path):
    from exporters.metadata import Metadata, metadata_node, read_metadata

    metadata = Metadata(classes=("a", "b"), outputs={"logits": "logits:0"})
    dense_net.graph_def.node.append(metadata_node(metadata))
    result = freeze(dense_net.graph, dense_net.values, path=tmp_path / "model.pb")
    assert result.outputs == ("logits:0",)
    assert read_metadata(read_graph(result.path)) == metadata


def test_more_than_two_gibibytes_fit_where_variables_are_kept(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    read = builder.variable("w", np.zeros((4, 1), np.float32))
    builder.graph_def.node[1].attr["shape"].shape.dim[1].size = 1 << 27
    builder.add("MatMul", "out", "x", read, T=FLOAT)
    values = HeaderOnly("w", (4, 1 << 27))
    kept = prepare(builder.graph, values, outputs=["out"], keep_variables=True)
    assert kept.parameters == 1 << 29


@pytest.mark.parametrize("op", ["Variable", "VariableV2", "AutoReloadVariable"])
def test_every_kind_of_reference_variable(dense_net, tmp_path, op):
    for node in dense_net.graph_def.node:
        node.op = op if node.op == "VariableV2" else node.op
    freeze(dense_net.graph, dense_net.values, path=tmp_path / "model.pb")
    nodes = read_graph(tmp_path / "model.pb").nodes
    assert nodes["fc/weights"].op == "Const"
    assert nodes["fc/weights/read"].op == "Identity"
