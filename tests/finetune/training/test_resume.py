"""A run killed at any moment and resumed equals, bit for bit, the run that was never killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import checkpoints
from finetune.run import Run

pytestmark = pytest.mark.tensorflow

OPTIONS = {
    "net": "tiny",
    "checkpoint": "none",
    "batch_size": 8,
    "steps": 12,
    "learning_rate": 0.01,
    "unfreeze_at": ["6:all"],
    "dropout": 0.4,
    "hidden": [6],
    "ema": 0.9,
    "eval_every": 3,
    "precision": "fp32",
    "seed": 5,
}
"""Slots, averages, dropout, distortion and two phases: all that a run carries along."""

SHORT = {"steps": 4, "unfreeze_at": ["2:all"], "eval_every": 2}
"""A run of as many kinds of moments, in fewer steps."""


def assert_equal(one, other):
    with checkpoints.open(one) as first, checkpoints.open(other) as second:
        assert list(first) == list(second)
        assert any(name.endswith("/Adam") for name in first)
        assert any(name.endswith("/ExponentialMovingAverage") for name in first)
        different = [name for name in first if first[name].tobytes() != second[name].tobytes()]
        assert different == []


def validations(run):
    return [
        (entry["step"], entry["accuracy"])
        for entry in Run(run).read_metrics()
        if entry["split"] == "val"
    ]


def kill_later(process, ended, moment, file):
    """Kills a fork after so many seconds and, where a file is named, not before that is there."""
    ended.wait(moment)
    while file is not None and not file.is_file() and not ended.wait(0.005):
        pass
    if not ended.is_set():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def kill_and_resume(forks, colours, directory, kills, after=None, **changes):
    """Trains once undisturbed and then killed so many times, and compares everything.

    A run that ends before its moment has come is compared too, and the next one begins anew. With
    `after`, a file of the run, a run is killed first as soon as that is there.
    """
    whole, parts = directory / "whole", directory / "parts"
    options = {**OPTIONS, **changes, "data": str(colours)}
    began = time.monotonic()
    assert forks.run(**options, run=str(whole)) == 0, forks.said()
    seconds = time.monotonic() - began
    moments = random.Random(kills)
    killed = 0
    for _ in range(10 * kills):
        begun = (parts / "config.json").is_file()
        is_first = after is not None and not begun
        began = time.monotonic()
        process = forks.begin(**options, run=str(parts), resume=begun)
        ended = threading.Event()
        moment = 0.0 if is_first else moments.uniform(0.0, seconds)
        file = parts / after if is_first else None
        killer = threading.Thread(target=kill_later, args=(process, ended, moment, file))
        killer.start()
        status = forks.end()
        ended.set()
        killer.join()
        assert status in (0, -signal.SIGKILL), forks.said()
        for index in parts.glob("model.ckpt-*.index"):
            assert checkpoints.verify(index).is_ok
        killed += status == -signal.SIGKILL
        if killed == kills:
            break
        if status == 0 or is_first:
            # The first run of all takes longer than those after it.
            seconds = min(seconds, time.monotonic() - began)
        if status == 0:
            assert_same_run(whole, parts)
            shutil.rmtree(parts)
    assert killed == kills
    begun = (parts / "config.json").is_file()
    assert forks.run(**options, run=str(parts), resume=begun) == 0, forks.said()
    assert_same_run(whole, parts)


def assert_same_run(whole, parts):
    assert_equal(whole, parts)
    assert_equal(whole / "best", parts / "best")
    assert validations(whole) == validations(parts)
    assert Run(parts).is_finished()
    names = [{path.name for path in run.iterdir()} for run in (whole, parts)]
    events = [{n for n in found if not n.startswith("events.out")} for found in names]
    assert events[0] == events[1]


def test_killed_at_a_checkpoint_and_at_a_random_moment(forks, colours, tmp_path):
    kill_and_resume(forks, colours, tmp_path, 2, after="model.ckpt-2.index", **SHORT)


@pytest.mark.long
def test_killed_twenty_times_at_random_moments(forks, colours, tmp_path):
    kill_and_resume(forks, colours, tmp_path, 20)


def test_a_limit_on_the_size_of_files_ends_with_a_clear_error_and_whole_checkpoints(
    forks, colours, tmp_path
):
    run = tmp_path / "run"
    options = {**OPTIONS, "data": str(colours), "run": str(run), "unfreeze_at": [], "keep": 9}
    status = forks.run(**options, limit=40_000)
    said = forks.said()
    assert status == 1, said
    assert "RunError: There is no room to write the files of the run" in said
    assert "Received: File too large" in said
    assert "Next: Make room on the disk; --resume then goes on from step" in said
    assert not list(run.glob("model.ckpt-*"))
    assert not list(run.glob(".*"))
    assert forks.run(**options, resume=True) == 0, forks.said()
    assert checkpoints.open(run).family.step == 12


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="mounting a tmpfs needs root"
)
def test_a_full_disk_ends_with_a_clear_error_and_the_last_checkpoint_is_whole(
    forks, colours, tmp_path
):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(disk)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("this system lets nobody mount a tmpfs")
    try:
        run = disk / "run"
        options = {**OPTIONS, "data": str(colours), "run": str(run), "eval_every": 1, "keep": 9}
        status = forks.run(**options)
        said = forks.said()
        assert status == 1, said
        assert "RunError: " in said and "Make room on the disk; --resume then goes on" in said
        latest = Run(run).latest()
        assert checkpoints.verify(latest).is_ok
        assert f"from step {Run(run).step()}" in said
    finally:
        subprocess.run(["umount", str(disk)], check=True)
