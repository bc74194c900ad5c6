"""Where a run's numbers go: a line of JSON each for programs, event files for TensorBoard."""

from __future__ import annotations

import json
from typing import Any

from exporters.runtime import load_tensorflow
from finetune.run import Run


class MetricsLog:
    """Appends to metrics.jsonl and to an event file, both flushed at once."""

    def __init__(self, run: Run, graph: Any) -> None:
        """Opens both; the event file begins with the graph."""
        self._file = run.metrics_file
        self._events = load_tensorflow().compat.v1.summary.FileWriter(str(run.directory), graph)

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
        self._events.add_summary(summary, step)
        self._events.flush()

    def close(self) -> None:
        """Closes the event file."""
        self._events.close()
