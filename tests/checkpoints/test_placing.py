"""What goes for a checkpoint that is written, what may not, and who comes first."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import (
    CheckpointError,
    NotFoundError,
    OutputExistsError,
    SlimtuneError,
    UsageError,
)
from checkpoints.placing import Place

VALUES = {"a": np.arange(3.0)}
FORMS = {"v1": "m", "v2": "m.ckpt", "npz": "m.npz", "safetensors": "m.safetensors"}


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_graph_without_a_checkpoint_is_not_adopted(tmp_path, version, heard):
    meta = tmp_path / "m.ckpt.meta"
    meta.write_bytes(b"another's")
    with pytest.raises(OutputExistsError) as caught:
        checkpoints.write(tmp_path / "m.ckpt", VALUES, version=version)
    assert caught.value.message == (
        f"{meta} is already there and would count as the graph of {tmp_path / 'm.ckpt'}."
    )
    assert meta.read_bytes() == b"another's"
    checkpoints.write(tmp_path / "m.ckpt", VALUES, version=version, overwrite=True, progress=heard)
    assert not meta.exists()
    assert heard.said == [f"Removed {meta}: it was the graph of what is replaced."]


@pytest.mark.parametrize("old", ["v1", "v2"])
@pytest.mark.parametrize("moment", range(5))
def test_killed_while_the_old_goes_nothing_is_mixed(tmp_path, killed_at, old, moment):
    """After a kill there is no old graph beside a new checkpoint, also when it is done again."""

    prefix = tmp_path / "m.ckpt"
    checkpoints.write(prefix, {"old": np.ones(1)}, version=old)
    (tmp_path / "m.ckpt.meta").write_bytes(b"old graph")
    with killed_at(moment, (Path, "unlink"), (Path, "replace")):
        checkpoints.write(prefix, VALUES, overwrite=True)
    has_graph = (tmp_path / "m.ckpt.meta").exists()
    with suppress(CheckpointError, NotFoundError), checkpoints.open(prefix) as saved:
        assert list(saved) == (["old"] if has_graph else ["a"])
    checkpoints.write(prefix, VALUES, overwrite=True)
    assert names(tmp_path) == ["m.ckpt.data-00000-of-00001", "m.ckpt.index"]


@pytest.mark.parametrize("version", FORMS)
def test_no_directory_pipe_or_device_is_replaced(tmp_path, version):
    path = tmp_path / FORMS[version]
    path.mkdir()
    with pytest.raises(OutputExistsError, match="is a directory and is not replaced"):
        checkpoints.write(path, VALUES, version=version, overwrite=True)
    path.rmdir()
    place = path if version != "v2" else tmp_path / "m.ckpt.index"
    os.mkfifo(place)
    with pytest.raises(OutputExistsError, match="is a pipe and is not replaced"):
        checkpoints.write(path, VALUES, version=version, overwrite=True)
    assert names(tmp_path) == [place.name] and place.is_fifo()


@pytest.mark.parametrize("version", FORMS)
def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path, version):
    path = tmp_path / FORMS[version]
    place = path if version != "v2" else tmp_path / "m.ckpt.index"
    place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExistsError, match="is already there"):
        checkpoints.write(path, VALUES, version=version)
    checkpoints.write(path, VALUES, version=version, overwrite=True)
    assert not place.is_symlink() and not (tmp_path / "nowhere").exists()
    with checkpoints.open(path) as saved:
        assert saved["a"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("version", FORMS)
def test_of_several_at_once_one_is_first(tmp_path, version):
    path = tmp_path / FORMS[version]

    def write(number):
        try:
            checkpoints.write(path, {"a": np.full(4, number)}, version=version)
        except OutputExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        (won,) = [number for number in pool.map(write, range(8)) if number is not None]
    with checkpoints.open(path) as saved:
        assert saved["a"].tolist() == [won] * 4
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("version", FORMS)
def test_of_several_that_overwrite_all_succeed(tmp_path, version):
    path = tmp_path / FORMS[version]

    def write(number):
        family = checkpoints.write(path, {"a": np.full(4, number)}, version=version, overwrite=True)
        return family.num_bytes

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(write, range(8)))) == 8
    with checkpoints.open(path) as saved:
        assert len(set(saved["a"].tolist())) == 1


@pytest.mark.parametrize("version", FORMS)
def test_a_reader_meets_one_or_the_other_while_they_are_replaced(tmp_path, version):
    path = tmp_path / FORMS[version]
    checkpoints.write(path, {"a": np.zeros(4)}, version=version)
    seen, refused = set(), []

    def read():
        try:
            with checkpoints.open(path) as saved:
                seen.add(tuple(saved["a"].tolist()))
            assert checkpoints.verify(path).num_bytes >= 0
            checkpoints.latest(tmp_path)
        except SlimtuneError as error:  # a V2 checkpoint is several files
            refused.append(error)

    def write():
        for number in range(60):
            checkpoints.write(path, {"a": np.full(4, number)}, version=version, overwrite=True)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        while not written.done():
            read()
    written.result()
    read()
    assert (59.0,) * 4 in seen
    assert seen <= {(float(number),) * 4 for number in range(60)}
    assert not refused or version == "v2"


def test_a_place_needs_a_name():
    with pytest.raises(UsageError, match="needs a name"):
        Place("", "v2", overwrite=False)
