from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
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


def test_a_graph(diff, original, tmp_path):
    (tmp_path / "m.pb").write_bytes(b"\x0a\x05\x0a\x01a\x12\x00")
    code, out, _ = diff(original, tmp_path / "m.pb", "--json")
    assert code == 1
    assert "Name the checkpoint with the variables" in json.loads(out)["error"]["next"]
