"""Runs cases A B A B, so that what else the machine does falls on all contenders alike."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from checkpoints.errors import SlimtuneError
from checkpoints.progress import SILENT, Progress
from scripts.bench.case import Case
from scripts.bench.groups import GROUPS
from scripts.bench.machine import describe_machine
from scripts.bench.process import run_work
from scripts.bench.result import CaseResult, ContenderResult, Report

REPETITIONS = 7
QUICK_REPETITIONS = 1
"""Rounds that count, after one that does not."""


def run_groups(names: Sequence[str], *, quick: bool = False, progress: Progress = SILENT) -> Report:
    """Measures groups of cases one after the other.

    Args:
      names: keys of GROUPS.
      quick: one round instead of seven, and only the cases marked for it.
      progress: told of each run.
    """
    date = datetime.now().astimezone().isoformat(timespec="seconds")
    machine = describe_machine()
    repetitions = QUICK_REPETITIONS if quick else REPETITIONS
    results: list[CaseResult] = []
    left_out: dict[str, str] = {}
    for name in names:
        group = importlib.import_module(GROUPS[name])
        with tempfile.TemporaryDirectory(prefix=f"slimtune-bench-{name}-") as directory:
            cases: list[Case] = group.cases(Path(directory), quick, progress)
            for case in cases:
                if quick and not case.in_quick:
                    continue
                if case.skipped is not None:
                    left_out[case.name] = case.skipped
                    continue
                results.append(
                    run_case(case, Path(directory), repetitions, group=name, progress=progress)
                )
    return Report(date, machine, repetitions, results, left_out)


def run_case(
    case: Case,
    directory: Path,
    repetitions: int,
    *,
    group: str = "",
    progress: Progress = SILENT,
) -> CaseResult:
    """Measures one case: each contender once unmeasured (see Case), then all in turn, again and again.

    The unmeasured run brings programs and data into the file cache: the figures are those of
    a machine that has used both before. A contender that fails once is left out of the rest.

    Args:
      case: what to measure.
      directory: the working directory of every process.
      repetitions: measured runs of each contender; fewer where the case says so.
      group: the group's name, for the result.
      progress: told of each run.
    """
    repetitions = min(repetitions, case.most_rounds or repetitions)
    results = [ContenderResult(contender) for contender in case.contenders]
    printed: dict[str, str] = {}
    first = 0 if case.warm_up else 1
    total = len(results) * (1 + repetitions - first)
    with progress.task(f"Measuring {case.name}", total, "runs") as task:
        for turn in range(first, 1 + repetitions):
            for result in results:
                task.note(result.contender.name)
                if result.failure is None:
                    _run_once(result, directory, printed, measured=turn > 0)
                task.advance()
    measured = CaseResult(group, case, results)
    if case.check is not None and not measured.failures:
        with progress.task(f"Checking {case.name}", None):
            try:
                measured.equal = case.check(printed)
            except SlimtuneError as error:
                measured.check_failure = str(error)
    return measured


def _run_once(
    result: ContenderResult, directory: Path, printed: dict[str, str], *, measured: bool
) -> None:
    try:
        run, text = run_work(result.contender.work, directory)
    except SlimtuneError as error:
        result.failure = str(error)
        return
    printed[result.contender.name] = text
    if measured:
        result.runs.append(run)
