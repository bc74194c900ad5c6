"""Files of a run that were made to do harm, each with the error it must raise."""

from __future__ import annotations

import json

import pytest

from checkpoints.errors import RunError
from finetune.config import TrainConfig
from finetune.report.facts import read_plan
from finetune.run import Run

CONFIG = {"data": "d", "run": "r", "total_steps": 10}
NO_OBJECTS = {"a list": "[1]", "a text": '"x"', "a number": "7", "nothing": "null"}


@pytest.mark.parametrize("what", NO_OBJECTS)
def test_config_json_that_is_no_object(tmp_path, what):
    (tmp_path / "config.json").write_text(NO_OBJECTS[what])
    run = Run(tmp_path)
    for read in (run.read_config, run.total_steps, run.content_hash, run.is_finished):
        with pytest.raises(RunError, match=r"config\.json is not what train writes"):
            read()


def test_lists_without_end(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000)
    (tmp_path / "metrics.jsonl").write_text("[" * 100_000 + '\n7\n{"step": 1}\n')
    with pytest.raises(RunError, match=r"config\.json is no JSON"):
        Run(tmp_path).read_config()
    assert Run(tmp_path).read_metrics() == [{"step": 1}]


@pytest.mark.parametrize("option", ["learning_rate", "dropout", "clip_norm", "weight_decay"])
def test_numbers_that_no_float_holds(tmp_path, option):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, option: 10**400}))
    with pytest.raises(RunError, match="holds options that do not fit"):
        Run(tmp_path).read_config()


def test_a_step_of_more_digits_than_python_converts(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({**CONFIG, "unfreeze_at": ["9" * 5000 + ":a"]})
    )
    with pytest.raises(RunError, match="holds options that do not fit"):
        Run(tmp_path).read_config()


def test_a_plan_with_sizes_without_end(tmp_path):
    variable = {"name": "v", "shape": [float("inf")], "state": "frozen", "origin": "restored"}
    plan = {"net": "n", "checkpoint": None, "trainable": [], "unused": []}
    plan["variables"] = [{**variable, "optimised": False}]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(RunError, match=r"plan\.json is not what train writes"):
        read_plan(tmp_path / "plan.json")


def test_metrics_whose_steps_are_none_are_forgotten(tmp_path):
    lines = [{"step": 1}, {"step": "x"}, {"step": [2]}, {"loss": 1}, {"step": 3}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    Run(tmp_path).forget_metrics_after(2)
    assert Run(tmp_path).read_metrics() == [{"step": 1}, {"loss": 1}]


BESTS = {
    "no step": {"accuracy": 0.5},
    "no accuracy": {"step": 5},
    "a list": {"step": 5, "accuracy": [1]},
    "a text": {"step": 5, "accuracy": "1e"},
    "no number": {"step": 5, "accuracy": float("nan")},
}


@pytest.mark.parametrize("what", BESTS)
def test_best_json(tmp_path, what):
    Run(tmp_path).write_config(TrainConfig("d", "r"), 10)
    (tmp_path / "best").mkdir()
    (tmp_path / "best/best.json").write_text(json.dumps(BESTS[what]))
    for read in (Run(tmp_path).best_accuracy, Run(tmp_path).best_step):
        with pytest.raises(RunError, match=r"best\.json is not what train writes"):
            read()
