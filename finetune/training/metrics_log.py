"""Where a run's numbers go: a line of JSON each for programs, event files for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporters.runtime import load_tensorflow
from finetune.run import Run
from finetune.training.event_file import EventFile

HISTOGRAM_BUCKETS = 40


class MetricsLog:
    """Appends to metrics.jsonl and to an event file, both flushed at once."""

    def __init__(self, run: Run, graph: Any) -> None:
        """Opens both; the event file begins with the graph."""
        self._file = run.metrics_file
        self._events = EventFile(run.directory, graph)

    def write(self, step: int, *, split: str = "train", **numbers: float) -> None:
        """Logs the numbers of a step.

        Args:
          step: how many steps were done.
          split: what they were measured on.
          numbers: name -> value.
        """
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "split": split, **numbers}) + "\n")
        summary = load_tensorflow().compat.v1.Summary()
        for name, value in numbers.items():
            summary.value.add(tag=f"{split}/{name}", simple_value=value)
        self._events.write(summary, step)

    def write_variables(self, step: int, session: Any, variables: Sequence[Any]) -> None:
        """Logs a histogram of each variable, for TensorBoard alone.

        Args:
          step: how many steps were done.
          session: that holds their values.
          variables: TensorFlow variables of floats.
        """
        summary = load_tensorflow().compat.v1.Summary()
        for variable, value in zip(variables, session.run(list(variables)), strict=True):
            if value.size and np.isfinite(value).all():
                tag = f"variables/{variable.op.name}"
                summary.value.add(tag=tag, histo=histogram(value))
        self._events.write(summary, step)

    def write_picture(self, tag: str, png: bytes, width: int, height: int) -> None:
        """Logs a picture that belongs to the beginning of the run, for TensorBoard alone."""
        v1 = load_tensorflow().compat.v1
        image = v1.Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=png)
        summary = v1.Summary(value=[v1.Summary.Value(tag=tag, image=image)])
        self._events.write(summary, 0)

    def close(self) -> None:
        """Closes the event file."""
        self._events.close()


def histogram(values: NDArray[Any]) -> Any:
    """How values are spread, as a tensorflow.HistogramProto.

    Args:
      values: finite numbers, at least one.
    """
    numbers = np.asarray(values, np.float64).ravel()
    counts, edges = np.histogram(numbers, bins=HISTOGRAM_BUCKETS)
    return load_tensorflow().compat.v1.HistogramProto(
        min=numbers.min(),
        max=numbers.max(),
        num=numbers.size,
        sum=numbers.sum(),
        sum_squares=np.square(numbers).sum(),
        # A bucket ends at its limit and begins at the limit before it.
        bucket_limit=edges[1:],
        bucket=counts,
    )
