from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from checkpoints.messages import GraphDef, MetaGraphDef
from finetune.datasets.records import make_example, write_records
from scripts.main import main

VALUES = {f"w{number}": np.full(4, number, np.float32) for number in range(14)}


@pytest.fixture
def prefix(tmp_path):
    return checkpoints.write(tmp_path / "m.ckpt", VALUES).prefix


@pytest.fixture
def verify(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["verify", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


def test_whole(verify, prefix):
    code, out, _ = verify(prefix, "--json")
    assert code == 0
    size = sum(path.stat().st_size for path in prefix.parent.iterdir())
    assert json.loads(out) == {
        "path": str(prefix),
        "kind": "checkpoint-v2",
        "ok": True,
        "problems": [],
        "variables": 14,
        "bytes": size,
        "notes": [],
    }
    code, out, _ = verify(prefix)
    assert (code, out) == (0, f"{prefix}: 14 variables, 0.0 MB, all whole\n")


def test_the_first_bad_variable_is_named_and_the_rest_counted(verify, prefix):
    data = prefix.with_name("m.ckpt.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:40])
    code, out, _ = verify(prefix)
    assert code == 1
    assert out.splitlines() == [
        f"{prefix}: 14 variables, 0.0 MB",
        f"{data}: variable w10: bytes 32 to 48 of a file that has 40 bytes.",
        "and 11 more (--json lists all)",
    ]
    code, out, _ = verify(prefix, "--json")
    problems = json.loads(out)["problems"]
    assert code == 1 and len(problems) == 12
    assert problems[0] == {
        "kind": "cut-file",
        "path": str(data),
        "name": "w10",
        "detail": "bytes 32 to 48 of a file that has 40 bytes.",
    }


def test_a_name_with_a_new_line_is_one_line(slimtune, tmp_path):
    file = tmp_path / "a\nb.pb"
    graph_def = GraphDef()
    graph_def.node.add(name="x", op="Placeholder")
    file.write_bytes(graph_def.SerializeToString())
    code, out, _ = slimtune("verify", file)
    assert (code, out) == (0, f"{tmp_path}/a\\nb.pb: 1 node, 0 variables, 0.0 MB, all whole\n")
    code, out, _ = slimtune("inspect", file)
    assert code == 0 and out.startswith(f"{tmp_path}/a\\nb.pb: frozen GraphDef, 1 node")


def test_a_graph_and_its_checkpoint(verify, prefix):
    meta = prefix.with_name("m.ckpt.meta")
    graph_def = GraphDef()
    graph_def.node.add(name="x", op="Placeholder")
    meta.write_bytes(MetaGraphDef(graph_def=graph_def).SerializeToString())
    code, out, _ = verify(meta, "--json")
    result = json.loads(out)
    assert (code, result["kind"], result["path"]) == (0, "meta-graph", str(meta))
    assert (result["checkpoint"], result["variables"]) == (str(prefix), 14)
    assert result["bytes"] == sum(path.stat().st_size for path in prefix.parent.iterdir())

    data = prefix.with_name("m.ckpt.data-00000-of-00001")
    data.unlink()
    meta.write_bytes(b"\xff" * 10)
    code, out, _ = verify(meta, "--json")
    kinds = [problem["kind"] for problem in json.loads(out)["problems"]]
    assert code == 1 and kinds == ["graph"] + ["missing-file"] * 14


def test_a_graph_without_its_checkpoint(verify, tmp_path):
    meta = tmp_path / "m.ckpt.meta"
    graph_def = GraphDef()
    graph_def.node.add(name="x", op="VariableV2")
    meta.write_bytes(MetaGraphDef(graph_def=graph_def).SerializeToString())
    code, out, _ = verify(meta, "--json")
    (problem,) = json.loads(out)["problems"]
    assert code == 1 and problem["kind"] == "missing-file"
    assert "whose variables are not beside it" in problem["detail"]
    code, _, err = verify(tmp_path / "none.meta")
    assert code == 1 and "none" in err
    # A graph whose variables are constants needs none.
    graph_def.node[0].op = "Const"
    meta.write_bytes(MetaGraphDef(graph_def=graph_def).SerializeToString())
    code, out, _ = verify(meta, "--json")
    assert json.loads(out)["problems"][0]["kind"] == "constant"


def test_graphs(verify, prefix, tmp_path):
    graph_def = GraphDef()
    graph_def.node.add(name="x", op="Placeholder")
    graph_def.node.add(name="y", op="Identity", input=["x"])
    path = tmp_path / "m.pb"
    path.write_bytes(graph_def.SerializeToString())
    code, out, _ = verify(path)
    assert (code, out) == (0, f"{path}: 2 nodes, 0 variables, 0.0 MB, all whole\n")
    graph_def.node[1].input[:] = ["z", "w"]
    path.write_bytes(graph_def.SerializeToString())
    code, out, _ = verify(path)
    assert code == 1
    assert out.splitlines()[1:] == [
        f"{path}: node y: It takes z, which is not there.",
        "and 1 more (--json lists all)",
    ]


def test_safetensors_have_no_checksums(verify, tmp_path):
    checkpoints.write(tmp_path / "m.safetensors", VALUES)
    code, out, _ = verify(tmp_path / "m.safetensors")
    assert code == 0
    assert out.splitlines()[1].startswith("A safetensors file has no checksums")


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "a.tfrecord"
    write_records(path, [make_example({"image/class/label": label}) for label in range(3)])
    return path


def test_records(verify, records):
    code, out, _ = verify(records, "--json")
    result = json.loads(out)
    assert (code, result["kind"], result["records"], result["ok"]) == (0, "tfrecord", 3, True)


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_damaged_record(verify, records, place):
    content = bytearray(records.read_bytes())
    content[place] ^= 1
    records.write_bytes(content)
    code, out, _ = verify(records)
    assert code == 1
    assert out.splitlines()[1].startswith(f"{records}: record {2 if place < 0 else 0} ")


def test_a_dataset_directory(verify, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(2):
        name = f"flowers_train_{shard:05d}-of-00002.tfrecord"
        write_records(folder / name, [make_example({"image/class/label": shard})] * 2)
    (folder / "labels.txt").write_text("0:daisy\n1:rose\n")
    code, out, _ = verify(folder, "--json")
    result = json.loads(out)
    assert (code, result["kind"], result["records"]) == (0, "dataset", 4)

    content = bytearray((folder / name).read_bytes())
    content[14] ^= 1
    (folder / name).write_bytes(content)
    code, out, _ = verify(folder, "--json")
    (problem,) = json.loads(out)["problems"]
    assert code == 1 and problem["path"] == str(folder / name)
    (folder / name).unlink()
    code, out, _ = verify(folder, "--json")
    assert code == 1 and json.loads(out)["problems"][0]["kind"] == "dataset"


def test_what_cannot_be_verified(verify, tmp_path):
    (tmp_path / "words").write_text("hello")
    code, out, _ = verify(tmp_path / "words", "--json")
    assert code == 1 and json.loads(out)["error"]["received"] == "a text file"
    assert verify(tmp_path / "none")[0] == 1


def test_the_graph_beside_a_checkpoint_is_looked_at_too(verify, prefix):
    meta = prefix.with_name("m.ckpt.meta")
    meta.write_bytes(b"garbage")
    code, out, _ = verify(prefix)
    assert code == 1
    first, second = out.splitlines()
    assert first == f"{prefix}: 0 nodes, 14 variables, 0.0 MB"
    assert second.startswith(f"{meta}: is not a graph. expected a GraphDef, MetaGraphDef")
    meta.write_bytes(MetaGraphDef(graph_def=GraphDef()).SerializeToString())
    code, out, _ = verify(prefix, "--json")
    result = json.loads(out)
    assert (code, result["kind"], result["path"]) == (1, "checkpoint-v2", str(prefix))
    assert result["meta"] == str(meta) and result["variables"] == 14
