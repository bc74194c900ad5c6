"""The texts of a run directory: config.json and those beside it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from checkpoints.progress import SILENT
from finetune.config import TrainConfig
from finetune.report.facts import read_facts
from finetune.run import Run
from finetune.trained_classes import classes_of_run
from fuzzing.mutation import mutate_json, mutate_text, one_of
from fuzzing.reader import Files, Reader
from fuzzing.reading import refusals, written
from scripts.inspecting.others import run as inspect_run
from scripts.output import json_line, printable

_CONFIG = "config.json"


def _as_text(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _seeds() -> list[Files]:
    config = TrainConfig(
        "flowers",
        "run",
        steps=10,
        trainable=("Net/Logits",),
        unfreeze_at=("5e:Net/Block7",),
        learning_rate_factors=("Net/Logits=10",),
        optimizer_options=("epsilon=1",),
        hidden=(8,),
        learning_rate=0.1,
    )
    begun = written(lambda folder: Run(folder).write_config(config, 10, "abc"))
    variable = {"name": "w", "shape": [2, 3], "state": "trainable", "origin": "initialised"}
    plan = {
        "net": "inception_v3",
        "checkpoint": None,
        "trainable": ["w"],
        "variables": [{**variable, "optimised": True, "sha256": None}],
        "unused": [{"name": "v", "reason": "excluded"}],
        "notes": ["x"],
        "phases": [{"first": 0, "last": 10, "trainable": ["w"], "learning_rate": 0.1}],
        "precision": "fp32",
        "totals": {"trainable": 6},
    }
    answer = {"name": "a.png", "label": 0, "predicted": 1, "probability": 0.5}
    scores = {
        "split": "val",
        "step": 10,
        "classes": ["a", "b"],
        "confusion": [[1, 1], [0, 2]],
        "top5": 1.0,
        "pictures": [answer],
        "averages_lag": {"count": 1, "moving_averages": 0.5, "batch": 0.6, "is_plain": True},
    }
    metrics = [{"step": 5, "loss": 0.5}, {"step": 10, "accuracy": 0.75}]
    ended = {
        _CONFIG: _as_text({**json.loads(begun[_CONFIG]), "ended_at": 10}),
        "plan.json": _as_text(plan),
        "evaluation.json": _as_text(scores),
        "signature.json": _as_text({"classes": ["a", "b"], "inputs": {}, "outputs": {}}),
        "metrics.jsonl": "".join(f"{json.dumps(line)}\n" for line in metrics).encode(),
        "labels.txt": b"a\nb\n",
        "best/best.json": _as_text({"step": 10, "accuracy": 0.75}),
    }
    return [begun, ended]


def _change(files: Files, random: Random) -> Files:
    """Changes a text; most often config.json."""
    name = random.choice(list(files)) if random.random() < 0.5 else _CONFIG
    mutate = one_of(mutate_json, mutate_text, weights=(3, 1))
    return {**files, name: mutate(files[name], random)}


def _inspect(directory: Path) -> None:
    """As `slimtune inspect` does."""
    with refusals():
        result, text = inspect_run(directory, None, True, SILENT)
        json_line(result)
        printable(text)


def _read_config(directory: Path) -> None:
    """As `slimtune train --resume` does."""
    run = Run(directory)
    for read in (run.read_config, run.total_steps, run.content_hash, run.is_finished):
        with refusals():
            read()
    with refusals():
        run.read_config().resumed(TrainConfig("flowers", "run", steps=20))


def _read_facts(directory: Path) -> None:
    """As `slimtune report` does."""
    with refusals():
        read_facts(Run(directory))
    with refusals():
        classes_of_run(Run(directory))


READERS = (Reader("config", _seeds, (_read_config, _inspect, _read_facts), whole=_change),)
