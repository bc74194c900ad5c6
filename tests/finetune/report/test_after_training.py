"""The page about a run that train wrote: the two agree on what the files hold."""

import pytest

from finetune.config import TrainConfig
from finetune.report import write_report
from finetune.report.facts import read_facts
from finetune.report.pictures import find_data
from finetune.run import Run
from finetune.training.training import train

pytestmark = pytest.mark.tensorflow


def test_a_trained_run_is_shown_with_its_pictures_and_its_proof(
    colours, tiny_net, tiny_checkpoint, tmp_path
):
    config = TrainConfig(
        data=str(colours),
        run=str(tmp_path / "run"),
        net="tiny",
        checkpoint=str(tiny_checkpoint),
        steps=4,
        batch_size=4,
        augment="none",
    )
    result = train(config)
    facts = read_facts(Run(tmp_path / "run"))
    assert facts.scores.accuracy == result.accuracy
    assert facts.plan.trained_parameters == result.totals["trainable_parameters"]
    assert find_data(facts).problem is None
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert f"{result.accuracy:.1%}</span> <span>accuracy on {facts.scores.count} held-out" in page
    assert f"✓ proved bit-equal to their start in <bdi>model.ckpt-{result.step}</bdi>" in page
    assert len(facts.plan.frozen) == result.frozen_verified > 0
    assert page.count('<img src="data:image/jpeg;base64,') > 0
    assert "no picture" not in page
