"""A run directory as train writes one, made by hand: no training, no TensorFlow."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import checkpoints
from checkpoints import family
from finetune.datasets.build import build
from finetune.datasets.dataset import read_dataset
from finetune.datasets.record_index import read_index
from finetune.evaluating.scores import Evaluation
from finetune.report.pictures import _names

HOSTILE = ("<script>alert(1)<", "\"two\" & 'one' {{ 7 * 7 }} -->", "цветок ورد 花" + "x" * 60)
"""Class names that must come out as text."""


@pytest.fixture(scope="session")
def hostile_data(tmp_path_factory):
    """A dataset of the three hostile classes, eight pictures each, a third for validation."""
    root = tmp_path_factory.mktemp("hostile")
    for place, name in enumerate(HOSTILE):
        # A "<" after the folder's name would be a closing tag were a "/" to follow.
        folder = root / "pictures" / name
        folder.mkdir(parents=True)
        for number in range(8):
            colour = (40 + 70 * place, 30 * number, 90)
            Image.new("RGB", (300, 200), colour).save(folder / f"a<b>{number}.jpg", comment=b"seen")
    build(root / "pictures", root / "pictures-data", val=0.4, processes=1)
    return root / "pictures-data"


@pytest.fixture
def make_run(tmp_path, hostile_data):
    """Writes a finished run of 20 steps; gives a function of where, the data and what to change."""

    def make(directory: Path = tmp_path / "a run", data: Path = hostile_data, **config):
        directory.mkdir(parents=True)
        evaluation = _evaluation(data)
        stored = {
            "data": str(data),
            "run": str(directory),
            "net": "tiny",
            "checkpoint": "tiny.ckpt",
            "steps": 20,
            "batch_size": 4,
            "total_steps": 20,
            **config,
        }
        (directory / "config.json").write_text(json.dumps(stored))
        (directory / "labels.txt").write_text("".join(f"{name}\n" for name in evaluation.classes))
        (directory / "evaluation.json").write_text(json.dumps(evaluation.as_json(pictures=True)))
        (directory / "metrics.jsonl").write_text("".join(json.dumps(e) + "\n" for e in _metrics()))
        variables = {
            "Net/Conv2d_1/weights": np.arange(12, dtype=np.float32).reshape(3, 4),
            "Net/Conv2d_1/BatchNorm/moving_mean": np.ones(4, np.float32),
            "Net/Logits/weights": np.full((4, 3), 0.5, np.float32),
        }
        checkpoints.write(directory / "model.ckpt-20", variables)
        family.write_state(directory, "model.ckpt-20", ["model.ckpt-20"])
        (directory / "plan.json").write_text(json.dumps(_plan(variables)))
        return SimpleNamespace(path=directory, evaluation=evaluation, variables=variables)

    return make


def _evaluation(data: Path) -> Evaluation:
    """Right but for the first picture of each class, which is surely taken for the next class."""
    dataset = read_dataset(data)
    index = read_index(dataset.split("val"))
    labels = index.labels.copy()
    probabilities = np.full((len(labels), 3), 0.05, np.float32)
    seen: set[int] = set()
    for place, label in enumerate(labels):
        is_first = int(label) not in seen
        seen.add(int(label))
        probabilities[place, (label + is_first) % 3] = 0.9 - place / 100
    return Evaluation(dataset.classes, tuple(_names(index)), labels, probabilities, "val", 20)


def _metrics() -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [
        {
            "step": step,
            "split": "train",
            "loss": 2.0 / step,
            "batch_accuracy": step / 20,
            "learning_rate": 0.01 * 0.9**step,
            "pictures_per_second": 40.0,
        }
        for step in range(1, 21)
    ]
    lines.insert(10, {"step": 10, "split": "val", "accuracy": 0.5, "count": 9})
    lines.append({"step": 20, "split": "val", "accuracy": 0.625, "count": 9})
    return lines


def _plan(variables: dict[str, np.ndarray]) -> dict[str, object]:
    return {
        "net": "tiny",
        "checkpoint": "tiny.ckpt",
        "trainable": ["Net/Logits"],
        "exclude": ["Net/Logits"],
        "variables": [
            {
                "name": name,
                "shape": list(value.shape),
                "dtype": "float32",
                "reason": "",
                "state": "trainable" if "Logits" in name else "frozen",
                "origin": "initialised" if "Logits" in name else "restored",
                "optimised": "Logits" in name,
                "sha256": None if "Logits" in name else sha256(value.tobytes()).hexdigest(),
            }
            for name, value in variables.items()
        ],
        "conflicts": [],
        "missing": [],
        "totals": {},
        "notes": ["A note <of> the plan."],
        "unused": [{"name": "Net/AuxLogits/weights", "reason": "excluded-scope"}],
    }
