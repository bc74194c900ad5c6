from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from checkpoints.messages import GraphDef
from scripts.main import main

VALUES = {
    "a": np.arange(4, dtype=np.float32),
    "b": -np.arange(4, dtype=np.float32),
    "c": np.ones(2, np.float32),
}


@pytest.fixture
def diff(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["diff", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.fixture
def original(tmp_path):
    return checkpoints.write(tmp_path / "a.ckpt", VALUES).prefix


def test_the_same(diff, original, tmp_path):
    checkpoints.write(tmp_path / "b.safetensors", VALUES)
    code, out, _ = diff(original, tmp_path / "b.safetensors")
    assert code == 0
    assert out == f"{original} and {tmp_path / 'b.safetensors'}: 3 variables, all the same\n"
    code, out, _ = diff(original, tmp_path / "b.safetensors", "--json")
    assert code == 0 and json.loads(out)["equal"] is True


def test_different(diff, original, tmp_path):
    other = {
        "a": VALUES["b"],
        "b": VALUES["a"],
        "c": np.array([1.0, np.nan], np.float32),
        "d": np.ones(1),
    }
    checkpoints.write(tmp_path / "b.npz", other)
    code, out, _ = diff(original, tmp_path / "b.npz")
    assert code == 1
    assert out.splitlines() == [
        f"{original} (A) and {tmp_path / 'b.npz'} (B) differ; 0 variables the same",
        "Only in B: 1 variable",
        "  d float64 [1]",
        "Other values: 3 variables",
        "  a: exchanged its values with b; 3 of 4 differ, max_abs 6, max_rel 2",
        "  b: exchanged its values with a; 3 of 4 differ, max_abs 6, max_rel 2",
        "  c: 1 of 2 differ, max_abs 0, max_rel 0, NaN in one only: 1",
    ]
    code, out, _ = diff(original, tmp_path / "b.npz", "--json")
    verdicts = {value["name"]: value["verdict"] for value in json.loads(out)["different_values"]}
    assert code == 1 and verdicts == {"a": "swapped", "b": "swapped", "c": "nan"}


def test_other_headers_and_damaged_values(diff, original, tmp_path):
    checkpoints.write(tmp_path / "b.ckpt", VALUES | {"c": np.ones(2), "a": np.zeros(3)})
    data = tmp_path / "b.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[24] ^= 1
    data.write_bytes(content)
    code, out, _ = diff(original, tmp_path / "b.ckpt")
    lines = out.splitlines()
    assert code == 1
    assert lines[1:4] == [
        "Other dtype or shape: 2 variables",
        "  a: float32 [4] and float64 [3]",
        "  c: float32 [2] and float64 [2]; 0 of 2 differ, max_abs 0, max_rel 0",
    ]
    assert lines[5].startswith("  b: cannot be read: ")


def test_tolerances(diff, original, tmp_path):
    checkpoints.write(tmp_path / "b.ckpt", VALUES | {"c": np.array([1, 1.001], np.float32)})
    assert diff(original, tmp_path / "b.ckpt")[0] == 1
    assert diff(original, tmp_path / "b.ckpt", "--rtol", "1e-2")[0] == 0
    assert diff(original, tmp_path / "b.ckpt", "--atol", "1e-2")[0] == 0
    assert diff(original, tmp_path / "b.ckpt", "--atol", "-1")[0] == 2
    assert diff(original)[0] == 2


def graph_file(path, value):
    graph_def = GraphDef()
    node = graph_def.node.add(name="w", op="Const")
    node.attr["value"].tensor.dtype = 1
    node.attr["value"].tensor.float_val.append(value)
    node.attr["value"].tensor.tensor_shape.SetInParent()
    graph_def.node.add(name="out", op="Identity", input=["w"])
    path.write_bytes(graph_def.SerializeToString())
    return path


def test_graphs(diff, tmp_path):
    one, other = graph_file(tmp_path / "one.pb", 1.0), graph_file(tmp_path / "other", 1.5)
    code, out, _ = diff(one, one)
    assert (code, out) == (0, f"{one} and {one}: 2 nodes, all the same\n")
    code, out, _ = diff(one, other)
    assert code == 1
    assert out.splitlines() == [
        f"{one} (A) and {other} (B) differ; 1 node the same",
        "First different node: w (Const): 1 of 1 differ, max_abs 0.5, max_rel 0.333",
    ]
    code, out, _ = diff(one, other, "--json")
    value = json.loads(out)
    assert (code, value["equal"], value["first"]["verdict"]) == (1, False, "values")
    assert diff(one, other, "--atol", "0.5")[0] == 0


def test_a_graph_and_a_checkpoint_are_not_compared(diff, tmp_path):
    graph = graph_file(tmp_path / "one.pb", 1.0)
    checkpoints.write(tmp_path / "m.ckpt", {"w": np.float32(1)})
    code, _, err = diff(graph, tmp_path / "m.ckpt")
    assert code == 2
    assert f"{graph} is a graph, and {tmp_path / 'm.ckpt'} is none" in err
