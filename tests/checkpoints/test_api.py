"""What opening and writing say of arguments that make no sense, in every form the same."""

from __future__ import annotations

import os

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import (
    CheckpointError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from checkpoints.tensors import MAX_RANK

FORMS = {"v1": "m", "v2": "m.ckpt", "npz": "m.npz", "safetensors": "m.safetensors"}


@pytest.fixture(params=FORMS)
def write(request, tmp_path):
    """Writes; what fails leaves nothing."""

    def write(values):
        return checkpoints.write(tmp_path / FORMS[request.param], values, version=request.param)

    yield write
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", [3, None, b"bytes", "", "\0a", "a\udc80b", ("a",)])
def test_a_name_is_text_that_can_be_encoded(write, name, tmp_path):
    for values in ({name: np.ones(1), "b": np.ones(1)}, [("b", np.ones(1)), (name, np.ones(1))]):
        with pytest.raises(CheckpointError, match="cannot be written under the name") as caught:
            write(values)
        assert caught.value.received == repr(name)
    assert not list(tmp_path.iterdir())


def test_rows_of_different_lengths_are_no_array(write, tmp_path):
    with pytest.raises(UnsupportedError, match="Variable a cannot be written: it is no array"):
        write({"a": [[1], [1, 2]]})
    assert not list(tmp_path.iterdir())


def test_what_is_written_can_be_read_up_to_the_most_dimensions(write, tmp_path):
    path = write({"a": np.ones([1] * MAX_RANK, np.float32)}).prefix
    with checkpoints.open(path) as saved:
        assert saved["a"].shape == (1,) * MAX_RANK
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(UnsupportedError, match="it has too many dimensions") as caught:
        write({"a": np.ones([1] * (MAX_RANK + 1), np.float32)})
    assert caught.value.received == "33 dimensions"
    assert not list(tmp_path.iterdir())


def test_asking_for_what_is_no_name(write):
    with checkpoints.open(write({"a": np.ones(1)}).prefix) as saved:
        for name in (3, None, ("a",)):
            with pytest.raises(NotFoundError, match="has no variable"):
                saved[name]
            # As of any mapping.
            assert saved.get(name) is None and name not in saved


@pytest.mark.parametrize("path", ["", None, 3, b"x"])
def test_a_path_is_said(path):
    with pytest.raises(UsageError, match="named by a path, and this is none") as caught:
        checkpoints.open(path)
    assert caught.value.received == repr(path)
    with pytest.raises(UsageError):
        checkpoints.verify(path)


def test_a_pipe_or_device_is_named_and_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("zero", "a device")):
        with pytest.raises(UnsupportedError, match=f"is {kind} and cannot be read") as caught:
            checkpoints.open(tmp_path / name)
        assert caught.value.received == kind and caught.value.next_step
