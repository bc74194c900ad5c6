"""safetensors files: the format's own library reads what we write, we read what it writes."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import checkpoints
from checkpoints.errors import CheckpointError, UnsupportedError, UsageError

VALUES = {
    "net/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "double": np.array(0.1),
    "half": np.array([1.5], np.float16),
    "bfloat16": np.array([1, -2.5]).astype(ml_dtypes.bfloat16),
    "float8_e5m2": np.arange(5).astype(ml_dtypes.float8_e5m2),
    "float8_e4m3fn": np.arange(5).astype(ml_dtypes.float8_e4m3fn),
    "global_step": np.array(7, np.int64),
    "flag": np.array([True, False]),
    "empty": np.zeros((0, 4), np.int32),
    '花\x7f"\\': np.array([1], np.uint64),
    **{name: np.arange(3, dtype=name) for name in ("int8", "uint8", "int16", "uint16", "uint32")},
}
# safetensors.numpy gives back what numpy itself has a dtype for.
ITS_OWN = {name: value for name, value in VALUES.items() if not name.startswith("float8")}


def test_the_bytes_are_those_of_its_library(tmp_path):
    checkpoints.write(tmp_path / "x.safetensors", VALUES, metadata={"step": "7"})
    safetensors.numpy.save_file(VALUES, tmp_path / "y.safetensors", {"step": "7"})
    ours = (tmp_path / "x.safetensors").read_bytes()
    assert ours == (tmp_path / "y.safetensors").read_bytes()


def test_its_library_reads_what_we_write(tmp_path, same):
    checkpoints.write(tmp_path / "x.safetensors", ITS_OWN)
    read = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert read.keys() == ITS_OWN.keys()
    assert all(same(read[name], value) for name, value in ITS_OWN.items())


def test_we_read_what_its_library_writes(tmp_path, same):
    safetensors.numpy.save_file(VALUES, tmp_path / "x.safetensors", {"a": "b", "step": "7"})
    with checkpoints.open(tmp_path / "x.safetensors") as saved:
        assert saved.metadata == {"a": "b", "step": "7"}
        assert saved.keys() == VALUES.keys()
        for name, value in VALUES.items():
            assert same(saved[name], value)
            assert bytes(saved.bytes_of(name)) == value.tobytes()


def test_the_values_of_a_file_cut_later_are_not_looked_at_when_it_is_opened(tmp_path):
    path = tmp_path / "x.safetensors"
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**28], "data_offsets": [0, 2**30]}})
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + 2**30)
    with checkpoints.open(path) as saved:
        assert saved.variables["a"].shape == (2**28,)


def test_what_does_not_fit_is_named_before_anything_is_written(tmp_path):
    values = {
        "fine": np.ones(1),
        "words": np.array([b"a"], object),
        "complex": np.ones(1, np.complex64),
        "wide": np.ones(1, np.complex128),
        "__metadata__": np.ones(1),
    }
    with pytest.raises(UnsupportedError, match="4 variables cannot be kept") as caught:
        checkpoints.write(tmp_path / "x.safetensors", values)
    for line in ("words: string", "complex: complex64", "wide: complex128", "__metadata__: the"):
        assert line in caught.value.message
    assert "--exclude" in caught.value.next_step
    assert not list(tmp_path.iterdir())


def test_a_dtype_that_tensorflow_lacks_is_named(tmp_path):
    header = json.dumps({"a": {"dtype": "F8_E8M0", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(UnsupportedError, match="variable a: TensorFlow has no dtype for F8_E8M0"):
        checkpoints.open(path)


def test_a_cut_file_is_named(tmp_path):
    path = tmp_path / "x.safetensors"
    checkpoints.write(path, VALUES)
    data = path.read_bytes()
    for size in (20, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match="the header cannot be read"):
            checkpoints.open(path)


def test_forms_without_slices_or_metadata_say_so(tmp_path):
    with pytest.raises(UsageError, match="safetensors has no slices"):
        checkpoints.write(
            tmp_path / "x.safetensors", {"a": np.ones(4)}, slicing=checkpoints.Slicing(2)
        )
    with pytest.raises(UsageError, match="a V2 checkpoint has no place for metadata"):
        checkpoints.write(tmp_path / "x.ckpt", {"a": np.ones(4)}, metadata={"step": "1"})
    with pytest.raises(UsageError, match="no such version"):
        checkpoints.write(tmp_path / "x.ckpt", {"a": np.ones(4)}, version="v3")
    assert not list(tmp_path.iterdir())
