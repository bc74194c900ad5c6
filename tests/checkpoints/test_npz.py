"""npz files: numpy reads what we write, we read what numpy writes."""

from __future__ import annotations

import json
import zipfile

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints.errors import (
    CheckpointError,
    OutputExistsError,
    UnsupportedError,
    UsageError,
)
from checkpoints.selection import Selection, select

PLAIN = {
    "net/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "net/half": np.array([1.5, -2], np.float16),
    "double": np.array(0.1),
    "global_step": np.array(7, np.int64),
    "flag": np.array([True, False]),
    "bytes": np.arange(5, dtype=np.uint8),
    "big": np.array([2**64 - 1], np.uint64),
    "complex": np.array([1 + 2j], np.complex64),
    "empty": np.zeros((0, 4), np.int16),
    "花": np.array([1], np.int32),
}
EXTENDED = {
    "bfloat16": np.array([1, -2.5, np.inf]).astype(ml_dtypes.bfloat16),
    "scalar": np.array(3).astype(ml_dtypes.bfloat16),
    "float8": np.arange(5).astype(ml_dtypes.float8_e5m2),
    "int4": np.array([-8, 7]).astype(ml_dtypes.int4),
}
QUANTISED = {"quantised": np.array([(-3,), (4,)], [("qint8", "i1")])}
WORDS = np.array([b"a", b"\0b", b"", "ö".encode()], object).reshape(2, 2)


def test_numpy_reads_what_we_write(tmp_path, same):
    family = checkpoints.write(tmp_path / "x.npz", PLAIN | QUANTISED)
    assert (family.kind, family.files) == ("npz", (tmp_path / "x.npz",))
    with np.load(tmp_path / "x.npz", allow_pickle=False) as read:
        assert sorted(read.files) == sorted(PLAIN | QUANTISED)
        for name, value in (PLAIN | QUANTISED).items():
            assert same(read[name], value)


def test_what_numpy_cannot_name_is_bits_and_a_name(tmp_path, same):
    checkpoints.write(tmp_path / "x.npz", EXTENDED, metadata={"step": "3"})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as read:
        said = json.loads(read["__metadata__"].item())
        assert said == {
            "metadata": {"step": "3"},
            "dtypes": {
                "bfloat16": "bfloat16",
                "float8": "float8_e5m2",
                "int4": "int4",
                "scalar": "bfloat16",
            },
        }
        assert read["bfloat16"].dtype == np.dtype("V2")
        assert same(read["bfloat16"].view(ml_dtypes.bfloat16), EXTENDED["bfloat16"])
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved.metadata == {"step": "3"}
        assert list(saved) == sorted(EXTENDED)
        assert all(same(saved[name], value) for name, value in EXTENDED.items())


def test_strings(tmp_path, same):
    checkpoints.write(tmp_path / "x.npz", {"words": WORDS, "none": np.zeros((2, 0), object)})
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved.variables["words"].dtype_name == "string"
        assert same(saved["words"], WORDS)
        assert saved["none"].shape == (2, 0)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as read:
        assert read["words"].dtype == np.dtype("S2")
        assert read["words"].tolist() == [[b"a", b"\0b"], [b"", "ö".encode()]]


def test_one_long_string_among_many_is_written_in_pieces(tmp_path):
    values = np.array([b"x"] * 9 + [b"y" * 1_000_000], object)
    checkpoints.write(tmp_path / "x.npz", {"words": values})
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved["words"].tolist() == values.tolist()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_we_read_what_numpy_writes(tmp_path, save, same):
    others = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">f4"),
        "text": np.array([["ä", "b"]]),
        "fortran_text": np.asfortranarray(np.array([["a", "b"], ["c", "d"]])),
    }
    with (tmp_path / "x.npz").open("wb") as file:
        save(file, **PLAIN, **QUANTISED, **others)
    with checkpoints.open(tmp_path / "x.npz") as saved:
        for name, value in (PLAIN | QUANTISED).items():
            assert same(saved[name], value)
            assert bytes(saved.bytes_of(name)) == value.tobytes()
        assert same(saved["fortran"], others["fortran"])
        assert bytes(saved.bytes_of("fortran")) == np.arange(6.0).tobytes()
        assert same(saved["big_endian"], np.arange(3, dtype=np.float32))
        assert saved["text"].tolist() == [["ä".encode(), b"b"]]
        assert saved["fortran_text"].tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_values_are_views_of_the_file(tmp_path):
    checkpoints.write(tmp_path / "x.npz", {f"{'n' * size}": np.ones(5) for size in range(1, 70)})
    data = (tmp_path / "x.npz").read_bytes()
    with checkpoints.open(tmp_path / "x.npz") as saved:
        for value in saved.values():
            assert not value.flags.writeable and not value.flags.owndata
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        for info in archive.infolist():
            assert data.find(b"\x93NUMPY", info.header_offset) % 64 == 0


def test_the_same_values_give_the_same_bytes(tmp_path):
    for name in ("x.npz", "y.npz"):
        checkpoints.write(tmp_path / name, PLAIN)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved.metadata == {}


def test_what_does_not_fit_is_named_before_anything_is_written(tmp_path):
    values = {
        "fine": np.ones(1),
        "words": np.array([b"a\0"], object),
        "__metadata__": np.ones(1),
        "a\0b": np.ones(1),
    }
    with pytest.raises(UnsupportedError, match="3 variables cannot be kept in an npz") as caught:
        checkpoints.write(tmp_path / "x.npz", values)
    assert "words: a string ends in a zero byte" in caught.value.message
    assert "'__metadata__'" in caught.value.message and r"'a\x00b'" in caught.value.message
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_kept(tmp_path):
    checkpoints.write(tmp_path / "x.npz", {"a": np.ones(1)})
    with pytest.raises(OutputExistsError, match="already there"):
        checkpoints.write(tmp_path / "x.npz", {"a": np.zeros(1)})
    checkpoints.write(tmp_path / "x.npz", {"a": np.zeros(1)}, overwrite=True)
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved["a"].tolist() == [0]


def test_damage_costs_the_variable_it_is_in(tmp_path):
    checkpoints.write(tmp_path / "x.npz", {"a": np.ones(9), "b": np.zeros(9)})
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(np.ones(9).tobytes())] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert saved["b"].tolist() == [0] * 9
        with pytest.raises(CheckpointError, match="variable a cannot be read: the checksum"):
            saved["a"]
    with checkpoints.open(tmp_path / "x.npz", verify_checksums=False) as saved:
        assert saved["a"].shape == (9,)


def test_objects_are_never_unpickled_and_hide_nothing(tmp_path, heard):
    dates = np.array(["2020-01-01"], "M8[D]")
    np.savez(tmp_path / "x.npz", a=np.ones(1), b=np.array([{}], object), c=dates)
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert list(saved) == ["a"] and saved["a"].tolist() == [1]
        assert list(saved.unreadable) == ["b", "c"]
        with pytest.raises(UnsupportedError, match="variable b cannot be read: it holds pickled"):
            saved["b"]
        with pytest.raises(UnsupportedError, match="variable c cannot be read") as caught:
            saved["c"]
        assert "--exclude REGEX" in caught.value.next_step
        with pytest.raises(UnsupportedError, match="holds what is no variable") as caught:
            select(saved)
        assert "variable b" in caught.value.message and "variable c" in caught.value.message
        assert list(select(saved, Selection(exclude=("^[bc]$",)))) == ["a"]
        assert list(select(saved, Selection(include=("a",)))) == ["a"]
    checkpoints.write(tmp_path / "y.npz", {"a": np.ones(1)})
    found = checkpoints.diff(tmp_path / "x.npz", tmp_path / "y.npz")
    assert [(entry.name, entry.verdict) for entry in found.values] == [
        ("b", "unreadable"),
        ("c", "unreadable"),
    ]
    assert not found.only_in_a and found.num_same == 1
    with pytest.raises(UnsupportedError, match="holds what is no variable"):
        checkpoints.average([tmp_path / "y.npz", tmp_path / "x.npz"], tmp_path / "mean.npz")
    result = checkpoints.verify(tmp_path / "x.npz")
    assert result.is_ok and len(result.notes) == 2
    np.savez(tmp_path / "z.npz", b=np.array([{}], object))
    with pytest.raises(UnsupportedError, match="variable b cannot be read: it holds pickled"):
        checkpoints.open(tmp_path / "z.npz")


def test_an_npz_without_arrays(tmp_path):
    np.savez(tmp_path / "theirs.npz")
    checkpoints.write(tmp_path / "ours.npz", {})
    for name in ("theirs", "ours"):
        with checkpoints.open(tmp_path / f"{name}.npz") as saved:
            assert (saved.family.kind, len(saved)) == ("npz", 0)


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}])
@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_metadata_is_text(tmp_path, metadata, form):
    with pytest.raises(UsageError, match="metadata is text by key"):
        checkpoints.write(tmp_path / f"x.{form}", {"a": np.ones(1)}, metadata=metadata)
    assert not list(tmp_path.iterdir())


def test_bits_without_a_name_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(2, "V2"))
    with pytest.raises(UnsupportedError, match="variable a cannot be read: its dtype"):
        checkpoints.open(tmp_path / "x.npz")


def test_it_is_a_mapping_like_any_other(tmp_path):
    checkpoints.write(tmp_path / "x.npz", PLAIN)
    with checkpoints.open(tmp_path / "x.npz") as saved:
        assert len(saved) == len(PLAIN)
        assert saved.family.step is None
        with pytest.raises(KeyError, match="Did you mean global_step"):
            saved["global_stap"]
