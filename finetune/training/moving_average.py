"""A moving average of the trained weights, kept beside them in the checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from exporters.runtime import load_tensorflow

NAME = "ExponentialMovingAverage"


class MovingAverage:
    """Averages x/ExponentialMovingAverage of variables x, which evaluation and export take.

    In the first steps an average keeps a share of at most (1 + step) / (10 + step) of itself, so
    that what training began with is soon forgotten.

    Source:
      Polyak and Juditsky 1992; tf.compat.v1.train.ExponentialMovingAverage.
    """

    def __init__(self, variables: Sequence[Any], decay: float, step: Any) -> None:
        """Makes the averages in the current graph.

        Args:
          variables: those that the optimiser changes.
          decay: share of its old value that an average keeps a step.
          step: steps done since the averages began, an integer scalar tensor.
        """
        tf = load_tensorflow()
        average = tf.compat.v1.train.ExponentialMovingAverage(
            decay, num_updates=tf.cast(step, tf.float32), name=NAME
        )
        self._update = lambda: average.apply(list(variables))
        self._variables = variables
        self._average = average
        self._resets: dict[str, Any] = {}

    def update(self) -> Any:
        """The operation that takes the variables' values of now into the averages; call once."""
        operation = self._update()
        # Setting them belongs to no step, whatever the update waits for.
        with load_tensorflow().control_dependencies(None):
            for variable in self._variables:
                kept = self._average.average(variable)
                self._resets[kept.op.name] = kept.assign(variable.read_value()).op
        return operation

    def begin(self, session: Any, known: Collection[str] = ()) -> None:
        """Sets averages to their variables' values.

        Args:
          session: with the variables' values in it.
          known: names of averages that have a value already and keep it.
        """
        session.run([reset for name, reset in self._resets.items() if name not in known])
