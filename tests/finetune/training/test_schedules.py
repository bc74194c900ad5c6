import math

import pytest

from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.training.phases import make_phases
from finetune.training.schedules import Schedule

STEPS = (0, 1, 4, 25, 49, 50, 75, 99, 120)


def rates(schedule):
    """The tensor's value at each of STEPS."""
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(v1.int64, [])
        rate = schedule.tensor(step)
        assert (rate.dtype, rate.shape) == (v1.float32, [])
        return [session.run(rate, {step: value}) for value in STEPS]


@pytest.mark.tensorflow
@pytest.mark.parametrize("staircase", [False, True])
def test_exponential_decay_is_rate_times_factor_to_the_power_of_step_over_decay_steps(staircase):
    schedule = Schedule("exponential", 0.1, 121, 50, decay_rate=0.1, staircase=staircase)
    exponents = [step // 50 if staircase else step / 50 for step in STEPS]
    expected = [0.1 * 0.1**exponent for exponent in exponents]
    assert rates(schedule) == pytest.approx(expected, rel=1e-5)
    assert [schedule.at(step) for step in STEPS] == pytest.approx(expected, rel=1e-9)


@pytest.mark.tensorflow
def test_a_polynomial_falls_in_a_straight_line_and_stays():
    schedule = Schedule("polynomial", 0.5, 121, 100, last=0.1)
    expected = [0.5 - 0.4 * min(step, 100) / 100 for step in STEPS]
    assert rates(schedule) == pytest.approx(expected, rel=1e-5)
    assert [schedule.at(step) for step in STEPS] == pytest.approx(expected, rel=1e-9)


@pytest.mark.tensorflow
def test_a_cosine_is_half_a_wave_and_stays():
    schedule = Schedule("cosine", 0.5, 121, 100, last=0.1)
    expected = [0.1 + 0.2 * (1 + math.cos(math.pi * min(step, 100) / 100)) for step in STEPS]
    assert rates(schedule) == pytest.approx(expected, rel=1e-5)
    assert [schedule.at(step) for step in STEPS] == pytest.approx(expected, rel=1e-9)


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", ["fixed", "exponential", "polynomial", "cosine"])
def test_warm_up_rises_in_equal_parts_and_the_decay_begins_behind_it(kind):
    schedule = Schedule(kind, 0.2, 121, 50, warmup=5)
    without = Schedule(kind, 0.2, 121, 50)
    found = rates(schedule)
    assert found[:3] == pytest.approx([0.2 / 5, 0.4 / 5, 0.2], rel=1e-5)
    assert found[3] == pytest.approx(without.at(20), rel=1e-5)
    assert found == pytest.approx([schedule.at(step) for step in STEPS], rel=1e-5, abs=1e-9)


@pytest.mark.tensorflow
def test_a_fixed_rate_stays():
    assert set(rates(Schedule("fixed", 0.25, 121, 1))) == {0.25}


@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        (Schedule("fixed", 0.001, 40, 2), "Learning rate 0.001, fixed, for 40 steps."),
        (
            Schedule("exponential", 0.1, 101, 50, 0.1, True),
            "Learning rate 0.1, times 0.1 every 50 steps, in stairs: 0.001 at step 101.",
        ),
        (
            Schedule("cosine", 0.1, 100, 90, last=0.02, warmup=10),
            "Learning rate 0.1, along a cosine to 0.02 over 90 steps: 0.0200244 at step 100; "
            "warm-up over the first 10 steps.",
        ),
        (
            Schedule("polynomial", 0.1, 100, 100),
            "Learning rate 0.1, in a straight line to 0 over 100 steps: 0.001 at step 100.",
        ),
    ],
)
def test_the_schedule_is_said_in_a_line(schedule, line):
    assert schedule.describe() == line


@pytest.mark.parametrize("kind", ["fixed", "exponential", "polynomial", "cosine"])
def test_five_pictures_in_batches_of_32_are_an_epoch_of_one_step_and_decay_steps_never_zero(
    tiny_net, kind
):
    """Case W10."""
    config = TrainConfig(data="d", run="r", epochs=3, batch_size=32, schedule=kind)
    (phase,) = make_phases(config, tiny_net, config.total_steps(5), 5)
    assert (phase.first, phase.last) == (0, 3)
    assert phase.schedule.decay_steps == (3 if kind in ("polynomial", "cosine") else 2)
    short = TrainConfig(data="d", run="r", steps=2, warmup_steps=9, schedule=kind)
    (phase,) = make_phases(short, tiny_net, 2, 5)
    assert phase.schedule.decay_steps >= 1
