from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import checkpoints
from checkpoints.family import write_state
from scripts.main import main

VALUES = {
    "net/bias": np.array([1.0, np.nan, 3.0], np.float32),
    "net/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "net/weights/Adam": np.zeros((2, 3), np.float32),
    "net/weights/ExponentialMovingAverage": np.zeros((2, 3), np.float32),
    "global_step": np.array(7, np.int64),
    "words": np.array([b"a", b"b"], object),
}


@pytest.fixture
def run(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt-7", VALUES)
    (tmp_path / "m.ckpt-7.meta").write_bytes(b"\x0a\x00")
    write_state(tmp_path, tmp_path / "m.ckpt-7")
    return tmp_path


def slimtune(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["inspect", *map(str, arguments)])
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def slimtune_json(capsys, *arguments):
    code, out, _ = slimtune(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_json(run, capsys):
    code, result = slimtune_json(capsys, run / "m.ckpt-7")
    assert code == 0
    assert result == {
        "kind": "checkpoint-v2",
        "path": str(run / "m.ckpt-7"),
        "files": [
            str(run / "m.ckpt-7.index"),
            str(run / "m.ckpt-7.data-00000-of-00001"),
        ],
        "meta": str(run / "m.ckpt-7.meta"),
        "resolved": None,
        "variables": [
            {"name": "global_step", "dtype": "int64", "shape": [], "role": "step"},
            {"name": "net/bias", "dtype": "float32", "shape": [3], "role": "model"},
            {"name": "net/weights", "dtype": "float32", "shape": [2, 3], "role": "model"},
            {"name": "net/weights/Adam", "dtype": "float32", "shape": [2, 3], "role": "slot"},
            {
                "name": "net/weights/ExponentialMovingAverage",
                "dtype": "float32",
                "shape": [2, 3],
                "role": "ema",
            },
            {"name": "words", "dtype": "string", "shape": [2], "role": "model"},
        ],
        "parameters": 9,
    }


def test_text_says_how_the_path_was_understood(run, capsys):
    code, out, _ = slimtune(capsys, run)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{run / 'm.ckpt-7'}: V2 checkpoint, 6 variables, 9 parameters"
    assert lines[1] == f"Resolved: {run / 'checkpoint'} names m.ckpt-7"
    assert lines[2] == f"Graph: {run / 'm.ckpt-7.meta'}"
    assert lines[4].split() == ["NAME", "DTYPE", "SHAPE", "ROLE"]
    assert lines[5].split() == ["global_step", "int64", "scalar", "step"]
    assert lines[7].split() == ["net/weights", "float32", "2", "x", "3", "model"]
    assert len(lines) == 11


def test_filter_and_stats(run, capsys):
    code, result = slimtune_json(capsys, run, "--stats", "--filter", "bias$|^words")
    assert code == 0
    assert result["parameters"] == 3
    bias, words = result["variables"]
    assert words == {"name": "words", "dtype": "string", "shape": [2], "role": "model"}
    assert bias == {
        "name": "net/bias",
        "dtype": "float32",
        "shape": [3],
        "role": "model",
        "min": 1.0,
        "max": 3.0,
        "mean": 2.0,
        "std": 1.0,
        "nan_count": 1,
        "infinite_count": 0,
    }
    code, out, _ = slimtune(capsys, run, "--stats", "--filter", "weights$")
    assert out.splitlines()[-3].split() == [
        "net/weights", "float32", "2", "x", "3", "model", "0", "5", "2.5", "1.70783", "0", "0",
    ]  # fmt: skip


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(run, capsys):
    data = run / "m.ckpt-7.data-00000-of-00001"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    assert slimtune(capsys, run)[0] == 0

    code, result = slimtune_json(capsys, run, "--stats")
    assert code == 1
    (problem,) = result["problems"]
    assert problem["name"] == "global_step"
    assert "checksum does not match" in problem["problem"]
    assert result["variables"][1]["max"] == 3.0

    code, out, _ = slimtune(capsys, run, "--stats")
    assert code == 1
    assert "Not readable:" in out
    assert f"{data}: variable global_step (bytes 0 to 8) cannot be read" in out


def test_a_graph_names_the_checkpoint_beside_it(run, capsys):
    path = run / "m.ckpt-7.meta"
    code, result = slimtune_json(capsys, path)
    assert code == 0
    assert (result["kind"], result["path"], result["files"]) == (
        "meta-graph",
        str(path),
        [str(path)],
    )
    assert result["checkpoint"] == str(run / "m.ckpt-7")
    assert len(result["variables"]) == 6

    alone = run / "alone.meta"
    alone.write_bytes(b"\x0a\x00")
    code, result = slimtune_json(capsys, alone)
    assert code == 0
    assert (result["kind"], result["checkpoint"]) == ("meta-graph", None)


def test_other_files_are_named(run, capsys):
    path = run / "model.tar.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00")
    assert slimtune_json(capsys, path) == (
        0,
        {"kind": "other", "path": str(path), "files": [str(path)], "received": "a gzip archive"},
    )
    code, out, _ = slimtune(capsys, path)
    assert code == 0
    assert out.splitlines() == [
        f"{path}: a gzip archive",
        "Next: Unpack it and name the checkpoint inside.",
    ]


BATCH_NORM = {
    f"net/{scope}/BatchNorm/moving_{kind}": np.full(4, value, np.float32)
    for scope, initial in (("a", True), ("b", True), ("c", False))
    for kind, value in (("mean", 0 if initial else 0.5), ("variance", 1))
}


def test_batch_norm_averages_that_never_moved_are_told(tmp_path, capsys):
    """A net that was trained without running its update ops."""
    checkpoints.write(tmp_path / "m.ckpt", BATCH_NORM)
    code, result = slimtune_json(capsys, tmp_path / "m.ckpt", "--stats")
    (note,) = result["notes"]
    assert code == 0
    assert note.startswith(
        "The averages of 2 of 3 batch norms are still at their initial values (mean 0, variance 1)"
    )
    assert note.splitlines()[1:] == ["  net/a/BatchNorm", "  net/b/BatchNorm"]
    code, out, _ = slimtune(capsys, tmp_path / "m.ckpt", "--stats")
    assert code == 0 and note in out

    trained = {name: value + np.float32(0.1) for name, value in BATCH_NORM.items()}
    checkpoints.write(tmp_path / "trained.ckpt", trained)
    assert "notes" not in slimtune_json(capsys, tmp_path / "trained.ckpt", "--stats")[1]
    assert "notes" not in slimtune_json(capsys, tmp_path / "m.ckpt")[1]


@pytest.mark.parametrize(
    ("name", "kind", "title"),
    [("m.npz", "npz", "numpy arrays"), ("m.safetensors", "safetensors", "safetensors file")],
)
def test_files_of_arrays(tmp_path, capsys, name, kind, title):
    values = {"net/w": np.ones((2, 3), np.float32), "global_step": np.array(7)}
    checkpoints.write(tmp_path / name, values, metadata={"step": "7"})
    code, result = slimtune_json(capsys, tmp_path / name, "--stats")
    assert code == 0
    assert (result["kind"], result["files"]) == (kind, [str(tmp_path / name)])
    assert result["metadata"] == {"step": "7"}
    assert {v["name"]: (v["role"], v["max"]) for v in result["variables"]} == {
        "net/w": ("model", 1.0),
        "global_step": ("step", 7),
    }
    code, out, _ = slimtune(capsys, tmp_path / name)
    assert out.splitlines()[:2] == [
        f"{tmp_path / name}: {title}, 2 variables, 6 parameters",
        "step: 7",
    ]

    checkpoints.write(tmp_path / name, values, metadata={"long": "x" * 5000}, overwrite=True)
    code, out, _ = slimtune(capsys, tmp_path / name)
    assert out.splitlines()[1] == f"long: {'x' * 97}..."


def test_errors_are_messages(run, capsys):
    code, result = slimtune_json(capsys, run / "nothing")
    assert code == 1
    assert result["error"]["type"] == "NotFoundError"
    assert f"There is no checkpoint {run / 'nothing'}" in result["error"]["message"]

    code, result = slimtune_json(capsys, run, "--filter", "(")
    assert code == 2
    assert "--filter is no regular expression" in result["error"]["message"]

    code, _, err = slimtune(capsys)
    assert code == 2
    assert "Missing argument 'PATH'" in err


def test_real_checkpoints_in_both_versions(shared, capsys):
    models = shared / "data" / "models"
    for path, kind, count, parameters in (
        ("lenet_300_100_v1", "checkpoint-v1", 6, 266_610),
        ("half_plus_two_v1_sharded", "checkpoint-v1", 2, 2),
        ("mnist_mlp", "checkpoint-v2", 7, 104_938),
        ("half_plus_two_saved_model/variables", "checkpoint-v2", 5, 5),
    ):
        code, result = slimtune_json(capsys, models / path)
        assert code == 0
        assert result["kind"] == kind
        assert len(result["variables"]) == count
        assert result["parameters"] == parameters


def test_json_takes_nothing_that_is_not_needed(run):
    """The whole of a large checkpoint is listed in a fraction of a second."""
    code = (
        "import sys, scripts.main as m\n"
        f"try: m.main(['inspect', {str(run)!r}, '--json'])\n"
        "except SystemExit: pass\n"
        "heavy = {'tensorflow', 'rich', 'ml_dtypes', 'cramjam', 'requests', 'matplotlib', 'PIL'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_filter_says_of_how_many(run, capsys):
    code, out, _ = slimtune(capsys, run / "m.ckpt-7", "--filter", "Adam")
    assert code == 0 and "--filter 'Adam' shows 1 of 6 variables." in out
    code, result = slimtune_json(capsys, run / "m.ckpt-7", "--filter", "net/weihgts")
    assert (code, result["variables"], result["parameters"]) == (0, [], 0)
    (note,) = result["notes"]
    assert note.startswith(
        "--filter 'net/weihgts' shows 0 of 6 variables. Did you mean net/weights, "
    )


def test_figures_of_any_numbers_are_json(tmp_path, capsys):
    values = {
        "c": np.array([3 + 4j]),
        "far": np.array([1e300, 5e-324]),
        "none": np.array([np.nan, np.inf]),
    }
    checkpoints.write(tmp_path / "m", values)
    code, out, err = slimtune(capsys, tmp_path / "m", "--stats", "--json")
    assert code == 0 and not err

    def refuse(name):
        raise AssertionError(name)

    result = json.loads(out, parse_constant=refuse)
    assert [entry["max"] for entry in result["variables"]] == [5.0, 1e300, None]
    assert [entry["nan_count"] for entry in result["variables"]] == [0, 0, 1]
    assert result["notes"] == ["Figures of complex variables are those of their magnitudes: c"]


def test_arrays_of_objects_hide_nothing(tmp_path, capsys):
    np.savez(tmp_path / "x.npz", a=np.ones(2), b=np.array([{}], object))
    code, result = slimtune_json(capsys, tmp_path / "x.npz")
    assert code == 0 and [entry["name"] for entry in result["variables"]] == ["a"]
    (note,) = result["notes"]
    assert "variable b cannot be read: it holds pickled Python objects" in note
