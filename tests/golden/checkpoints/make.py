"""Writes the checkpoints of this directory with TensorFlow's own kernels.

    python tests/golden/checkpoints/make.py DIRECTORY

The values follow from the names (see tests/checkpoints/test_golden.py), so that nothing but
TensorFlow's bytes is kept here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

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
ROWS = np.arange(14, dtype=np.float32).reshape(7, 2)
PIECES = (("7 2 0,3:-", ROWS[:3]), ("7 2 3,2:-", ROWS[3:5]), ("7 2 5,2:-", ROWS[5:]))


def save_v2(prefix: Path, names: list[str], specifications: list[str], values: list[Any]) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=specifications,
        tensors=[tf.constant(value) for value in values],
    )


def save_v1(path: Path, names: list[str], specifications: list[str], values: list[Any]) -> None:
    tf.raw_ops.SaveSlices(
        filename=str(path),
        tensor_names=names,
        shapes_and_slices=specifications,
        data=[tf.constant(value) for value in values],
    )


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # In the order of the names, as a Saver hands them over.
    v2 = dict(sorted((PLAIN | V2_ONLY).items()))
    save_v2(directory / "plain_v2", list(v2), [""] * len(v2), list(v2.values()))
    save_v1(directory / "plain_v1", list(PLAIN), [""] * len(PLAIN), list(PLAIN.values()))

    shards = []
    for number, (specification, value) in enumerate(PIECES):
        shards.append(directory / f"part-{number}")
        names, specifications = ["rows", f"whole_{number}"], [specification, ""]
        save_v2(shards[-1], names, specifications, [value, np.float32(number)])
        path = directory / f"partitioned_v1-{number:05d}-of-{len(PIECES):05d}"
        save_v1(path, names, specifications, [value, np.float32(number)])
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(shard) for shard in shards],
        destination_prefix=str(directory / "partitioned_v2"),
        delete_old_dirs=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
