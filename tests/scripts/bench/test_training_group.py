"""The group `training`: both sides train on the same number of pictures, and begin alike."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import pytest

from checkpoints.errors import VerificationError
from finetune.datasets.build import build
from scripts.bench.case import Step
from scripts.bench.groups import training
from scripts.bench.groups.input_files import write_pictures
from scripts.bench.groups.training import TORCH_PYTHON, cases_on, same_work
from scripts.bench.process import step_command

SMALL_NET, SMALL_SIZE = "mobilenet_v1", 64


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.setenv(TORCH_PYTHON, "/opt/torch/bin/python")
    monkeypatch.setattr(training, "has_bfloat16", lambda: True)
    found = cases_on(Path("data"), Path("model.ckpt"), "inception_v3", 299)
    return {case.name: case for case in found}


def test_targets_and_what_the_short_form_holds(cases):
    targets = {name: case.peers[0].target for name, case in cases.items()}
    assert targets == {
        "head": 20,
        "all-layers": 0.952,
        "bf16": 1.6,
        "keras-head": 1,
        "keras-all": 1,
        "timm-head": 1,
        "timm-all": 1,
    }
    assert [name for name, case in cases.items() if case.in_quick] == ["all-layers"]
    assert not any(case.skipped for case in cases.values())


@pytest.mark.parametrize("name", ["head", "keras-head", "timm-head"])
def test_the_peer_runs_a_part_of_the_same_steps(cases, name):
    (peer,) = cases[name].peers
    assert isinstance(peer.work, Step)
    steps = int(peer.work.arguments[-1])
    assert steps * peer.times == 640 == training.EPOCHS * 32


def test_timm_runs_in_the_python_that_is_named(cases):
    arguments = step_command(cases["timm-all"].peers[0].work).arguments
    assert arguments[:2] == ("/opt/torch/bin/python", "-I")
    assert [Path(part.partition(":")[0]).name for part in arguments[2:4]] == [
        "step.py",
        "train_timm.py",
    ]
    assert all(Path(part.removesuffix(":train")).is_file() for part in arguments[2:4])
    assert arguments[4:] == ("2", "all", "299", "16", "5", "1")


def test_what_cannot_be_measured_says_why(monkeypatch):
    monkeypatch.delenv(TORCH_PYTHON, raising=False)
    monkeypatch.setattr(training.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(training, "has_bfloat16", lambda: False)
    skipped = {
        case.name: case.skipped
        for case in cases_on(Path("data"), Path("model.ckpt"), "inception_v3", 299)
        if case.skipped
    }
    assert skipped == {
        "bf16": "the CPU has none of avx512_bf16, amx_bf16",
        "timm-head": f"no Python with torch and timm; {TORCH_PYTHON} may name one",
        "timm-all": f"no Python with torch and timm; {TORCH_PYTHON} may name one",
    }


def said(pictures, loss=1.5, **more):
    return json.dumps({"pictures": pictures, "loss": loss, **more})


def test_other_numbers_of_pictures_fail():
    check = same_work(80)
    versions = {"Keras": "3.1"}
    assert check({"a": said(20480), "b": said(256, versions=versions)}) == (
        "20480 pictures trained on, finite losses, Keras 3.1"
    )
    with pytest.raises(VerificationError, match="did not train on as many pictures"):
        check({"a": said(20480), "b": said(255)})


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_a_loss_that_is_no_number_fails(loss):
    with pytest.raises(VerificationError, match="A loss is no number"):
        same_work()({"a": said(16), "b": said(16, loss)})


def test_first_losses_that_are_apart_fail():
    check = same_work(tolerance=0.02)
    near = {"a": said(16, first_loss=2.03), "b": said(16, first_loss=2.0)}
    assert check(near).endswith("the first 2.0300 and 2.0000")
    for far in (1.9, math.nan):
        with pytest.raises(VerificationError, match=r"Expected: 2.0, within 2.00%"):
            check({"a": said(16, first_loss=far), "b": said(16, first_loss=2.0)})


def run_here(contender):
    """The result of a step's first call in this process, as JSON."""
    module, _, name = contender.work.function.partition(":")
    step = getattr(importlib.import_module(module), name)(*contender.work.arguments)
    return json.dumps(step())


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_step_on_the_pipeline_begins_like_the_bare_step(tmp_path, monkeypatch):
    """The same weights, the same first batch, the same loss."""
    from scripts.bench.groups import inception_files

    write_pictures(tmp_path / "pictures", 10, (60, 45))
    build(tmp_path / "pictures", tmp_path / "dataset", val=0)
    monkeypatch.setattr(inception_files, "NET", SMALL_NET)
    monkeypatch.setattr(sys, "argv", ["inception_files", str(tmp_path)])
    inception_files.main()
    monkeypatch.setattr(training, "BATCH", 2)
    checkpoint = tmp_path / "v2" / "model.ckpt"
    found = cases_on(tmp_path / "dataset", checkpoint, SMALL_NET, SMALL_SIZE)
    (case,) = (case for case in found if case.name == "all-layers")
    printed = {contender.name: run_here(contender) for contender in case.contenders}
    assert case.check(printed).startswith("2 pictures trained on, finite losses, the first ")
