import json

import pytest

from checkpoints.errors import RunError
from finetune.report.facts import read_facts
from finetune.run import Run


def test_what_the_files_of_a_run_say(make_run):
    made = make_run()
    facts = read_facts(Run(made.path))
    assert facts.classes == made.evaluation.classes
    assert (facts.step, facts.total_steps, facts.config.batch_size) == (20, 20, 4)
    assert facts.scores.accuracy == made.evaluation.accuracy
    assert facts.scores.confusion.matrix().tolist() == made.evaluation.confusion().tolist()
    assert [a.name for a in facts.scores.answers] == list(made.evaluation.names)
    assert (facts.plan.parameters, facts.plan.trained_parameters) == (28, 12)
    assert [v.name for v in facts.plan.frozen] == [
        "Net/Conv2d_1/weights",
        "Net/Conv2d_1/BatchNorm/moving_mean",
    ]
    assert facts.plan.unused == (("Net/AuxLogits/weights", "excluded-scope"),)


@pytest.mark.parametrize(
    ("change", "received"),
    [
        ({"confusion": [[1, 2], [3, 4]]}, "ValueError: a confusion matrix [2, 2], 3 classes"),
        ({"confusion": [[0, 0, 0]] * 3}, "ValueError: a confusion matrix without pictures"),
        ({"confusion": [[-1, 2, 2]] * 3}, "ValueError: a confusion matrix without pictures"),
        ({"classes": None}, "TypeError: 'NoneType' object is not iterable"),
        ({"pictures": [{"name": "x", "label": 3, "predicted": 0, "probability": 0.5}]},
         "ValueError: picture 0 has a class beyond the 3"),
        ({"pictures": [{"name": "x", "label": 0, "predicted": 0, "probability": float("nan")}]},
         "ValueError: picture 0 has no probability"),
    ],
)  # fmt: skip
def test_an_evaluation_that_train_did_not_write_is_named(make_run, change, received):
    run = Run(make_run().path)
    stored = json.loads(run.evaluation_file.read_text())
    run.evaluation_file.write_text(json.dumps({**stored, **change}))
    with pytest.raises(RunError) as raised:
        read_facts(run)
    assert raised.value.message == f"{run.evaluation_file} is not what train writes."
    assert raised.value.received == received


@pytest.mark.parametrize("text", ["[]", "{}", '{"net": "a", "checkpoint": null, "trainable": 3}'])
def test_a_plan_that_train_did_not_write_is_named(make_run, text):
    run = Run(make_run().path)
    run.plan_file.write_text(text)
    with pytest.raises(RunError, match=r"plan\.json is not what train writes"):
        read_facts(run)
