"""A run that is to begin again, killed at each moment while the older one goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from checkpoints import family
from finetune.run import Run


@pytest.fixture
def finished(tmp_path):
    """A finished run of two checkpoints, as far as that is files."""
    run = Run(tmp_path / "run")
    run.directory.mkdir()
    for step in (1, 2):
        checkpoints.write(run.directory / f"model.ckpt-{step}", {"a": np.full(3, step)})
    family.write_state(run.directory, "model.ckpt-2", ["model.ckpt-1", "model.ckpt-2"])
    run.keep_best(run.directory / "model.ckpt-1", 0.5)
    for file in (run.plan_file, run.labels_file, run.metrics_file, run.report_file):
        file.write_text("older")
    run.config_file.write_text(json.dumps({"steps": 2, "total_steps": 2}))
    run.write_end(2)
    (run.directory / "mine.txt").write_text("mine")
    assert run.is_finished()
    return run


def files_of(run):
    files = (file for file in run.directory.rglob("[!.]*") if file.is_file())
    return {file.relative_to(run.directory): file.read_bytes() for file in files}


def test_killed_while_an_older_run_goes_what_is_left_of_it_is_whole(finished, tmp_path, killed_at):
    steps = []
    for moment in range(100):
        run = Run(tmp_path / f"tried{moment}")
        shutil.copytree(finished.directory, run.directory)
        operations = [(Path, name) for name in ("unlink", "rename", "replace")]
        with killed_at(moment, *operations, (shutil, "rmtree")) as killed:
            run.clear()
        if not killed.is_set():
            break
        for place in [run.directory, *run.directory.glob("best")]:
            if list(place.glob("*.index")):
                assert checkpoints.verify(place).is_ok
        if run.is_finished():
            assert files_of(run) == files_of(finished)
        steps.append(run.step())
    assert [path.name for path in run.directory.iterdir()] == ["mine.txt"]
    assert sorted(set(steps)) == [0, 2]
    assert steps == sorted(steps, reverse=True)
