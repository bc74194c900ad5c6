"""Whole and damaged checkpoints: what verify finds, and that the rest can still be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from checkpoints.bundle_writer import write_bundle
from checkpoints.errors import CheckpointError, NotFoundError, UnsupportedError
from checkpoints.slicing import Slicing

VALUES = {f"w{number}": np.full((3, 4), number, np.float32) for number in range(5)}
WORDS = {"words": np.array([b"a" * 100], object)}
GOLDEN = Path(__file__).parent.parent / "golden" / "checkpoints"
FORMS = {"v1": "m", "v2": "m.ckpt", "npz": "m.npz", "safetensors": "m.safetensors"}


@pytest.fixture
def prefix(tmp_path):
    return checkpoints.write(tmp_path / "m.ckpt", VALUES | WORDS).prefix


def data_of(prefix):
    return prefix.with_name(f"{prefix.name}.data-00000-of-00001")


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("form", FORMS)
def test_whole(tmp_path, form):
    checkpoints.write(tmp_path / FORMS[form], VALUES, version=form)
    result = checkpoints.verify(tmp_path / FORMS[form])
    assert result.is_ok and result.num_variables == 5
    assert result.num_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert json.loads(json.dumps(result.as_json()))["ok"] is True
    assert len(result.notes) == (form == "safetensors")


def test_whole_in_slices_and_strings(tmp_path):
    values = VALUES | WORDS | {"empty": np.zeros((0, 3)), "scalar": np.array(1)}
    for version in ("v1", "v2"):
        checkpoints.write(tmp_path / version, values, version=version, slicing=Slicing(2, 0))
        assert checkpoints.verify(tmp_path / version).is_ok


def test_a_missing_data_file(prefix):
    data_of(prefix).unlink()
    result = checkpoints.verify(prefix)
    assert result.as_json()["ok"] is False
    assert [problem.name for problem in result.problems] == [*VALUES, "words"]
    assert {problem.kind for problem in result.problems} == {"missing-file"}
    assert result.problems[0].path == str(data_of(prefix))
    assert result.problems[0].detail == "m.ckpt.data-00000-of-00001 is not there."


def test_a_data_file_cut_to_20_bytes(prefix):
    data_of(prefix).write_bytes(data_of(prefix).read_bytes()[:20])
    result = checkpoints.verify(prefix)
    assert result.problems[0].kind == "cut-file"
    assert result.problems[0].name == "w0"
    assert result.problems[0].detail == "bytes 0 to 48 of a file that has 20 bytes."
    assert len(result.problems) == 6


def test_a_data_file_cut_later_leaves_what_stands_before(prefix):
    data_of(prefix).write_bytes(data_of(prefix).read_bytes()[:100])
    result = checkpoints.verify(prefix)
    assert [problem.name for problem in result.problems] == ["w2", "w3", "w4", "words"]
    with checkpoints.open(prefix) as saved:
        assert saved["w1"].tolist() == VALUES["w1"].tolist()
        with pytest.raises(CheckpointError, match="variable w2"):
            saved["w2"]


@pytest.mark.parametrize(("place", "name"), [(10, "w0"), (50, "w1"), (-1, "words")])
def test_a_byte_flipped(prefix, place, name):
    flip(data_of(prefix), place)
    result = checkpoints.verify(prefix)
    (problem,) = result.problems
    assert (problem.kind, problem.name, problem.path) == ("checksum", name, str(data_of(prefix)))
    with checkpoints.open(prefix) as saved:
        for other in saved:
            assert other == name or saved[other] is not None


def test_an_index_cut(prefix):
    index = prefix.with_name("m.ckpt.index")
    index.write_bytes(index.read_bytes()[:-10])
    result = checkpoints.verify(prefix)
    (problem,) = result.problems
    assert (problem.kind, problem.name, problem.path) == ("index", None, str(index))
    assert (result.kind, result.num_variables) == ("checkpoint-v2", 0)


def test_an_index_missing(prefix):
    prefix.with_name("m.ckpt.index").unlink()
    for spelling in (prefix, data_of(prefix)):
        result = checkpoints.verify(spelling)
        (problem,) = result.problems
        assert (result.kind, problem.kind) == ("checkpoint-v2", "missing-file")
        assert "the index is missing" in problem.detail


def test_a_shard_missing(tmp_path):
    for path in GOLDEN.glob("partitioned_v2*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert checkpoints.verify(tmp_path / "partitioned_v2").is_ok
    shard = tmp_path / "partitioned_v2.data-00001-of-00003"
    shard.unlink()
    result = checkpoints.verify(tmp_path / "partitioned_v2")
    assert {problem.path for problem in result.problems} == {str(shard)}
    assert [problem.name for problem in result.problems] == ["rows", "whole_1"]


def test_a_data_file_without_variables_is_missing_too(tmp_path):
    from checkpoints.messages import BundleHeaderProto
    from checkpoints.table import TableWriter

    header = BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    with (tmp_path / "m.index").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [header.SerializeToString()])
        table.finish()
    (problem,) = checkpoints.verify(tmp_path / "m").problems
    assert (problem.kind, problem.name) == ("missing-file", None)


def test_v1_names_the_variable_whose_values_were_changed(tmp_path):
    values = {name: np.arange(100_000, dtype=np.float32) for name in ("a", "b", "c")}
    checkpoints.write(tmp_path / "m", values, version="v1")
    flip(tmp_path / "m", 600_000)
    result = checkpoints.verify(tmp_path / "m")
    (problem,) = result.problems
    assert (problem.kind, problem.name, problem.path) == ("checksum", "b", str(tmp_path / "m"))
    assert (result.kind, result.num_variables) == ("checkpoint-v1", 3)


def test_v1_cut(tmp_path):
    checkpoints.write(tmp_path / "m", VALUES, version="v1")
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(content[:200])
    (problem,) = checkpoints.verify(tmp_path / "m").problems
    assert (problem.kind, problem.name) == ("index", None)
    assert "sorted string table" in problem.detail


def test_v1_shards_missing(tmp_path):
    checkpoints.write(tmp_path / "m-00000-of-00002", VALUES, version="v1")
    result = checkpoints.verify(tmp_path / "m")
    (problem,) = result.problems
    assert (result.kind, problem.kind) == ("checkpoint-v1", "missing-file")
    assert "not one whole set" in problem.detail


def test_npz_names_the_damaged_member(tmp_path):
    checkpoints.write(tmp_path / "m.npz", VALUES)
    content = (tmp_path / "m.npz").read_bytes()
    flip(tmp_path / "m.npz", content.index(VALUES["w3"].tobytes()))
    (problem,) = checkpoints.verify(tmp_path / "m.npz").problems
    assert (problem.kind, problem.name) == ("checksum", "w3")
    (tmp_path / "m.npz").write_bytes(content[:-30])
    (problem,) = checkpoints.verify(tmp_path / "m.npz").problems
    assert (problem.kind, problem.name) == ("index", None)


def test_a_cut_safetensors_file(tmp_path):
    checkpoints.write(tmp_path / "m.safetensors", VALUES)
    content = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(content[:-1])
    (problem,) = checkpoints.verify(tmp_path / "m.safetensors").problems
    assert (problem.kind, problem.path) == ("index", str(tmp_path / "m.safetensors"))


def test_bytes_that_no_variable_uses_do_no_harm(tmp_path):
    with pytest.raises(NotFoundError):
        checkpoints.verify(tmp_path / "m")
    write_bundle(tmp_path / "m", VALUES.items())
    with data_of(tmp_path / "m").open("ab") as file:
        file.write(b"more")
    assert checkpoints.verify(tmp_path / "m").is_ok


def test_what_is_no_checkpoint(tmp_path):
    (tmp_path / "words").write_text("some words")
    with pytest.raises(UnsupportedError, match="is no checkpoint"):
        checkpoints.verify(tmp_path / "words")


@pytest.mark.parametrize(
    "path",
    [
        "regression_v1_v2/regression_v1.ckpt",
        "regression_v1_v2/regression_v2.ckpt",
        "lenet_300_100_v1",
        "half_plus_two_v1_sharded/export",
        "mnist_mlp/model.ckpt-1999",
        "half_plus_two_saved_model",
    ],
)
def test_real_files_are_whole(shared, path):
    result = checkpoints.verify(shared / "data" / "models" / path)
    assert result.is_ok and result.num_variables > 1
