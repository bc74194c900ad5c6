"""Learning rates by step."""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow

SCHEDULES = ("fixed", "exponential")


def learning_rate_tensor(
    schedule: str, first: float, step: Any, decay_steps: int, decay_rate: float, staircase: bool
) -> Any:
    """The learning rate of a step, a float32 scalar tensor.

    Args:
      schedule: fixed, or exponential: first * decay_rate ** (step / decay_steps).
      first: the rate of step 0.
      step: the global step, an integer tensor.
      decay_steps: steps after which decay_rate has been applied once.
      decay_rate: the factor.
      staircase: whether the exponent is rounded down.
    """
    tf = load_tensorflow()
    if schedule == "fixed":
        return tf.constant(first, tf.float32, name="learning_rate")
    return tf.compat.v1.train.exponential_decay(
        first, step, decay_steps, decay_rate, staircase=staircase, name="learning_rate"
    )


def describe(
    schedule: str, first: float, steps: int, decay_steps: int, decay_rate: float, staircase: bool
) -> str:
    """The schedule in a line, printed before the first step."""
    if schedule == "fixed":
        return f"Learning rate {first:g}, fixed, for {steps} steps."
    exponent = (steps - 1) // decay_steps if staircase else (steps - 1) / decay_steps
    shape = "in stairs" if staircase else "continuously"
    return (
        f"Learning rate {first:g}, times {decay_rate:g} every {decay_steps} steps, {shape}: "
        f"{first * decay_rate**exponent:g} at step {steps}."
    )
