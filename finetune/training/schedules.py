"""Learning rates by step: one record gives the tensor, the number and the line about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from exporters.runtime import load_tensorflow

SCHEDULES = ("fixed", "exponential", "polynomial", "cosine")

TO_THE_END = ("polynomial", "cosine")
"""Schedules that fall to their last rate over the steps there are, unless told how many."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step of a phase.

    Attributes:
      kind: fixed; exponential: first * decay_rate ** (step / decay_steps); polynomial: a straight
        line from first to last; cosine: half a cosine wave from first to last.
      first: the rate that the decay starts from.
      steps: how many steps there are.
      decay_steps: steps after which decay_rate was applied once, or the last rate is reached;
        from 1.
      decay_rate: the factor of the exponential decay.
      staircase: whether its exponent is rounded down.
      last: the rate that polynomial and cosine fall to, and stay at.
      warmup: steps over which the rate rises in equal parts to first, before any decay.

    Source:
      tf.compat.v1.train.exponential_decay, polynomial_decay (power 1) and cosine_decay.
    """

    kind: str
    first: float
    steps: int
    decay_steps: int
    decay_rate: float = 0.94
    staircase: bool = False
    last: float = 0.0
    warmup: int = 0

    def at(self, step: int) -> float:
        """The rate of a step, counted from 0."""
        if step < self.warmup:
            return self.first * (step + 1) / self.warmup
        decayed = step - self.warmup
        share = decayed / self.decay_steps
        if self.kind == "exponential":
            exponent = decayed // self.decay_steps if self.staircase else share
            return float(self.first * self.decay_rate**exponent)
        if self.kind == "polynomial":
            return self.last + (self.first - self.last) * (1.0 - min(share, 1.0))
        if self.kind == "cosine":
            wave = 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
            return self.last + (self.first - self.last) * wave
        return self.first

    def tensor(self, step: Any) -> Any:
        """The rate of a step as a float32 scalar tensor.

        Args:
          step: an integer scalar tensor, 0 at the first step.
        """
        tf = load_tensorflow()
        train = tf.compat.v1.train
        decayed = tf.maximum(step - self.warmup, 0) if self.warmup else step
        if self.kind == "exponential":
            rate = train.exponential_decay(
                self.first, decayed, self.decay_steps, self.decay_rate, staircase=self.staircase
            )
        elif self.kind == "polynomial":
            rate = train.polynomial_decay(self.first, decayed, self.decay_steps, self.last)
        elif self.kind == "cosine":
            rate = train.cosine_decay(
                self.first, decayed, self.decay_steps, alpha=self.last / self.first
            )
        else:
            rate = tf.constant(self.first, tf.float32)
        if self.warmup:
            rising = self.first / self.warmup * tf.cast(step + 1, tf.float32)
            rate = tf.where(step < self.warmup, rising, rate)
        return tf.cast(rate, tf.float32, name="learning_rate")

    def describe(self) -> str:
        """The schedule in a line, printed before the first step."""
        end = f"{self.at(self.steps - 1):g} at step {self.steps}"
        if self.kind == "fixed":
            line = f"Learning rate {self.first:g}, fixed, for {self.steps} steps"
        elif self.kind == "exponential":
            shape = "in stairs" if self.staircase else "continuously"
            line = (
                f"Learning rate {self.first:g}, times {self.decay_rate:g} every "
                f"{self.decay_steps} steps, {shape}: {end}"
            )
        else:
            shape = "in a straight line" if self.kind == "polynomial" else "along a cosine"
            line = (
                f"Learning rate {self.first:g}, {shape} to {self.last:g} over "
                f"{self.decay_steps} steps: {end}"
            )
        if self.warmup:
            return f"{line}; warm-up over the first {self.warmup} steps."
        return f"{line}."
