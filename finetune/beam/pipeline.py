"""The pipeline that has numbered jobs done: in a process of its own, here, or by another engine.

On this machine a process of its own runs the pipeline with its workers: Beam waits without end
for a worker that was killed, and a process can be ended then.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkpoints.errors import DataError, SlimtuneError
from finetune.beam import load_beam
from finetune.beam.options import BeamOptions, parse
from finetune.cloud.paths import Place, as_place
from finetune.cloud.places import new_file
from finetune.datasets.cleaning import pipe_of

Work = Callable[[dict[str, Any], Iterator[bytes]], Iterable[bytes]]
"""Does one job: what is the same for all jobs, and the lines of its order -> the lines of its
answer. It stands at the top level of a module: its name is what is sent."""

ORDERS, ANSWERS, ERRORS = "orders", "answers", "errors"
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_RUN = _START + "from finetune.beam.pipeline import serve; serve()"
_WORK = (
    _START + "import runpy; sys.argv[1:] = []; "
    "runpy.run_module('apache_beam.runners.worker.sdk_worker_main', run_name='__main__')"
)
_REASON_LENGTH = 500
_STEP = re.compile(r"\s*\[while running '[^']*'\]")
"""What Beam adds to messages: a step of the pipeline, which has one that does anything."""


@dataclass(frozen=True)
class Pipeline:
    """What a pipeline does.

    Attributes:
      work: module and name of a Work, with a colon between.
      settings: what is the same for all jobs; may stand in JSON.
      folder: where orders are and answers go.
      count: of jobs.
      arguments: of Beam.
      processes: of this machine, as of BeamOptions.
    """

    work: str
    settings: dict[str, Any]
    folder: str
    count: int
    arguments: Sequence[str]
    processes: int | None


def run_pipeline(
    work: Work, settings: dict[str, Any], folder: Place, count: int, options: BeamOptions
) -> None:
    """Has `count` jobs done, whose orders lie in `folder`.

    Raises:
      DataError: Beam gave up, or a worker of this machine ended.
    """
    name = f"{work.__module__}:{work.__qualname__}"
    pipeline = Pipeline(name, settings, str(folder), count, options.arguments, options.processes)
    if options.processes:
        _run_beside(pipeline)
        return
    try:
        _run(pipeline, None)
    except Exception as err:
        raise _failed(_reason(err), "Look into the workers' logs.") from err


def file_of(folder: Place, kind: str, number: int) -> Place:
    """The order, answer or error of a job."""
    return folder / kind / f"{number:08d}"


def _run_beside(pipeline: Pipeline) -> None:
    """In a process that leads a group of its own, with the workers in it."""
    descriptor, name = tempfile.mkstemp(prefix="slimtune-beam-", suffix=".log")
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _RUN, json.dumps(sys.path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=descriptor,
        start_new_session=True,
    )
    os.close(descriptor)
    has_failed = False
    try:
        # The pipe stays open: when it closes, the process knows that nobody waits for it.
        with contextlib.suppress(BrokenPipeError):
            pipe_of(process.stdin).write(json.dumps(asdict(pipeline)).encode("ascii") + b"\n")
            pipe_of(process.stdin).flush()
        reason = pipe_of(process.stdout).read().decode("utf-8", "replace")
        if process.wait() != 0:
            has_failed = True
            raise _failed(
                reason or f"its process ended with exit {process.returncode}", f"Look into {name}."
            )
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe_of(pipe).close()
        process.wait()
        if not has_failed:
            Path(name).unlink()


def serve() -> None:
    """What the process of its own does: a pipeline from stdin; why it failed to stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever is printed is for the log; and nobody else keeps the pipe open.
    os.dup2(2, 1)

    def give_up(reason: str) -> None:
        answers.write(reason.encode("utf-8", "replace"))
        answers.flush()
        os._exit(1)

    def give_up_later(raised: threading.ExceptHookArgs) -> None:
        # A thread that only lost its connection may come before the one that knows why.
        time.sleep(0 if str(raised.exc_value) else 1)
        give_up(_reason(raised.exc_value))

    # Beam notices in a thread of its own that a worker has ended, and waits for it all the same.
    threading.excepthook = give_up_later
    pipeline = Pipeline(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _run(pipeline, Path(sys.argv[2]))
    except Exception as err:  # noqa: BLE001 - whatever it is, the parent tells it
        give_up(_reason(err))
    os._exit(0)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    Path(sys.argv[2]).unlink(missing_ok=True)
    os.killpg(0, signal.SIGKILL)


def _run(pipeline: Pipeline, log: Path | None) -> None:
    load_beam()
    import apache_beam as beam

    logger = logging.getLogger("apache_beam")
    level = logger.level
    # Every step it takes, and what fails at great length; an error tells it all the same.
    logger.setLevel(logging.CRITICAL)
    try:
        with beam.Pipeline(**_engine(pipeline, log)) as steps:
            _ = (
                steps
                | "count" >> beam.Create([pipeline.count])
                | "number" >> beam.FlatMap(_numbers)
                | "share out" >> beam.Reshuffle()
                | "work" >> beam.Map(_run_one, pipeline.work, pipeline.settings, pipeline.folder)
            )
    finally:
        logger.setLevel(level)


def _engine(pipeline: Pipeline, log: Path | None) -> dict[str, Any]:
    """Options, and on this machine the runner.

    That is the part of Beam's DirectRunner that is Python: the rest of it fetches a program from
    the internet.
    """
    from apache_beam.options.pipeline_options import DirectOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    options = parse(pipeline.arguments)
    if pipeline.processes is None:
        return {"options": options}
    direct = options.view_as(DirectOptions)
    direct.direct_running_mode = "in_memory"
    direct.direct_num_workers = max(1, pipeline.processes)
    if log is None:
        return {"options": options, "runner": FnApiRunner()}
    # Beam's own command has no quotes, which a path with a blank needs, and writes to the terminal.
    worker = shlex.join([sys.executable, "-I", "-c", _WORK, json.dumps(sys.path)])
    place = shlex.quote(str(log))
    command = f"exec {worker} </dev/null >>{place} 2>&1"
    environment = SubprocessSDKEnvironment.from_command_string(command_string=command)
    return {"options": options, "runner": FnApiRunner(default_environment=environment)}


def _numbers(count: int) -> Sequence[int]:
    return range(count)


def _run_one(number: int, name: str, settings: dict[str, Any], folder: str) -> int:
    """One job, in a worker. What is wrong with the data is told in a file, and Beam goes on."""
    module, _, function = name.partition(":")
    work: Work = getattr(importlib.import_module(module), function)
    place = as_place(folder)
    try:
        with (
            file_of(place, ORDERS, number).open("rb") as order,
            new_file(file_of(place, ANSWERS, number)) as answer,
        ):
            for line in work(settings, (line.rstrip(b"\n") for line in order)):
                answer.write(line + b"\n")
    except SlimtuneError as err:
        with new_file(file_of(place, ERRORS, number)) as file:
            file.write(json.dumps(err.as_json()).encode())
    return number


def _failed(reason: str, where: str) -> DataError:
    return DataError(
        "The Beam pipeline failed.",
        received=reason,
        next_step=f"{where} Every worker needs this version of slimtune, and the paths of "
        "pictures and output must lead to the same files everywhere.",
    )


def _reason(err: BaseException | None) -> str:
    """Beam raises whatever its engines and workers raise, the reason at the end of many lines."""
    lines = [line.strip() for line in _STEP.sub("", str(err)).splitlines() if line.strip()]
    return lines[-1][:_REASON_LENGTH] if lines else type(err).__name__
