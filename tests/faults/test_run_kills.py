"""Runs killed (SIGKILL) while they are begun over an older one, and what is written from a run."""

from __future__ import annotations

import json
import re
import shutil

import pytest

import checkpoints
from checkpoints.errors import RunError
from finetune.run import Run

pytestmark = pytest.mark.tensorflow

TRAIN = ["--net", "mnist_softmax", "--checkpoint", "none", "--batch-size", 4, "--eval-every", 1]
TRAIN += ["--precision", "fp32"]
RANDOM_KILLS = 50


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    from finetune.sample.digits import write_digits

    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "2", per_class=6)
    write_digits(folder / "1", per_class=7)
    return folder / "2"


@pytest.fixture(scope="module")
def older_run(heavy, digits, tmp_path_factory):
    """A finished run of two steps, both kept."""
    folder = tmp_path_factory.mktemp("runs")
    run = folder / "run"
    ended = heavy.run("train", digits, "--run", run, *TRAIN, "--steps", 2, watched=folder)
    assert ended.status == 0, ended.stderr
    return run


def lasting(found):
    """What of a run is the same each time: no events, no times, no pictures a second."""
    kept = {}
    for name, data in found.items():
        if "events.out" not in name and not name.endswith(("report.html", ".meta")):
            kept[name] = re.sub(rb'"(pictures_per_second|seconds)": [^,}]*', b"", data)
    return kept


@pytest.fixture
def train_over(make_writing, heavy, digits, older_run, try_writing):
    """A run of three steps and of another seed over the older one."""
    writing = make_writing(
        lambda number, path: ["train", digits, "--run", path, *TRAIN, "--steps", 3, "--seed", 9],
        "run",
        same=lasting,
        begin=lambda folder: shutil.copytree(older_run, folder / "run"),
    )
    return try_writing(writing, True, heavy)


def judge_run(run, older):
    """Every checkpoint is whole; a finished run is the older one, as it was."""
    for place in (*run.glob("model.ckpt-*.index"), *run.glob("best")):
        assert checkpoints.verify(place).is_ok
    try:
        finished = Run(run).is_finished()
    except RunError:  # config.json goes last and comes first
        assert not list(run.glob("model.ckpt-*.index"))
        return
    steps = json.loads((run / "config.json").read_text())["steps"]
    if finished and steps == 2:
        names = {file.name for file in run.iterdir() if not file.name.startswith(".")}
        assert names - {"train.lock"} == {file.name for file in older.iterdir()}
    elif steps == 3:
        for index in run.glob("model.ckpt-[12].index"):
            with checkpoints.open(index) as saved, checkpoints.open(older / index.name) as old:
                assert any(saved[name].tobytes() != old[name].tobytes() for name in saved)


@pytest.mark.long
def test_train_over_an_older_run(train_over, older_run, count_kills):
    trial = train_over
    count = len(trial.whole.moments)
    kills = [{"at": moment} for moment in range(0, count, 3)]
    kills += [{"after": trial.whole.seconds * n / RANDOM_KILLS} for n in range(RANDOM_KILLS)]
    hits = 0
    for place, fault in enumerate(kills):
        trial.begin_from_before()
        ended = trial.run(**fault)
        hits += ended.status == -9
        judge_run(trial.out, older_run)
        inspected = trial.commands.run("inspect", trial.out, watched=trial.folder)
        assert "Traceback" not in inspected.stderr
        if place % 5 == 0:
            trial.rerun()
    count_kills(len(range(0, count, 3)), hits - len(range(0, count, 3)))


def writings(make_writing, run, digits):
    """What is written from a run, TensorFlow running."""

    def put_run(folder):
        shutil.copytree(run, folder / "run")
        (folder / "run/report.html").write_text("older")

    return {
        "features": make_writing(
            lambda number, path: ["features", run, digits.with_name(str(number)), path], "out.npz"
        ),
        "predict": make_writing(
            lambda number, path: ["predict", run, digits.parent / f"{number}.npy", "--csv", path],
            "out.csv",
            check=(),
        ),
        "report": make_writing(
            lambda number, path: ["report", path.parent],
            "run/report.html",
            check=(),
            overwrite=(),
            begin=put_run,
        ),
        "tflite": make_writing(
            lambda number, path: [
                "convert",
                run,
                path,
                *(["--quantize", "dynamic"] * (number - 1)),
            ],
            "out.tflite",
            check=(),
        ),
    }


@pytest.fixture(params=["features", "predict", "report", "tflite"])
def from_a_run(request, make_writing, heavy, digits, older_run, try_writing):
    import numpy as np

    for number in (1, 2):
        np.save(digits.parent / f"{number}.npy", np.full((2, 28, 28, 1), 100 * number, np.uint8))
    writing = writings(make_writing, older_run, digits)[request.param]
    return try_writing(writing, True, heavy)


@pytest.mark.long
def test_what_is_written_from_a_run(from_a_run, count_kills):
    trial = from_a_run
    moments = len(trial.whole.moments)
    for moment in range(moments):
        trial.kill_at(moment)
    trial.kill_at_random(RANDOM_KILLS)
    count_kills(moments, RANDOM_KILLS)


@pytest.mark.long
def test_a_clock_that_jumps(train_over):
    """Back to 1970, on to 2100 and back: the run is the same, and a later one is no older."""
    trial = train_over
    for clock in ([2e9, 0.0, 4.1e9, 5.0], [4.1e9, 1.7e9], [0.0]):
        trial.begin_from_before()
        ended = trial.run(clock=clock)
        assert ended.status == 0, ended.stderr
        assert trial.found() == trial.new
