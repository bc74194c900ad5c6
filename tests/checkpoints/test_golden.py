"""Checkpoints that TensorFlow wrote, kept so that the half without TensorFlow tests them too."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import checkpoints

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "checkpoints"

PLAIN = {
    "bool": np.array([True, False, True]),
    "complex64": np.array([1 + 2j, -3j], np.complex64),
    "empty": np.zeros((2, 0, 3), np.float32),
    "float16": np.array([1.5, -2.0], np.float16),
    "float32": np.arange(12, dtype=np.float32).reshape(3, 4),
    "float64": np.array([np.pi, -np.inf]),
    "int32": np.array([-1, 2**31 - 1], np.int32),
    "int64": np.array(-(2**62)),
    "int8": np.array([-128, 127], np.int8),
    "string": np.array([[b"a\0b", b""], [b"\xff", b"x" * 300]], object),
    "uint8": np.array([0, 255], np.uint8),
}
V2_ONLY = {
    "bfloat16": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "float8_e5m2": np.array([1.5, -2.0], ml_dtypes.float8_e5m2),
    "uint64": np.array([2**64 - 1], np.uint64),
}
PARTITIONED = {
    "rows": np.arange(14, dtype=np.float32).reshape(7, 2),
    "whole_0": np.array(0, np.float32),
    "whole_1": np.array(1, np.float32),
    "whole_2": np.array(2, np.float32),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain_v1", PLAIN),
        ("plain_v2", PLAIN | V2_ONLY),
        ("partitioned_v1", PARTITIONED),
        ("partitioned_v2", PARTITIONED),
    ],
)
def test_every_value_is_there(name, expected, same):
    with checkpoints.open(FOLDER / name) as saved:
        assert sorted(saved) == sorted(expected)
        for variable, value in expected.items():
            assert same(saved[variable], value), variable


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_we_write_the_same_bytes(tmp_path, version):
    values = PLAIN | V2_ONLY if version == "v2" else PLAIN
    written = checkpoints.write(tmp_path / "m", values, version=version)
    theirs = checkpoints.resolve(FOLDER / f"plain_{version}")
    assert [file.read_bytes() for file in written.files] == [
        file.read_bytes() for file in theirs.files
    ]


def test_shards_are_found(same):
    v1, v2 = (checkpoints.resolve(FOLDER / f"partitioned_{version}") for version in ("v1", "v2"))
    assert [file.name for file in v1.files] == [
        f"partitioned_v1-0000{number}-of-00003" for number in range(3)
    ]
    assert [file.name for file in v2.files] == [
        "partitioned_v2.index",
        *(f"partitioned_v2.data-0000{number}-of-00003" for number in range(3)),
    ]
