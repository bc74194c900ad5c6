"""TensorFlow as the other side: what it writes we read, what we write it reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


@pytest.fixture(scope="session")
def new_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes one directory a call, also within one test: hypothesis runs a test many times."""
    base = tmp_path_factory.mktemp("checkpoints")
    numbers = itertools.count()

    def make() -> Path:
        path = base / str(next(numbers))
        path.mkdir()
        return path

    return make


class OtherSide:
    """TensorFlow's own kernels, run one by one, without a graph or a Saver."""

    def __init__(self, tensorflow: Any) -> None:
        self.tf = tensorflow

    def tensor(self, value: Any) -> Any:
        """A TensorFlow tensor of an array; structured dtypes are the quantised ones."""
        array = np.asarray(value)
        if array.dtype.names is None:
            return self.tf.constant(array)
        (name,) = array.dtype.names
        return self.tf.raw_ops.Bitcast(
            input=self.tf.constant(array[name]), type=getattr(self.tf, name)
        )

    def save_v2(
        self, prefix: Path, values: Mapping[str, Any], slices: Mapping[str, str] | None = None
    ) -> None:
        names = list(values)
        self.tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[(slices or {}).get(name, "") for name in names],
            tensors=[self.tensor(values[name]) for name in names],
        )

    def save_v2_pieces(self, prefix: Path, pieces: list[tuple[str, str, Any]]) -> None:
        """Saves pieces of variables; each is a name, a "shape slice" specification and a value."""
        self.tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=[name for name, _, _ in pieces],
            shape_and_slices=[specification for _, specification, _ in pieces],
            tensors=[self.tensor(value) for _, _, value in pieces],
        )

    def merge_v2(self, prefixes: list[Path], destination: Path) -> None:
        self.tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[str(prefix) for prefix in prefixes],
            destination_prefix=str(destination),
            delete_old_dirs=False,
        )

    def save_v1_pieces(self, path: Path, pieces: list[tuple[str, str, Any]]) -> None:
        self.tf.raw_ops.SaveSlices(
            filename=str(path),
            tensor_names=[name for name, _, _ in pieces],
            shapes_and_slices=[specification for _, specification, _ in pieces],
            data=[self.tensor(value) for _, _, value in pieces],
        )

    def save_v1(self, path: Path, values: Mapping[str, Any]) -> None:
        self.save_v1_pieces(path, [(name, "", value) for name, value in values.items()])

    def restore_v2(self, prefix: Path, name: str, dtype: str) -> Any:
        (tensor,) = self.tf.raw_ops.RestoreV2(
            prefix=str(prefix),
            tensor_names=[name],
            shape_and_slices=[""],
            dtypes=[self.tf.as_dtype(dtype)],
        )
        return self.array(tensor)

    def restore_v1(self, path: Path, name: str, dtype: str) -> Any:
        return self.array(
            self.tf.raw_ops.Restore(
                file_pattern=str(path), tensor_name=name, dt=self.tf.as_dtype(dtype)
            )
        )

    def array(self, tensor: Any) -> Any:
        if tensor.dtype == self.tf.string:
            return np.asarray(tensor.numpy(), object)
        if not tensor.dtype.is_quantized:
            return np.asarray(tensor.numpy())
        stored = tensor.dtype.as_numpy_dtype
        plain = self.tf.as_dtype(np.dtype(stored)[0])
        return self.tf.raw_ops.Bitcast(input=tensor, type=plain).numpy().view(stored)


@pytest.fixture(scope="session")
def other_side(tensorflow: Any) -> OtherSide:
    return OtherSide(tensorflow)


@pytest.fixture(scope="session")
def same() -> Callable[[Any, Any], bool]:
    """Whether two arrays agree in dtype, shape and every bit (NaNs too)."""

    def compare(first: Any, second: Any) -> bool:
        first, second = np.asarray(first), np.asarray(second)
        if first.dtype != second.dtype or first.shape != second.shape:
            return False
        if first.dtype == object:
            return first.reshape(-1).tolist() == second.reshape(-1).tolist()
        return first.tobytes() == second.tobytes()

    return compare
