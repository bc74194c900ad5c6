import pytest

from checkpoints.errors import UsageError
from finetune.config import TrainConfig
from finetune.training.phases import fitting_decay, make_phases, refuse_stages_outside


def phases(net, steps=100, pictures=320, **options):
    return make_phases(TrainConfig(data="d", run="r", **options), net, steps, pictures)


def test_a_run_without_stages_has_one_phase(tiny_net):
    (phase,) = phases(tiny_net, learning_rate=0.5)
    assert (phase.number, phase.first, phase.last) == (1, 0, 100)
    assert phase.trainable == ("Tiny/Logits",)
    assert phase.describe(1) == "Learning rate 0.5, fixed, for 100 steps."


def test_each_phase_trains_what_those_before_it_did_and_more_at_a_hundredth_of_the_rate(tiny_net):
    made = phases(
        tiny_net, unfreeze_at=("4e:Tiny/Conv2d_10", "80:all"), learning_rate=0.5, warmup_steps=5
    )
    assert [(phase.first, phase.last, phase.trainable) for phase in made] == [
        (0, 40, ("Tiny/Logits",)),
        (40, 80, ("Tiny/Logits", "Tiny/Conv2d_10")),
        (80, 100, ("Tiny",)),
    ]
    assert [phase.schedule.first for phase in made] == [0.5, 0.005, 0.005]
    assert [phase.schedule.warmup for phase in made] == [5, 0, 0]
    assert made[1].describe(3) == (
        "Phase 2 of 3, steps 41 to 80. Learning rate 0.005, fixed, for 40 steps."
    )


def test_the_words_heads_and_all_stand_for_scopes(tiny_net):
    (phase,) = phases(tiny_net, trainable=("heads",))
    assert phase.trainable == ("Tiny/Logits", "Tiny/AuxLogits")
    (phase,) = phases(tiny_net, trainable=("all",))
    assert phase.trainable == ("Tiny",)


@pytest.mark.parametrize("stage", ["100:all", "11e:all"])
def test_a_stage_outside_the_run_is_refused(tiny_net, stage):
    with pytest.raises(UsageError, match="outside the run's 100 steps") as caught:
        phases(tiny_net, unfreeze_at=(stage,))
    assert caught.value.expected == "steps from 1 to 99"
    assert caught.value.received in ("step 100", "step 110")


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"steps": 5, "unfreeze_at": ("3:all", "2e:all", "5:all")}, "step 5"),
        ({"epochs": 2, "unfreeze_at": ("9:all", "2e:all")}, "epoch 2"),
        ({"unfreeze_at": ("10e:all",)}, "epoch 10"),
    ],
)
def test_what_lies_outside_by_itself_is_told_before_pictures_are_read(options, received):
    with pytest.raises(UsageError, match="outside the run's") as caught:
        refuse_stages_outside(TrainConfig(data="d", run="r", **options))
    assert caught.value.received == received


@pytest.mark.parametrize("text", ["all", "x:all", "-5:all", "5:", ":all", "0:all", "0e:all"])
def test_a_stage_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--unfreeze-at: expected STEP:SCOPE"):
        TrainConfig(data="d", run="r", unfreeze_at=(text,))


def test_batch_norm_averages_follow_within_the_steps_there_are(tiny_net):
    assert [fitting_decay(steps) for steps in (1, 100, 500, 10**7)] == [0.9, 0.9, 0.98, 0.9997]
    assert all(fitting_decay(steps) ** steps < 1 / 20_000 for steps in (100, 500, 5000, 40_000))
    (phase,) = phases(tiny_net, batch_norm_decay=0.5)
    assert phase.batch_norm_decay == 0.5


@pytest.mark.parametrize(
    ("options", "is_restored", "updating"),
    [
        ({}, True, [None, ("Tiny/Logits", "Tiny/Logits", "Tiny/AuxLogits")]),
        ({}, False, [None, None]),
        ({"batch_norm_decay": 0.9}, True, [None, None]),
        ({"batch_norm_decay": 1}, False, [(), ()]),
    ],
)
def test_batch_norms_of_scopes_added_to_a_restored_net_keep_their_averages(
    tiny_net, options, is_restored, updating
):
    config = TrainConfig(data="d", run="r", unfreeze_at=("50:all",), **options)
    made = make_phases(config, tiny_net, 100, 320, is_restored=is_restored)
    assert [phase.updating for phase in made] == updating


@pytest.mark.parametrize("decay", [1.1, -0.1, "1"])
def test_a_batch_norm_decay_that_is_none_is_refused(decay):
    with pytest.raises(UsageError, match="--batch-norm-decay: expected a share from 0 to 1"):
        TrainConfig(data="d", run="r", batch_norm_decay=decay)
