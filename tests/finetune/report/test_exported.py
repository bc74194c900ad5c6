import json

import numpy as np
import pytest

from checkpoints.errors import RunError
from finetune import evaluate
from finetune.report.exported import compare_export
from finetune.report.facts import read_facts
from finetune.run import Run

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run(colour_model, colours, tmp_path):
    """An evaluated run of the hand-made model."""
    run = colour_model.begin_run(tmp_path / "run", 20)
    colour_model.end(run, 20)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "data": str(colours)}))
    (run / "plan.json").unlink()
    found = evaluate(run, colours)
    (run / "evaluation.json").write_text(json.dumps(found.as_json(pictures=True)))
    return run


def test_the_same_model_agrees(run, colour_model, tmp_path):
    model = colour_model.write_pb(tmp_path / "m.pb")
    assert compare_export(read_facts(Run(run)), model) == {
        "mode": "pictures",
        "passed": True,
        "path": str(model),
        "pictures": 16,
        "accuracy": 1.0,
        "top1_agreement": 1.0,
        "max_abs": pytest.approx(0, abs=1e-6),
    }


def test_another_model_does_not(run, colour_model, tmp_path):
    model = colour_model.write_pb(tmp_path / "m.pb", weights=np.eye(3, dtype=np.float32) * 4)
    found = compare_export(read_facts(Run(run)), model)
    assert not found["passed"]
    # Green alone is called the same.
    assert found["top1_agreement"] == found["accuracy"] < 0.5
    assert found["max_abs"] > 0.5


def test_without_pictures_there_is_nothing_to_compare_on(run, colour_model, tmp_path):
    (run / "evaluation.json").unlink()
    with pytest.raises(RunError, match="There is nothing to hold") as caught:
        compare_export(read_facts(Run(run)), colour_model.write_pb(tmp_path / "m.pb"))
    assert caught.value.received == "a run without evaluation"
