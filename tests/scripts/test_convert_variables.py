"""The options of convert that choose, rename, cast and cut variables."""

from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from scripts.main import main

VALUES = {
    "net/w": np.arange(6, dtype=np.float32).reshape(3, 2),
    "net/w/ExponentialMovingAverage": np.ones((3, 2), np.float32),
    "net/w/Momentum": np.zeros((3, 2), np.float32),
    "global_step": np.array(7, np.int64),
}


@pytest.fixture
def source(tmp_path):
    return checkpoints.write(tmp_path / "my model.ckpt", VALUES).prefix


@pytest.fixture
def convert(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["convert", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


def test_everything_at_once(convert, source, tmp_path):
    code, out, err = convert(
        *(source, tmp_path / "out.npz", "--json"),
        *("--drop", "slots, ema", "--drop", "step"),
        *("--include", "^net/", "--include", "w$", "--exclude", "Momentum|Average"),
        *("--rename", "s|^net/|a/|", "--rename", "s,w,weights,"),
        *("--dtype", "float16"),
    )
    result = json.loads(out)
    assert code == 0, err
    assert (result["form"], result["parameters"]) == ("npz", 6)
    assert result["verification"] == {
        "mode": "structure",
        "passed": True,
        "max_abs": 0.0,
        "max_rel": 0.0,
        "top1_agreement": 1.0,
    }
    assert result["notes"] == err.splitlines()
    assert result["notes"][-2:] == [
        "Renamed: 1 of 1 variable.",
        "Cast to float16: 1 float variable, batch-norm averages too;"
        " 0 of other dtypes stay as they are.",
    ]
    with np.load(tmp_path / "out.npz") as arrays:
        assert sorted(arrays.files) == ["__metadata__", "a/weights"]
        np.testing.assert_array_equal(arrays["a/weights"], VALUES["net/w"].astype(np.float16))


def test_forms(convert, source, tmp_path):
    for form, name in (("v1", "old"), ("v2", "new"), ("npz", "a.npz"), ("safetensors", "a.st")):
        code, out, _ = convert(source, tmp_path / name, "--to", form)
        assert code == 0
        assert "Verification  read again, and every bit compared" in out
        assert checkpoints.diff(source, tmp_path / name).is_equal
        assert checkpoints.resolve(tmp_path / name).kind.removeprefix("checkpoint-") == form


def test_weights(convert, source, tmp_path):
    code, _, err = convert(source, tmp_path / "raw.npz")
    assert code == 0 and err.startswith("Weights: raw, as they were trained")
    code, _, err = convert(source, tmp_path / "ema.npz", "--weights", "ema")
    assert code == 0 and err.startswith("Weights: ema, the averages of 1 variable.")
    with np.load(tmp_path / "ema.npz") as arrays:
        assert arrays["net/w"].tolist() == np.ones((3, 2)).tolist()


def test_slices(convert, source, tmp_path):
    code, _, _ = convert(source, tmp_path / "a.ckpt", "--partition", "2")
    assert code == 0
    whole = source.with_name("my model.ckpt.index").read_bytes()
    assert (tmp_path / "a.ckpt.index").read_bytes() == whole
    code, _, _ = convert(source, tmp_path / "b.ckpt", "--partition", "2", "--partition-bytes", "24")
    assert code == 0 and len((tmp_path / "b.ckpt.index").read_bytes()) > len(whole)
    assert checkpoints.diff(source, tmp_path / "b.ckpt").is_equal
    code, _, err = convert(source, tmp_path / "c.ckpt", "--partition-bytes", "24")
    assert code == 2 and "Add --partition N." in err


def test_wrong_usage_is_told_in_json(convert, source, tmp_path):
    for arguments, code, message in (
        (("--rename", "s|a|"), 2, "--rename 's|a|' cannot be used"),
        (("--dtype", "float8"), 2, "--dtype float8: variables do not become that."),
        (("--drop", "slot"), 2, "--drop slot: there is no such part."),
        (("--include", "nett"), 1, "--include 'nett' matches none of 4 variables."),
        (("--rename", "s|.*|x|"), 1, "gives several variables one name"),
    ):
        given, out, _ = convert(source, tmp_path / "x.npz", "--json", *arguments)
        assert given == code
        assert message in json.loads(out)["error"]["message"]
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize(
    ("words", "message", "step"),
    [
        (["x.npz", "--partition", "2"], "x.npz: npz has no slices.", "Leave --partition out"),
        (["x.npz", "--include", "("], "--include '(' is no regular expression", "--include '\\('"),
        (["x.npz", "--rename", "s|a"], "--rename 's|a' cannot be used", "--rename 's|"),
        (["x.npz", "--drop", "foo"], "--drop foo: there is no such part.", "--drop slots,ema,step"),
        (["x.npz", "--dtype", "int8"], "--dtype int8: variables do not become", "--dtype float16"),
    ],
)
def test_what_makes_no_sense_says_what_does(
    convert, source, tmp_path, monkeypatch, words, message, step
):
    monkeypatch.chdir(tmp_path)
    code, out, err = convert(source, *words)
    assert (code, out) == (2, "")
    # What a selection does is said meanwhile.
    *_, error = err.partition("Error: ")
    lines = error.splitlines()
    assert lines[0].startswith(message) and lines[-1].startswith("Next: ")
    assert step in lines[-1] and ".partial" not in err
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize("form", ["v1", "v2", "npz", "safetensors"])
def test_a_link_that_leads_in_a_circle_is_there(convert, source, tmp_path, form):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    code, _, err = convert(source, tmp_path / "loop", "--to", form)
    assert code == (1 if form != "v2" else 0), err
    assert "Traceback" not in err
