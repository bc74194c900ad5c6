"""Full disks, limits, places that may only be read or vanish: told, and nothing is half there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

from checkpoints import errors

PAGE = 4096


def refused(trial, reason, **fault):
    """Runs into a fault: the error is one of ours, names the output and gives the reason.

    Returns:
      False where it got through, and wrote all.
    """
    trial.begin_from_before()
    return refused_here(trial, reason, **fault)


def refused_here(trial, reason, **fault):
    """The same, with what lies there."""
    ended = trial.run("--json", **fault)
    if ended.status == 0:
        return False
    assert ended.status == 1, ended.stderr
    assert ended.stdout, ended.stderr
    error = json.loads(ended.stdout)["error"]
    assert issubclass(getattr(errors, error["type"], OSError), errors.SlimtuneError), error
    assert str(trial.folder) in error["message"] and error["next"], error
    assert reason in error["message"] + (error["received"] or ""), error
    return True


@pytest.mark.parametrize(
    ("number", "reason"),
    [("ENOSPC", "No space left on device"), ("EROFS", "Read-only file system")],
)
def test_nothing_can_be_changed_from_a_moment_on(try_writing, scene, number, reason, over):
    trial = try_writing(scene, over)
    last = len(trial.whole.moments) - 1
    for moment in sorted({0, 1, last // 3, last // 2, max(0, last - 2), last}):
        if not refused(trial, reason, at=moment, fault=number):
            assert trial.found() == trial.new
        trial.judge()
    trial.rerun()


def test_a_limit_on_the_size_of_files(try_writing, scene, over):
    trial = try_writing(scene, over)
    largest = max(map(len, trial.new.values()))
    for part in (0.2, 0.6, 0.99):
        # What it says needs some room as well.
        if not refused(trial, "File too large", limit=max(1500, int(part * largest))):
            assert trial.found() == trial.new
        trial.judge()
    trial.rerun()


def test_the_folder_vanishes(try_writing, scene, over):
    trial = try_writing(scene, over)
    last = len(trial.whole.moments) - 1
    for moment in sorted({0, last // 3, last // 2, last}):
        trial.begin_from_before()
        ended = trial.run("--json", at=moment, fault="remove", removed=trial.folder)
        if ended.status == 0:  # it was made again, or vanished when all was done
            assert trial.found() in ({}, trial.new)
        else:
            assert ended.status == 1
            assert str(trial.folder) in json.loads(ended.stdout)["error"]["message"]
            assert not trial.found()
    trial.begin_from_before()
    trial.rerun()


@pytest.fixture
def mount():
    """Mounts with options, for the time of a test; gives a way to unmount all."""
    if not sys.platform.startswith("linux") or os.getuid() != 0:
        pytest.skip("mounting needs root")
    mounted = []

    def run(path, *options):
        command = ["mount", *options, str(path)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("this system lets nobody mount")
        mounted.append(path)

    def unmount():
        while mounted:
            subprocess.run(["umount", str(mounted.pop())], check=True)

    run.unmount = unmount
    yield run
    unmount()


def test_a_folder_that_may_only_be_read(try_writing, mount, scene, over):
    trial = try_writing(scene, over)
    trial.begin_from_before()
    mount(trial.folder, "--bind", "-o", "ro", str(trial.folder))
    assert refused_here(trial, "")
    trial.judge()
    mount.unmount()
    trial.rerun()


def test_a_full_disk(try_writing, mount, scene, over):
    trial = try_writing(scene, over)
    sizes = [file.stat().st_size for file in trial.before.rglob("*") if file.is_file()]
    old = sum(-(-size // PAGE) for size in sizes)
    new = sum(-(-len(data) // PAGE) for data in trial.new.values())
    refusals = 0
    for part in (0.0, 0.3, 0.6, 0.9):
        trial.remove()
        trial.folder.mkdir()
        # A page is taken by a file without a name: a size of 0 would be no limit.
        room = PAGE * (old + int(part * new) + 1)
        mount(trial.folder, "-t", "tmpfs", "-o", f"size={room}", "tmpfs")
        with tempfile.TemporaryFile(dir=trial.folder, buffering=0) as taken:
            taken.write(bytes(PAGE))
            trial.begin_from_before()
            refusals += refused_here(trial, "No space left on device")
            trial.judge()
        mount.unmount()
    assert refusals
    trial.begin_from_before()
    trial.rerun()
