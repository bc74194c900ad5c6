import dataclasses
from pathlib import Path

import pytest

from checkpoints.errors import RunError, UsageError
from finetune.config import TrainConfig, steps_an_epoch


def config(**options):
    return TrainConfig(data="data", run="run", **options)


def test_every_option_that_makes_no_sense_is_named_at_once():
    with pytest.raises(UsageError) as caught:
        config(steps=0, epochs=3, batch_size=-1, optimizer="adamw", dropout=1.0, decay_steps=0)
    assert caught.value.message == (
        "The training options do not fit:\n"
        "  --steps: expected a whole number from 1, received 0\n"
        "  --batch-size: expected a whole number from 1, received -1\n"
        "  --decay-steps: expected a whole number from 1, received 0\n"
        "  --dropout: expected a share from 0, below 1, received 1.0\n"
        "  --optimizer: expected one of adam, rmsprop, momentum, sgd, adagrad, adadelta, ftrl, received adamw\n"
        "  --steps and --epochs: expected one of them, received both"
    )
    assert caught.value.exit_code == 2
    assert caught.value.received == (
        "--steps 0, --batch-size -1, --decay-steps 0, --dropout 1.0, --optimizer adamw, "
        "--steps 0 --epochs 3"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("momentum=0.9", "epsilon=x"), "expected NAME=NUMBER, ..., received"),
        (("momentum",), "expected NAME=NUMBER, ..., received"),
        (("epsilon=inf",), "expected NAME=NUMBER, ..., received"),
        (("momentum=0.9",), "expected of adam beta1, beta2, epsilon, received momentum"),
    ],
)
def test_settings_of_an_optimiser_are_numbers_and_its_own(options, said):
    with pytest.raises(UsageError, match=f"--optimizer-options: {said}"):
        config(optimizer="adam", optimizer_options=options)
    assert config(optimizer="momentum", optimizer_options=("momentum=0.5",)).optimizer == "momentum"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_learning_rate_is_a_number_above_zero(rate):
    with pytest.raises(UsageError, match="--learning-rate: expected a number above 0"):
        config(learning_rate=rate)


def test_an_epoch_has_at_least_one_step_and_the_last_partial_batch_counts():
    assert steps_an_epoch(5, 32) == 1
    assert steps_an_epoch(33, 32) == 2
    assert steps_an_epoch(64, 32) == 2
    assert config(epochs=3).total_steps(33) == 6
    assert config(steps=7).total_steps(33) == 7
    assert config().total_steps(320) == 100


def test_it_is_stored_and_read_back():
    made = config(trainable=("Net/Logits",), exclude=("none",), steps=5, learning_rate=0.1)
    stored = made.as_json()
    assert "resume" not in stored
    assert TrainConfig.from_json({**stored, "trainable": ["Net/Logits"]}, Path("c")) == made


@pytest.mark.parametrize(
    "stored", [None, [], {"data": "d"}, {"data": "d", "run": "r", "lr": 1}, {"run": "r"}]
)
def test_something_else_than_a_configuration_is_refused(stored):
    with pytest.raises(RunError, match=r"config\.json is not what train writes"):
        TrainConfig.from_json(stored, Path("config.json"))


def test_stored_options_that_do_not_fit_are_refused():
    stored = {**config().as_json(), "batch_size": "many"}
    with pytest.raises(RunError, match=r"c\.json holds options that do not fit") as caught:
        TrainConfig.from_json(stored, Path("c.json"))
    assert "--overwrite" in caught.value.next_step


def test_a_resumed_run_may_go_on_longer_or_slower_and_keeps_the_rest():
    stored = config(steps=2, optimizer="sgd", seed=3)
    resumed = stored.resumed(config(steps=4, learning_rate=0.5, resume=True))
    assert resumed == dataclasses.replace(stored, steps=4, learning_rate=0.5, resume=True)
    assert stored.resumed(config(epochs=2, resume=True)).steps is None


def test_a_resumed_run_refuses_other_options_and_names_both_values():
    stored = config(steps=2, optimizer="sgd")
    with pytest.raises(RunError) as caught:
        stored.resumed(config(optimizer="rmsprop", batch_size=8, steps=2, resume=True))
    assert "--batch-size: the run has 32, received 8" in caught.value.message
    assert "--optimizer: the run has sgd, received rmsprop" in caught.value.message
    assert "--steps" not in caught.value.message
    stored.resumed(config(optimizer="sgd", resume=True))
