"""Frozen graphs become checkpoints again, without TensorFlow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import (
    GraphError,
    OutputExistsError,
    UsageError,
    VerificationError,
)
from checkpoints.messages import GraphDef, MetaGraphDef, VariableDef
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.metadata import Metadata, read_metadata
from exporters.savers.names import saved_names
from exporters.thawed.file import prepare_thawing
from exporters.thawed.proof import prove_thawed
from exporters.thawed.variable_graph import complete_meta_graph

FLOAT = np.dtype("float32")


@pytest.fixture
def frozen(dense_net, tmp_path):
    """The small dense net as a .pb."""
    exporters.freeze(dense_net.graph, dense_net.values, path=tmp_path / "frozen.pb")
    return tmp_path / "frozen.pb"


def collection(meta: MetaGraphDef, name: str) -> dict[str, VariableDef]:
    definitions = map(VariableDef.FromString, meta.collection_def[name].bytes_list.value)
    return {definition.variable_name: definition for definition in definitions}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_variable_comes_back_under_its_name(dense_net, frozen, tmp_path, version):
    done = exporters.thaw(frozen, tmp_path / "t.ckpt", version=version)
    assert done.variables == done.trainable == ("fc/weights", "fc/biases")
    assert (done.inputs, done.outputs) == (("x:0",), ("probs:0",))
    assert done.parameters == 20
    assert done.verification.passed
    assert done.said == (
        "Output probs:0, guessed: nothing reads it, and it depends on input and variables.",
        "2 constants became variables, 2 trainable.",
    )
    with checkpoints.open(done.path) as saved:
        assert saved.family.kind == f"checkpoint-{version}"
        assert sorted(saved) == ["fc/biases", "fc/weights"]
        for name in saved:
            assert saved[name].tobytes() == dense_net.values[name].tobytes()
    graph = read_graph(f"{done.path}.meta")
    assert saved_names(graph) == {"fc/weights": "fc/weights", "fc/biases": "fc/biases"}
    assert graph.meta_graph.saver_def.version == int(version[1])
    assert graph.nodes["fc/weights"].op == "VarHandleOp"
    assert graph.nodes["fc/weights/read"].op == "ReadVariableOp"
    assert list(graph.nodes["matmul"].input) == ["x", "fc/weights/read"]
    definitions = collection(graph.meta_graph, "variables")
    assert definitions == collection(graph.meta_graph, "trainable_variables")
    weights = definitions["fc/weights:0"]
    assert weights.is_resource and weights.trainable
    assert weights.snapshot_name == "fc/weights/read:0"
    assert graph.nodes[weights.initializer_name].op == "AssignVariableOp"
    signature = graph.signatures["serving_default"]
    assert {key: info.name for key, info in signature.inputs.items()} == {"x": "x:0"}
    assert {key: info.name for key, info in signature.outputs.items()} == {"probs": "probs:0"}


def test_frozen_again_it_is_the_same_file(frozen, tmp_path):
    done = exporters.convert(frozen, tmp_path / "t.ckpt")
    assert done.form == "v2" and done.parameters == 20 and done.nodes == 8
    again = exporters.convert(done.path, tmp_path / "again.pb")
    assert again.path.read_bytes() == frozen.read_bytes()


def test_moving_averages_are_not_trainable(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 1))
    builder.const("filter", np.ones((3, 3, 1, 2), np.float32))
    builder.add("Conv2D", "conv", "x", "filter", T=FLOAT)
    for name in ("g", "b", "m", "v"):
        builder.const(name, np.full(2, 0.5, np.float32))
    builder.add("FusedBatchNormV3", "out", "conv", "g", "b", "m", "v", T=FLOAT, is_training=False)
    done = exporters.thaw(builder.graph, tmp_path / "t.ckpt")
    assert done.trainable == ("filter", "g", "b")
    assert "5 constants became variables, 3 trainable, 2 moving averages." in done.said
    meta = read_graph(f"{done.path}.meta").meta_graph
    assert set(collection(meta, "variables")) - set(collection(meta, "trainable_variables")) == {
        "m:0",
        "v:0",
    }
    assert not collection(meta, "variables")["m:0"].trainable
    nodes = {node.name: node for node in meta.graph_def.node}
    assert list(nodes["out"].input)[1:] == [f"{name}/Read/ReadVariableOp" for name in "gbmv"]
    # The variance begins at one, the filter at random.
    assert constant_value(nodes["v/Initializer/ones"]).tolist() == [1, 1]
    assert nodes["filter/Initializer/truncated_normal/TruncatedNormal"].op == "TruncatedNormal"


def test_a_folded_batch_norm_cannot_come_back(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 1))
    builder.const("filter", np.ones((3, 3, 1, 2), np.float32))
    builder.add("Conv2D", "conv", "x", "filter", T=FLOAT)
    builder.const("body/BatchNorm/offset", np.ones(2, np.float32))
    builder.add("BiasAdd", "out", "conv", "body/BatchNorm/offset", T=FLOAT)
    done = exporters.thaw(builder.graph, tmp_path / "t.ckpt")
    assert (
        "Batch norm was folded into the layers before it (see body/BatchNorm/offset): its gammas,"
        " betas and moving averages cannot come back, and training goes on without it."
    ) in done.said
    builder.graph_def.node[3].name = "offset"
    builder.graph_def.node[4].input[1] = "offset"
    done = exporters.thaw(builder.graph, tmp_path / "u.ckpt")
    assert "There is no batch norm. If the net had any, it was folded" in done.said[-1]


def test_a_graph_that_was_imported_gets_its_names_back(dense_net, frozen, tmp_path):
    graph_def = GraphDef.FromString(frozen.read_bytes())
    for node in graph_def.node:
        node.name = f"import/{node.name}"
        node.input[:] = [
            f"^import/{name[1:]}" if name.startswith("^") else f"import/{name}"
            for name in node.input
        ]
    done = exporters.thaw(graph_def, tmp_path / "t.ckpt", outputs=["import/logits"])
    assert done.variables == ("fc/weights", "fc/biases")
    assert done.outputs == ("logits:0",)
    assert "The prefix import/ was taken off all names." in done.said
    assert "probs" not in read_graph(f"{done.path}.meta").nodes


def test_inputs_and_outputs_cut_the_graph(frozen, tmp_path):
    done = exporters.thaw(frozen, tmp_path / "t.ckpt", outputs=["logits"], inputs=["matmul=?x4"])
    assert done.inputs == ("matmul:0",)
    assert done.variables == ("fc/biases",)


def test_class_names_travel(frozen, tmp_path):
    done = exporters.convert(frozen, tmp_path / "t.ckpt", labels=["a", "b", "c", "d"])
    metadata = read_metadata(read_graph(f"{done.path}.meta"))
    assert metadata == done.metadata
    assert metadata.classes == ("a", "b", "c", "d")
    with pytest.raises(GraphError, match="does not fit the model"):
        exporters.convert(frozen, tmp_path / "u.ckpt", labels=["a", "b"])
    arrays = exporters.convert(done.path, tmp_path / "t.pb")
    assert arrays.metadata.classes == metadata.classes


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_variables_alone(dense_net, frozen, tmp_path, form):
    done = exporters.convert(frozen, tmp_path / f"t.{form}")
    assert done.verification.passed
    with checkpoints.open(done.path) as saved:
        for name, value in dense_net.values.items():
            np.testing.assert_array_equal(saved[name], value)


def test_variables_that_are_selected_have_no_meta(frozen, tmp_path):
    selection = checkpoints.Selection(include=["weights"], rename=["s|fc|head|"])
    done = exporters.convert(frozen, tmp_path / "t.ckpt", selection=selection)
    assert "No .meta was written: variables were left out, renamed or cast." in done.notes
    assert not (tmp_path / "t.ckpt.meta").exists()
    with checkpoints.open(done.path) as saved:
        assert list(saved) == ["head/weights"]
    with pytest.raises(UsageError, match="Variables alone cannot be run"):
        exporters.convert(frozen, tmp_path / "u.ckpt", selection=selection, verify="run")


def test_what_cannot_be_thawed(dense_net, builder, tmp_path):
    with pytest.raises(GraphError, match="is not frozen") as caught:
        exporters.thaw(dense_net.graph, tmp_path / "t.ckpt")
    assert "--checkpoint" in caught.value.next_step
    dense_net.graph_def.Clear()
    dense_net.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    dense_net.const("two", np.float32(2))
    dense_net.add("Mul", "out", "x", "two", T=FLOAT)
    with pytest.raises(GraphError, match="no constants that were variables"):
        exporters.thaw(dense_net.graph, tmp_path / "t.ckpt")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_is_there_stays(frozen, tmp_path):
    exporters.thaw(frozen, tmp_path / "t.ckpt")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputExistsError):
        exporters.thaw(frozen, tmp_path / "t.ckpt")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    exporters.thaw(frozen, tmp_path / "t.ckpt", overwrite=True)


def test_a_constant_of_one_value_and_a_giant_shape_is_refused(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.const("w", np.ones((1, 1), np.float32))
    tensor = builder.graph_def.node[-1].attr["value"].tensor
    tensor.ClearField("tensor_content")
    for dimension in tensor.tensor_shape.dim:
        dimension.size = 1 << 20
    builder.add("MatMul", "out", "x", "w", T=FLOAT)
    with pytest.raises(GraphError, match="larger than variables of a frozen graph can have been"):
        exporters.thaw(builder.graph, tmp_path / "t.ckpt")


def rename(meta, old, new):
    node = next(node for node in meta.graph_def.node if node.name == old)
    node.name = new


def set_input(meta, name, index, reference):
    node = next(node for node in meta.graph_def.node if node.name == name)
    node.input[index] = reference


def drop(meta, name):
    kept = [node for node in meta.graph_def.node if node.name != name]
    del meta.graph_def.node[:]
    meta.graph_def.node.extend(kept)


def node_of(meta, name):
    return next(node for node in meta.graph_def.node if node.name == name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: drop(meta, "probs"), "Node probs: the node is missing"),
        (lambda meta: set_input(meta, "probs", 0, "matmul"), "the input logits became another"),
        (lambda meta: set_input(meta, "matmul", 1, "fc/weights"), "became another"),
        (lambda meta: set_input(meta, "matmul", 1, "fc/biases/read"), "it stands for"),
        (
            lambda meta: set_input(meta, "fc/weights/read", 0, "fc/biases"),
            "fc/biases: the shape differs",
        ),
        (lambda meta: setattr(node_of(meta, "probs"), "op", "Sigmoid"), "the op differs"),
        (lambda meta: node_of(meta, "probs").attr["T"].SetInParent(), None),
        (lambda meta: setattr(node_of(meta, "probs").attr["T"], "type", 2), "attribute T differs"),
        (
            lambda meta: setattr(node_of(meta, "fc/weights").attr["dtype"], "type", 2),
            "the dtype differs",
        ),
        (
            lambda meta: setattr(node_of(meta, "fc/weights").attr["shape"].shape.dim[0], "size", 5),
            "the shape differs",
        ),
        (lambda meta: meta.graph_def.node.add(name="probs"), "several nodes have one name"),
        (
            lambda meta: meta.collection_def["trainable_variables"].bytes_list.value.pop(),
            "trainable_variables: it lists others",
        ),
        (
            lambda meta: meta.collection_def["variables"].bytes_list.value.pop(),
            "variables: it does not list the variables",
        ),
        (lambda meta: meta.graph_def.library.function.add(), "functions are missing or were added"),
    ],
)
def test_the_proof_finds_what_was_changed(frozen, change, message):
    thawing = prepare_thawing(read_graph(frozen))
    names = [weight.name for weight in thawing.thawed.weights]
    meta = MetaGraphDef(graph_def=thawing.thawed.graph.graph_def)
    for name in names:
        data = VariableDef(variable_name=f"{name}:0").SerializeToString()
        for key in ("variables", "trainable_variables"):
            meta.collection_def[key].bytes_list.value.append(data)
    change(meta)

    def prove():
        source, values = thawing.thawed.source, thawing.thawed.values
        prove_thawed(source, meta.SerializeToString(), values, names, "t.ckpt.meta")

    if message is None:
        prove()
    else:
        with pytest.raises(VerificationError, match=message):
            prove()


def test_the_proof_finds_another_value(frozen):
    thawing = prepare_thawing(read_graph(frozen))
    other = GraphDef.FromString(frozen.read_bytes())
    node = next(node for node in other.node if node.name == "fc/biases")
    content = bytearray(node.attr["value"].tensor.tensor_content)
    content[5] ^= 1
    node.attr["value"].tensor.tensor_content = bytes(content)
    source = replace(thawing.thawed.source, graph_def=other)
    with pytest.raises(VerificationError, match="fc/biases: the values differ"):
        prove_thawed(
            source,
            complete_meta_graph(thawing.thawed.graph, [], version="v2"),
            thawing.thawed.values,
            [],
            "t",
        )


def test_metadata_that_is_given_replaces_the_graphs_own(frozen, tmp_path):
    done = exporters.thaw(frozen, tmp_path / "t.ckpt", metadata=Metadata(net="mine"))
    assert read_metadata(read_graph(f"{done.path}.meta")).net == "mine"
    again = exporters.thaw(
        exporters.convert(done.path, tmp_path / "t.pb").path, tmp_path / "u.ckpt"
    )
    assert read_metadata(read_graph(f"{again.path}.meta")).net == "mine"
