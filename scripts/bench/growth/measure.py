"""Runs the jobs of an axis at each size, and says how cost grows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.progress import SILENT, Progress
from scripts.bench.growth.axes import Axis, Job
from scripts.bench.process import Run, run_work

SHORT_SECONDS = 2.0
"""What takes less is measured thrice, and the least counts."""

LEAST_SECONDS, LEAST_BYTES = 0.1, 8 * 10**6
"""What adds less than this on top of the smallest size does not grow, as far as can be told."""


@dataclass(frozen=True)
class Growth:
    """One job at all sizes.

    Attributes:
      job: its name.
      sizes: those at which it was measured.
      seconds: processor time at each, of all threads: other programs hardly change it.
      peak_bytes: peak memory at each.
    """

    job: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    peak_bytes: tuple[int, ...]

    @property
    def time_exponent(self) -> float | None:
        """1: as much time more as there is more to do; None: it does not grow."""
        return exponent(self.sizes, self.seconds, LEAST_SECONDS)

    @property
    def memory_exponent(self) -> float | None:
        """The same of memory."""
        return exponent(self.sizes, self.peak_bytes, LEAST_BYTES)

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured of the job."""
        return {
            "job": self.job,
            "sizes": list(self.sizes),
            "seconds": list(self.seconds),
            "peak_bytes": list(self.peak_bytes),
            "time_exponent": self.time_exponent,
            "memory_exponent": self.memory_exponent,
        }


def exponent(sizes: Sequence[int], costs: Sequence[float], least: float) -> float | None:
    """The slope of log cost over log size between the two largest sizes.

    Sizes are counted from the smallest, costs from the least: that takes off what each start costs.

    Args:
      sizes: at least three, growing.
      costs: at each size.
      least: a cost that cannot be told from none.

    Returns:
      None where the largest size costs no more than the smallest, or where there are too few.
    """
    start = min(costs)
    if len(sizes) < 3 or costs[-1] - start < least:
        return None
    before = max(costs[-2] - start, least / 10)
    return math.log((costs[-1] - start) / before) / math.log(
        (sizes[-1] - sizes[0]) / (sizes[-2] - sizes[0])
    )


def measure(axis: Axis, largest: int | None = None, progress: Progress = SILENT) -> list[Growth]:
    """Measures an axis, in a temporary directory that is emptied after each size.

    Args:
      axis: what grows.
      largest: sizes above it are left out.
      progress: told of each job.

    Raises:
      ProgramError: a job fails.
    """
    found: dict[str, list[tuple[int, Run]]] = {job.name: [] for job in axis.jobs}
    sizes = [size for size in axis.sizes if largest is None or size <= largest]
    for size in sizes:
        with (
            tempfile.TemporaryDirectory(prefix=f"slimtune-growth-{axis.name}-") as name,
            progress.task(f"{size:,} {axis.unit}", len(axis.jobs), "jobs") as task,
        ):
            directory = Path(name)
            run_work(axis.make(directory, size), directory)
            for job in axis.jobs:
                task.note(job.name)
                if job.largest is None or size <= job.largest:
                    found[job.name].append((size, _measured(job, directory, size)))
                task.advance()
    return [
        Growth(
            job,
            tuple(size for size, _ in runs),
            tuple(run.cpu_seconds for _, run in runs),
            tuple(run.peak_bytes for _, run in runs),
        )
        for job, runs in found.items()
    ]


def _measured(job: Job, directory: Path, size: int) -> Run:
    runs = [run_work(job.work(directory, size), directory)[0]]
    if runs[0].seconds < SHORT_SECONDS:
        runs += [run_work(job.work(directory, size), directory)[0] for _ in range(2)]
    return Run(
        min(run.seconds for run in runs),
        min(run.cpu_seconds for run in runs),
        min(run.peak_bytes for run in runs),
    )
