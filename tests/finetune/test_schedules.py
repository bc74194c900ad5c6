import pytest

from exporters.runtime import load_tensorflow
from finetune.schedules import describe, learning_rate_tensor


@pytest.mark.tensorflow
@pytest.mark.parametrize("staircase", [False, True])
def test_exponential_decay_is_rate_times_factor_to_the_power_of_step_over_decay_steps(staircase):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        step = v1.placeholder(v1.int64, [])
        rate = learning_rate_tensor("exponential", 0.1, step, 50, 0.1, staircase)
        found = [session.run(rate, {step: value}) for value in (0, 25, 50, 75, 120)]
    exponents = [0, 0, 1, 1, 2] if staircase else [0, 0.5, 1, 1.5, 2.4]
    assert found == pytest.approx([0.1 * 0.1**exponent for exponent in exponents], rel=1e-5)


@pytest.mark.tensorflow
def test_a_fixed_rate_stays():
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        rate = learning_rate_tensor("fixed", 0.25, v1.constant(99), 1, 0.5, True)
        assert session.run(rate) == 0.25


def test_the_schedule_is_said_in_a_line():
    assert (
        describe("fixed", 0.001, 40, 2, 0.94, False) == "Learning rate 0.001, fixed, for 40 steps."
    )
    assert describe("exponential", 0.1, 101, 50, 0.1, True) == (
        "Learning rate 0.1, times 0.1 every 50 steps, in stairs: 0.001 at step 101."
    )
