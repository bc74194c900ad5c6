"""One run of one contender: a process of its own, its time, its memory and what it printed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from checkpoints.errors import SlimtuneError
from scripts.bench.case import Command, Step, Work, python

LIMIT_SECONDS = 900.0
"""A run that takes longer has failed."""

TAIL_LINES = 6
"""How much of a failed program's stderr is shown."""


class ProgramError(SlimtuneError):
    """A program that was to be measured failed or did not end."""


@dataclass(frozen=True)
class Run:
    """What one run took.

    Attributes:
      seconds: wall time of the process, of a Step the median of its timed calls.
      cpu_seconds: user and system time of the whole process.
      peak_bytes: largest resident memory of the process itself; its children do not count.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_work(work: Work, directory: Path, limit: float = LIMIT_SECONDS) -> tuple[Run, str]:
    """Runs a Command or a Step once.

    Args:
      work: what to run.
      directory: the working directory of the process.
      limit: seconds after which it is killed.

    Returns:
      What it took, and what it printed on stdout (a Step: its result as JSON).

    Raises:
      ProgramError: it exits with another code than 0, is killed, or exceeds the limit.
    """
    if isinstance(work, Command):
        return _run_program(work.arguments, directory, limit)
    run, printed = _run_program(step_command(work).arguments, directory, limit)
    said = json.loads(printed.splitlines()[-1])
    timed = Run(median(said["seconds"]), run.cpu_seconds, run.peak_bytes)
    return timed, json.dumps(said["result"])


def step_command(step: Step) -> Command:
    """The program that runs and times a Step."""
    arguments = (step.function, str(step.repeat), *step.arguments)
    if step.interpreter is None:
        return python("scripts.bench.step", *arguments)
    # Nothing of this environment comes into the other: the file stands alone.
    program = str(Path(__file__).with_name("step.py"))
    return Command((step.interpreter, "-I", program, *arguments))


def program_environment() -> dict[str, str]:
    """The environment of measured programs: this one, but Python may keep its bytecode.

    Packages are compiled when they are installed. Where bytecode may not be written, a checkout
    would be compiled anew at every start, and only slimtune, not its peers, would pay for it.
    """
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _run_program(arguments: tuple[str, ...], directory: Path, limit: float) -> tuple[Run, str]:
    with tempfile.TemporaryDirectory(prefix="slimtune-run-") as name:
        report, stdout, stderr = (Path(name) / part for part in ("report", "stdout", "stderr"))
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                [*launcher, str(report), *arguments],
                cwd=directory,
                env=program_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                _kill_session(process)
                raise _failure(arguments, f"no end after {limit:g} s", stderr) from None
            except BaseException:
                _kill_session(process)
                raise
        if not report.is_file():
            raise _failure(arguments, "it could not be started", stderr)
        figures = json.loads(report.read_text(encoding="utf-8"))
        if figures["exit_code"] != 0:
            raise _failure(arguments, f"exit code {figures['exit_code']}", stderr)
        run = Run(figures["seconds"], figures["cpu_seconds"], figures["peak_bytes"])
        return run, stdout.read_text(encoding="utf-8", errors="replace")


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the launcher, what it measures and what that started; the launcher still runs."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failure(arguments: tuple[str, ...], what: str, stderr: Path) -> ProgramError:
    lines = stderr.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    tail = "\n".join(lines[-TAIL_LINES:])
    return ProgramError(
        f"A program failed: {shlex.join(arguments)}",
        expected="exit code 0",
        received=f"{what}\n{tail}".strip(),
    )
