"""Models whose batch is fixed, mostly at 1, run on batches of any length, a piece at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from checkpoints.errors import GraphError
from exporters.runtimes.runners import ArrayRunner, Runner
from exporters.values import Array


class FixedBatchRunner(ArrayRunner):
    """A runner whose first dimension may have any length."""

    def __init__(self, runner: Runner) -> None:
        """Takes over a runner with a fixed `batch_size`; closing this one closes it."""
        if runner.batch_size is None:
            raise GraphError("The batch of this model is free.", expected="a fixed batch")
        self._runner = runner
        self._size = runner.batch_size
        self.label = f"the model with batches of {self._size}"
        self.inputs = runner.inputs
        self.outputs = runner.outputs
        self.metadata = runner.metadata
        self.batch_size = None

    def run_feeds(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs for values by name, all of the same length, at least 1."""
        total = len(next(iter(feeds.values())))
        pieces = [
            self._run_piece({name: value[at : at + self._size] for name, value in feeds.items()})
            for at in range(0, total, self._size)
        ]
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    def _run_piece(self, feeds: dict[str, Array]) -> list[Array]:
        """One run; a short piece is filled up with its last element, whose answers are dropped."""
        count = len(next(iter(feeds.values())))
        missing = self._size - count
        if missing:
            feeds = {
                name: np.concatenate([value, np.repeat(value[-1:], missing, axis=0)])
                for name, value in feeds.items()
            }
        return [output[:count] for output in self._runner.run(feeds=feeds)]

    def close(self) -> None:
        """Frees the model. The runner cannot be used again."""
        self._runner.__exit__(None, None, None)
