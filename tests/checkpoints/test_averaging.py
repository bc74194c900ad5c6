"""The mean of several checkpoints."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints import verified
from checkpoints.errors import OutputExistsError, PlanError, UsageError, VerificationError


def values(number, step=None):
    found = {
        "w": np.array([[number, 1.0], [0.1, -number]], np.float32),
        "half": np.array([number], np.float16),
        "bfloat16": np.array([number]).astype(ml_dtypes.bfloat16),
        "double": np.array(number / 3),
        "complex": np.array([1j * number], np.complex64),
        "vocabulary": np.array([b"a", b"b"], object),
        "flag": np.array(True),
    }
    return found if step is None else found | {"global_step": np.array(step, np.int64)}


@pytest.fixture
def sources(tmp_path):
    paths = []
    for number, step in ((1.0, 300), (2.0, 100), (4.5, 200)):
        path = tmp_path / f"m.ckpt-{step}"
        paths.append(checkpoints.write(path, values(number, step)).prefix)
    return paths


def test_floats_are_averaged_and_the_step_is_the_highest(tmp_path, sources, same):
    done = checkpoints.average(sources, tmp_path / "mean.ckpt")
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert saved["w"].tolist() == [[2.5, 1.0], [np.float32(0.1), -2.5]]
        assert same(saved["half"], np.array([2.5], np.float16))
        assert same(saved["bfloat16"], np.array([2.5]).astype(ml_dtypes.bfloat16))
        assert saved["double"] == pytest.approx(2.5 / 3, rel=1e-15)
        assert same(saved["complex"], np.array([2.5j], np.complex64))
        assert same(saved["global_step"], np.array(300, np.int64))
        assert saved["vocabulary"].tolist() == [b"a", b"b"]
        assert saved["flag"] == np.True_
    assert (done.num_averaged, done.step, done.taken, done.notes) == (5, 300, (), ())
    assert done.newest == sources[0]
    result = json.loads(json.dumps(done.as_json(), allow_nan=False))
    assert result["sources"] == [str(path) for path in sources]
    assert (result["averaged"], result["step"], result["form"]) == (5, 300, "v2")


def test_the_sum_is_taken_in_64_bits(tmp_path):
    numbers = [np.float32(1e8), np.float32(1.0), np.float32(-1e8), np.float32(1.0)]
    paths = [
        checkpoints.write(tmp_path / f"{index}", {"w": np.array(number)}).prefix
        for index, number in enumerate(numbers)
    ]
    checkpoints.average(paths, tmp_path / "mean.ckpt")
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert saved["w"] == np.float32(0.5)


def test_the_mean_of_the_same_is_the_same_to_the_last_bit(tmp_path, same):
    rng = np.random.default_rng(0)
    value = rng.standard_normal(1000).astype(np.float32)
    paths = [checkpoints.write(tmp_path / f"{i}", {"w": value}).prefix for i in range(3)]
    checkpoints.average(paths, tmp_path / "mean.ckpt")
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert same(saved["w"], value)


def test_what_has_no_mean_is_the_newest_and_said(tmp_path, heard, same):
    first = values(1.0, 10) | {
        "counts": np.array([1, 2]),
        "vocabulary": np.array([b"x"] * 2, object),
    }
    second = values(3.0, 5) | {"counts": np.array([3, 2])}
    paths = [
        checkpoints.write(tmp_path / "a.ckpt", first).prefix,
        checkpoints.write(tmp_path / "b.npz", second).prefix,
    ]
    done = checkpoints.average(paths, tmp_path / "mean.ckpt", version="v1", progress=heard)
    assert done.taken == ("counts", "vocabulary") and done.newest == paths[0]
    assert heard.said == [
        f"Of variables without a mean 2 differ; they are those of {paths[0]}:\n"
        "  counts\n  vocabulary"
    ]
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert saved.family.kind == "checkpoint-v1"
        assert same(saved["counts"], np.array([1, 2]))
        assert saved["vocabulary"].tolist() == [b"x", b"x"]


def test_without_steps_the_last_named_is_the_newest(tmp_path):
    paths = [
        checkpoints.write(tmp_path / name, {"w": np.ones(1), "n": np.array(index)}).prefix
        for index, name in enumerate(("b", "c", "a"))
    ]
    done = checkpoints.average(paths, tmp_path / "mean.npz")
    assert (done.newest, done.step, done.version) == (paths[-1], None, "npz")
    with checkpoints.open(tmp_path / "mean.npz") as saved:
        assert saved["n"] == 2 and saved.metadata == {}


def test_files_of_arrays_carry_the_step(tmp_path, sources):
    checkpoints.average(sources, tmp_path / "mean.npz")
    with checkpoints.open(tmp_path / "mean.npz") as saved:
        assert saved.metadata == {"step": "300"}


def test_values_that_are_not_finite_stay_so_and_are_counted(tmp_path):
    paths = []
    for index, value in enumerate(([np.nan, 1, np.inf], [1, 1, 1])):
        path = tmp_path / f"{index}"
        paths.append(checkpoints.write(path, {"w": np.array(value, np.float32)}).prefix)
    done = checkpoints.average(paths, tmp_path / "mean.ckpt")
    assert done.not_finite == {"w": 2}
    assert "w: 2" in done.notes[0]


def test_other_variables_are_refused_all_at_once(tmp_path, sources):
    other = values(1.0, 1) | {"new": np.ones(1)}
    other["w"] = np.ones(3, np.float32)
    other["half"] = other["half"].astype(np.float32)
    del other["flag"]
    checkpoints.write(tmp_path / "other.ckpt", other)
    with pytest.raises(PlanError, match="do not hold the same variables") as caught:
        checkpoints.average([sources[0], tmp_path / "other.ckpt"], tmp_path / "mean.ckpt")
    for line in ("flag: not in", "new: not in", "w: float32 [2, 2] and", "half: float16 [1] and"):
        assert line in caught.value.message
    assert not (tmp_path / "mean.ckpt.index").exists()


def test_one_checkpoint_has_no_mean(tmp_path, sources):
    with pytest.raises(UsageError, match="two checkpoints or more"):
        checkpoints.average(sources[:1], tmp_path / "mean.ckpt")


def test_what_is_there_is_kept(tmp_path, sources):
    checkpoints.write(tmp_path / "mean.ckpt", {"old": np.ones(1)})
    with pytest.raises(OutputExistsError):
        checkpoints.average(sources, tmp_path / "mean.ckpt")
    checkpoints.average(sources, tmp_path / "mean.ckpt", overwrite=True)
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert "old" not in saved


def test_the_mean_is_read_again(tmp_path, sources, monkeypatch):
    monkeypatch.setattr(verified, "same_bytes", lambda ours, theirs, pages: False)
    with pytest.raises(VerificationError, match="the mean of 3 checkpoints"):
        checkpoints.average(sources, tmp_path / "mean.ckpt")
    assert not [path for path in tmp_path.iterdir() if "mean" in path.name]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_none_of_its_sources_is_replaced(tmp_path, sources, version):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="is one of the sources"):
        checkpoints.average(sources, sources[1], version=version, overwrite=True)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is one of the sources"):
        checkpoints.average(sources, tmp_path / "link" / sources[0].name, overwrite=True)
    (tmp_path / "link").unlink()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_one_path_is_no_list_of_sources(sources, tmp_path):
    with pytest.raises(UsageError, match="takes two checkpoints") as caught:
        checkpoints.average(str(sources[0]), tmp_path / "mean.ckpt")
    assert caught.value.received == repr(str(sources[0]))


def test_a_sum_beyond_64_bits_has_a_mean(tmp_path):
    largest = np.finfo(np.float64).max
    for name, other in (("a", largest), ("b", np.inf)):
        checkpoints.write(tmp_path / name, {"w": np.array([largest, -largest, other, -0.0])})
    done = checkpoints.average([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    assert done.not_finite == {"w": 1}
    with checkpoints.open(tmp_path / "mean") as saved:
        assert saved["w"].tolist() == [largest, -largest, np.inf, 0.0]
        assert np.signbit(saved["w"][3])


def test_large_variables_are_averaged_in_pieces(tmp_path):
    first = np.arange(600_001, dtype=np.float32)
    paths = [
        checkpoints.write(tmp_path / "a", {"w": first}).prefix,
        checkpoints.write(tmp_path / "b", {"w": -first}, version="v1").prefix,
    ]
    checkpoints.average(paths, tmp_path / "mean.ckpt")
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert not saved["w"].any() and saved["w"].size == 600_001
