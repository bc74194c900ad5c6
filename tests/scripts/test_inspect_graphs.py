from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from google.protobuf import text_format

import checkpoints
import exporters
from checkpoints.messages import DataType, GraphDef, MetaGraphDef
from finetune.config import TrainConfig
from finetune.datasets.records import make_example, write_records
from finetune.run import Run
from scripts.main import main


@pytest.fixture
def inspect(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["inspect", *map(str, arguments)])
        return stop.value.code, capsys.readouterr().out

    return run


@pytest.fixture
def inspect_json(inspect):
    def run(*arguments):
        code, out = inspect(*arguments, "--json")
        return code, json.loads(out)

    return run


@pytest.fixture
def graph_def():
    """x [?, 4] times fc/weights [4, 3]: variable, read, product, softmax."""
    graph_def = GraphDef()
    for name, op, *inputs in (
        ("x", "Placeholder"),
        ("fc/weights", "VariableV2"),
        ("fc/weights/read", "Identity", "fc/weights"),
        ("logits", "MatMul", "x", "fc/weights/read"),
        ("probs", "Softmax", "logits"),
    ):
        node = graph_def.node.add(name=name, op=op, input=inputs)
        key = "dtype" if op in ("Placeholder", "VariableV2") else "T"
        node.attr[key].type = DataType.DT_FLOAT
    for index, sizes in ((0, (-1, 4)), (1, (4, 3))):
        for size in sizes:
            graph_def.node[index].attr["shape"].shape.dim.add(size=size)
    return graph_def


@pytest.fixture
def saved(graph_def, tmp_path):
    prefix = tmp_path / "m.ckpt-7"
    checkpoints.write(prefix, {"fc/weights": np.arange(12, dtype=np.float32).reshape(4, 3)})
    prefix.with_name("m.ckpt-7.meta").write_bytes(
        MetaGraphDef(graph_def=graph_def).SerializeToString()
    )
    return prefix


def test_a_meta_and_its_checkpoint(inspect, inspect_json, saved):
    code, result = inspect_json(f"{saved}.meta", "--stats")
    assert code == 0
    assert (result["kind"], result["checkpoint"]) == ("meta-graph", str(saved))
    assert result["outputs"] == [{"name": "probs:0", "dtype": "float32", "shape": [None, 3]}]
    (weights,) = result["variables"]
    assert (weights["name"], weights["max"], result["parameters"]) == ("fc/weights", 11.0, 12)
    code, out = inspect(f"{saved}.meta")
    assert code == 0
    assert out.splitlines() == [
        f"{saved}.meta: MetaGraphDef, 5 nodes, 1 variable, 12 parameters",
        f"Checkpoint  {saved}",
        "Input       x:0 float32 [?, 4]",
        "Output      probs:0 float32 [?, 3]",
        "Ops         Identity 1, MatMul 1, Placeholder 1, Softmax 1, VariableV2 1",
        "Version     written for 0, read from 0 on",
        "",
        "NAME        DTYPE    SHAPE  ROLE",
        "fc/weights  float32  4 x 3  model",
        "",
        "Output probs:0, guessed: nothing reads it, and it depends on input and variables.",
    ]


def test_a_frozen_graph_with_figures(inspect, inspect_json, saved, tmp_path):
    path = tmp_path / "m.pb"
    exporters.convert(saved, path, labels=["a", "b", "c"])
    code, result = inspect_json(path, "--stats", "--filter", "weights")
    assert code == 0
    assert (result["frozen"], result["checkpoint"]) == (True, None)
    assert result["variables"][0]["mean"] == 5.5
    assert result["metadata"]["classes"] == ["a", "b", "c"]
    assert inspect_json(path, "--filter", "nothing")[1]["variables"] == []
    _, out = inspect(path)
    assert "frozen GraphDef, 6 nodes, 1 variable as constants" in out
    assert "Classes     3: a, b, c" in out


def test_a_saved_model(inspect, inspect_json, saved, tmp_path):
    options = exporters.options.ModelOptions(keep_variables=True)
    exporters.convert(saved, f"{tmp_path}/model/", options=options)
    code, result = inspect_json(tmp_path / "model", "--stats")
    assert code == 0
    assert result["kind"] == "saved-model"
    assert result["checkpoint"] == str(tmp_path / "model/variables/variables")
    assert result["variables"][0]["max"] == 11.0
    assert list(result["signatures"]) == ["serving_default"]
    _, out = inspect(f"{tmp_path}/model/")
    assert "Signature   serving_default: x -> probs" in out


@pytest.mark.parametrize("name", ["g.pb", "g.pbtxt", "g.meta", "g"])
@pytest.mark.parametrize("form", ["binary", "text", "utf-8-sig", "utf-16", "meta"])
def test_the_content_tells_what_it_is(inspect_json, graph_def, tmp_path, name, form):
    path = tmp_path / name
    text = text_format.MessageToString(graph_def)
    path.write_bytes(
        {
            "binary": graph_def.SerializeToString(),
            "text": text.encode(),
            "meta": MetaGraphDef(graph_def=graph_def).SerializeToString(),
        }.get(form)
        or text.encode(form)
    )
    code, result = inspect_json(path)
    assert code == 0
    assert result["kind"] == ("meta-graph" if form == "meta" else "graph-def")
    assert result["nodes"] == 5


def test_graphs_that_are_none(inspect, inspect_json, tmp_path):
    (tmp_path / "empty.pb").write_bytes(b"")
    code, result = inspect_json(tmp_path / "empty.pb")
    assert (code, result["error"]["type"]) == (1, "GraphError")
    (tmp_path / "empty.meta").write_bytes(b"")
    code, result = inspect_json(tmp_path / "empty.meta")
    assert (code, result["error"]["message"]) == (1, f"{tmp_path / 'empty.meta'} is empty.")
    (tmp_path / "zip.pb").write_bytes(b"PK\x03\x04")
    code, result = inspect_json(tmp_path / "zip.pb")
    assert (code, result["kind"], result["received"]) == (0, "other", "a zip archive")
    (tmp_path / "note").write_text("\nhello")
    assert inspect_json(tmp_path / "note")[1]["kind"] == "other"


@pytest.mark.parametrize("ending", [".pb", ".meta"])
def test_a_graph_that_was_cut_is_no_graph(inspect_json, graph_def, tmp_path, ending):
    path = tmp_path / f"cut{ending}"
    path.write_bytes(graph_def.SerializeToString()[:-3])
    code, result = inspect_json(path)
    assert (code, result["error"]["type"]) == (1, "GraphError")
    assert "cannot be read as a" in result["error"]["message"]
    path.write_bytes(b"\xff" * 300)
    code, result = inspect_json(path)
    assert (code, result["error"]["received"]) == (1, "a file of unknown kind")
    assert result["error"]["next"] == "Copy or export the file again."


def test_files_that_are_only_named(inspect, inspect_json, tmp_path):
    hub = tmp_path / "hub"
    hub.mkdir()
    (hub / "tfhub_module.pb").write_bytes(b"\x08\x03")
    (hub / "saved_model.pb").write_bytes(b"")
    assert inspect_json(hub)[1]["received"] == "a TensorFlow 1 Hub module"
    (tmp_path / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert inspect_json(tmp_path / "m.h5")[1]["received"].startswith("an HDF5 file")
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("metadata.json", "{}")
    assert inspect_json(tmp_path / "m.keras")[1]["received"].startswith("a Keras file")
    (tmp_path / "m.pkl").write_bytes(b"\x80\x04}.")
    assert inspect_json(tmp_path / "m.pkl")[1]["received"] == "a pickle"
    (tmp_path / "m.tflite").write_bytes(b"\0\0\0\0TFL3")
    code, result = inspect_json(tmp_path / "m.tflite")
    assert (code, result["kind"]) == (0, "tflite")
    assert "is no whole TFLite model" in result["notes"][0]
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x12\x02me\x3a\x00")
    code, result = inspect_json(tmp_path / "m.onnx")
    assert (code, result["kind"], result["written_by"]) == (0, "onnx", "me")
    assert "ONNX model, 0 nodes, 0 parameters" in inspect(tmp_path / "m.onnx")[1]
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float16))
    _, result = inspect_json(tmp_path / "a.npy")
    assert result["variables"] == [
        {"name": "a", "dtype": "float16", "shape": [2, 3], "role": "other"}
    ]
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    assert inspect_json(tmp_path / "a.npy")[1]["notes"] == ["its .npy header cannot be read"]


def test_records_and_datasets(inspect, inspect_json, tmp_path):
    features = {"image/encoded": b"x", "image/class/label": 1}
    write_records(tmp_path / "one.tfrecord", [make_example(features)] * 3)
    code, result = inspect_json(tmp_path / "one.tfrecord")
    assert (code, result["kind"], result["records"]) == (0, "tfrecord", 3)
    assert result["features"] == {"image/class/label": "int x 1", "image/encoded": "bytes x 1"}
    _, out = inspect(tmp_path / "one.tfrecord")
    assert "TFRecord file, 3 records" in out
    data = (tmp_path / "one.tfrecord").read_bytes()
    (tmp_path / "cut.tfrecord").write_bytes(data[:-7])
    assert "record 2" in inspect_json(tmp_path / "cut.tfrecord")[1]["notes"][0]


def test_a_dataset_whose_labels_count_from_1(inspect, inspect_json, tmp_path):
    records = [
        make_example({"image/encoded": b"x", "image/class/label": n, "image/class/text": text})
        for n, text in ((1, "cat"), (2, "dog"))
    ]
    write_records(tmp_path / "train-00000-of-00001", records)
    code, result = inspect_json(tmp_path)
    assert (code, result["kind"], result["classes"]) == (0, "dataset", ["cat", "dog"])
    assert (result["label_offset"], result["multi_label"]) == (1, False)
    assert "labels count from 1, as the records' class names say" in inspect(tmp_path)[1]


def test_a_run(inspect, inspect_json, tmp_path):
    run = Run(tmp_path / "run")
    run.directory.mkdir()
    config = TrainConfig(data="flowers", run=str(run.directory), net="inception_v3")
    run.write_config(config, 20)
    run.metrics_file.write_text('{"step": 10, "split": "val", "accuracy": 0.75}\n')
    code, result = inspect_json(run.directory)
    assert (code, result["kind"], result["step"], result["checkpoint"]) == (0, "run", 0, None)
    checkpoints.write(run.directory / "model.ckpt-10", {"w": np.zeros(3, np.float32)})
    code, result = inspect_json(run.directory)
    assert (result["step"], result["total_steps"], result["finished"]) == (10, 20, False)
    assert (result["accuracy"], result["best_accuracy"]) == (0.75, None)
    assert result["options"]["net"] == "inception_v3"
    assert [variable["name"] for variable in result["variables"]] == ["w"]
    _, out = inspect(run.directory)
    assert out.splitlines()[0].endswith("run of inception_v3, step 10 of 20, unfinished")
    assert "Accuracy    75.0%" in out
