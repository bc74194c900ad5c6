"""What a graph is and what is in it."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import GraphError
from checkpoints.messages import (
    CollectionDef,
    GraphDef,
    MetaGraphDef,
    SavedModel,
    SignatureDef,
    VariableDef,
)
from exporters.graph import Graph
from exporters.metadata import Metadata

FLOAT = np.dtype("float32")


def test_a_saver_is_no_part_of_the_net(builder, tmp_path):
    """Where no output can be told, everything is looked at but what saves and restores."""
    builder.dense_net()
    builder.add("Identity", "first", "matmul", T=FLOAT)
    checkpoints.write(tmp_path / "m.ckpt", builder.values)
    outputs = ["probs", "first"]
    exporters.convert(
        tmp_path / "m.ckpt", tmp_path / "n.meta", graph=builder.graph_def, outputs=outputs
    )
    message = MetaGraphDef.FromString((tmp_path / "n.meta").read_bytes())
    message.signature_def.clear()
    for node in list(message.graph_def.node):
        if node.op == "Softmax":
            node.op = "Relu"
    (tmp_path / "n.meta").write_bytes(message.SerializeToString())
    found = exporters.inspect(tmp_path / "n.meta")
    assert found.outputs == () and "SaveV2" in found.ops
    assert [entry.name for entry in found.inputs] == ["x:0"]
    assert found.unsafe == ()
    assert not [entry for entry in found.training_ops if entry.name.startswith("save/")]


def test_a_graph_with_variables(dense_net):
    dense_net.variable("steps", np.int32(0))
    found = exporters.inspect(dense_net.graph)
    assert found.as_json() == {
        "kind": "graph-def",
        "path": None,
        "files": [],
        "nodes": 10,
        "functions": 0,
        "frozen": False,
        "inputs": [{"name": "x:0", "dtype": "float32", "shape": [None, 4]}],
        "outputs": [{"name": "probs:0", "dtype": "float32", "shape": [None, 4]}],
        "ops": {
            "Identity": 3,
            "VariableV2": 3,
            "BiasAdd": 1,
            "MatMul": 1,
            "Placeholder": 1,
            "Softmax": 1,
        },
        "variables": [
            {"name": "fc/weights", "dtype": "float32", "shape": [4, 4], "role": "model"},
            {"name": "fc/biases", "dtype": "float32", "shape": [4], "role": "model"},
            {"name": "steps", "dtype": "int32", "shape": [], "role": "model"},
        ],
        "parameters": 21,
        "training_ops": [],
        "tables": [],
        "unsafe_ops": [],
        "producer": 27,
        "min_consumer": 0,
        "signatures": {},
        "metadata": None,
        "assets": [],
        "notes": [
            "Output probs:0, guessed: nothing reads it, and it depends on input and variables."
        ],
    }


def test_a_frozen_file_with_metadata(dense_net, tmp_path):
    metadata = Metadata(classes=("a", "b", "c", "d"), outputs={"logits": "logits:0"}, step=7)
    path = tmp_path / "m.pb"
    exporters.freeze(dense_net.graph, dense_net.values, path=path, metadata=metadata)
    found = exporters.inspect(path)
    assert found.is_frozen and found.parameters == 20
    assert [(v.name, v.shape, v.trainable) for v in found.variables] == [
        ("fc/weights", (4, 4), True),
        ("fc/biases", (4,), True),
    ]
    assert found.metadata == metadata
    assert [endpoint.name for endpoint in found.outputs] == ["logits:0"]
    assert found.files == (path,)


def test_a_meta_says_what_is_trainable_and_has_signatures(dense_net):
    graph_def = dense_net.graph_def
    meta = MetaGraphDef(graph_def=graph_def)
    trainable = CollectionDef()
    trainable.bytes_list.value.append(VariableDef(variable_name="fc/weights:0").SerializeToString())
    meta.collection_def["trainable_variables"].CopyFrom(trainable)
    signature = SignatureDef(method_name="tensorflow/serving/predict")
    signature.inputs["hidden"].name = "matmul:0"
    signature.outputs["scores"].name = "logits:0"
    meta.signature_def["serving_default"].CopyFrom(signature)
    found = exporters.inspect(Graph(meta.graph_def, "meta-graph", None, meta))
    assert [variable.trainable for variable in found.variables] == [True, False]
    # The signature says what is fed, though it is no placeholder.
    assert [endpoint.name for endpoint in found.inputs] == ["matmul:0"]
    assert [endpoint.name for endpoint in found.outputs] == ["logits:0"]
    assert found.signatures["serving_default"]["inputs"]["hidden"]["name"] == "matmul:0"


def test_what_would_stop_it_from_serving(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("Placeholder", "words", dtype=np.dtype("O"), shape=(None,))
    read = builder.variable("w", np.ones((2, 2), np.float32))
    builder.add("RandomUniform", "noise", "x", dtype=FLOAT)
    builder.add("Add", "noisy", "x", "noise", T=FLOAT)
    builder.add("HashTableV2", "table")
    builder.add("LookupTableFindV2", "found", "table", "words", Tout=FLOAT)
    builder.add("ReadFile", "file", "words")
    builder.add("MatMul", "product", "noisy", read, T=FLOAT)
    builder.add("AddN", "out", "product", "found", "file", T=FLOAT)
    found = exporters.inspect(builder.graph)
    assert [endpoint.name for endpoint in found.outputs] == ["out:0"]
    reasons = {entry.name: entry.reason for entry in found.training_ops}
    assert reasons["noise"] == "draws random numbers, as dropout does"
    assert found.tables == ("table (HashTableV2)",)
    assert [(entry.name, entry.reason) for entry in found.unsafe] == [("file", "reads files")]


def test_doubts_are_notes(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    found = exporters.inspect(builder.graph)
    assert found.outputs == ()
    assert "no tensor that could be the output" in found.notes[0]
    builder.add("Const", "slimtune/metadata")
    builder.add("Add", "broken", "x", "absent", T=FLOAT)
    found = exporters.inspect(builder.graph)
    assert found.metadata is None
    assert found.notes[0].startswith("Its metadata cannot be used")


def test_a_saved_model_lists_its_files(dense_net, tmp_path):
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    meta.asset_file_def.add(filename="words.txt")
    model = SavedModel(saved_model_schema_version=1)
    model.meta_graphs.append(meta)
    for name in ("variables", "assets"):
        (tmp_path / name).mkdir()
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
    (tmp_path / "assets/words.txt").write_text("cat")
    found = exporters.inspect(tmp_path)
    assert (found.kind, found.path, found.assets) == ("saved-model", tmp_path, ("words.txt",))
    assert [file.name for file in found.files] == ["saved_model.pb", "words.txt"]


def test_what_is_no_graph(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(b"")
    with pytest.raises(GraphError, match="is empty"):
        exporters.inspect(path)


def test_a_graph_of_one_huge_loop():
    graph_def = GraphDef()
    for index in range(20_000):
        graph_def.node.add(name=f"n{index}", op="Identity", input=[f"n{(index + 1) % 20_000}"])
    found = exporters.inspect(Graph(graph_def))
    assert found.nodes == 20_000
    assert found.outputs == ()
