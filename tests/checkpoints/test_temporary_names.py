"""Hidden names say whose they are; what a killed process left goes with the next write."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import CheckpointError
from checkpoints.temporary_names import PARTIAL, leftovers, temporary_name, without_temporary_names

HOST = temporary_name("x")[3:7]


@pytest.fixture
def dead():
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def of_process(name, process, host=HOST):
    return f".{name}.{host}{process:06x}abcdef.partial"


def test_a_name_holds_the_process():
    match = PARTIAL.fullmatch(temporary_name("a.b c"))
    assert match["name"] == "a.b c" and int(match["process"], 16) == os.getpid()
    assert temporary_name("x") != temporary_name("x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{x.npz}: no", "x.npz: no"),
        ("/a/{x.npz}/x.npz: no", "/a/x.npz: no"),
        ("/a/{m.ckpt}/m.ckpt.index: no", "/a/m.ckpt.index: no"),
        ("/a/{m}/m-00000-of-00002", "/a/m-00000-of-00002"),
        ("/a/{out}/output", "/a/out/output"),
        ("/a/{out}/saved_model.pb", "/a/out/saved_model.pb"),
        ("/a/.x.partial", "/a/.x.partial"),
        ("It failed. Look at {x.npz}: no", "It failed. Look at x.npz: no"),
    ],
)
def test_messages_name_what_a_person_knows(text, shown):
    name = text[text.find("{") + 1 : text.find("}")]
    hidden = text.replace("{" + name + "}", temporary_name(name))
    assert without_temporary_names(hidden) == shown
    assert CheckpointError(hidden, received=hidden).received == shown


@pytest.mark.parametrize("part", [".", "a."])
def test_names_of_very_many_full_stops_are_told_as_they_are(part):
    name = part * 1_000_000
    assert CheckpointError(name).message == name


def test_what_dead_processes_left_goes_with_the_next_write(tmp_path, dead):
    kept = [
        of_process("m.ckpt", os.getpid()),
        of_process("m.ckpt", dead, f"{int(HOST, 16) ^ 1:04x}"),
        of_process("other.ckpt", dead),
        ".m.ckpt.mine.partial",
    ]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / of_process("m.ckpt", dead)).mkdir()
    (tmp_path / of_process("m.ckpt", dead) / "m.ckpt.index").write_bytes(b"")
    assert leftovers(tmp_path / "m.ckpt") == [tmp_path / of_process("m.ckpt", dead)]
    family = checkpoints.write(tmp_path / "m.ckpt", {"a": np.ones(1)})
    assert set(tmp_path.iterdir()) == {*(tmp_path / name for name in kept), *family.files}


def test_a_write_that_was_killed_half_way_is_completed(tmp_path, dead):
    """The .data file and the graph were moved to their place, the index was not yet."""
    for name in ("m.ckpt.data-00000-of-00001", "m.ckpt.meta"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / of_process("m.ckpt", dead)).mkdir()
    checkpoints.write(tmp_path / "m.ckpt", {"a": np.ones(1)})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m.ckpt.data-00000-of-00001",
        "m.ckpt.index",
    ]
