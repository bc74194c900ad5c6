"""A continuous evaluator: each checkpoint of a training that goes on, as soon as it is there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import RunError, SlimtuneError, UnsupportedError
from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import Dataset
from finetune.evaluating.evaluation import default_split, evaluate, open_data, refuse_swapped
from finetune.evaluating.scores import Evaluation
from finetune.run import PREFIX, Run, step_of

INTERVAL = 5.0
TIMEOUT = 1800.0

FINISHED, TIMED_OUT = "finished", "timeout"

_INDEX = re.compile(r"(?P<prefix>.+-\d+)\.index", re.DOTALL)
_OWN_INDEX = re.compile(rf"(?P<prefix>{re.escape(PREFIX)}-\d+)\.index")


@dataclass(frozen=True)
class Watched:
    """What watching a training came to.

    Attributes:
      results: an evaluation for each checkpoint, in the order of steps.
      skipped: names of checkpoints that were deleted before they could be read.
      ended: "finished" with the training, or "timeout" where nothing moved for long.
    """

    results: tuple[Evaluation, ...]
    skipped: tuple[str, ...]
    ended: str


def watch(
    model: str | Path,
    data: str | Path | Dataset,
    *,
    split: str | None = None,
    net: str | None = None,
    batch_statistics: bool = False,
    interval: float = INTERVAL,
    timeout: float = TIMEOUT,
    trust: bool = False,
    each: Callable[[Evaluation], None] = lambda found: None,
    progress: Progress = SILENT,
) -> Watched:
    """Evaluates each checkpoint of a run once, those that are there and those still to come.

    It ends when the run has its last step and all is evaluated, or when neither a checkpoint nor
    any other sign of training came for `timeout` seconds. The run may begin later than this.
    Nothing is written into it.

    Args:
      model: a run, which need not be there yet; with `net` any directory of checkpoints.
      data: as for `evaluate`.
      split: as for `evaluate`.
      net: the net of checkpoints without a run.
      batch_statistics: as for `evaluate`.
      interval: seconds between two looks.
      timeout: seconds without a sign of training.
      trust: whether ops that reach files, the network or Python may run.
      each: called with every evaluation as soon as it is made.
      progress: where it tells what it waits for and what it skips.

    Raises:
      UnsupportedError: the model is a single file.
      RunError: nothing came before the time was over.
      DataError: the classes of model and data do not fit.
    """
    refuse_swapped(model, data)
    directory = Path(model)
    if directory.is_file():
        raise UnsupportedError(
            f"{directory} is a file: no checkpoints will come to it.",
            expected="a run directory, or with --net a directory of checkpoints",
            next_step="Leave --watch out.",
        )
    if net is None:
        _refuse_other_directory(directory)
    dataset = data if isinstance(data, Dataset) else open_data(data, progress, model)
    split = split or default_split(data, dataset)
    results: list[Evaluation] = []
    skipped: list[str] = []
    ended = TIMED_OUT
    for prefix in _arriving(directory, net is not None, interval, timeout, progress):
        if prefix is None:
            ended = FINISHED
            break
        try:
            found = evaluate(
                prefix,
                dataset,
                split=split,
                net=net,
                batch_statistics=batch_statistics,
                trust=trust,
                progress=progress,
            )
        except (SlimtuneError, OSError):
            if prefix.with_name(f"{prefix.name}.index").exists():
                raise
            progress.say(f"{prefix.name} was deleted before it could be read.")
            skipped.append(prefix.name)
            continue
        results.append(found)
        each(found)
    if not results:
        raise RunError(
            f"No checkpoint came to {directory}.",
            received=f"nothing in {timeout:g} seconds",
            next_step="Start the training, or wait longer with --timeout SECONDS.",
        )
    return Watched(tuple(results), tuple(skipped), ended)


def _refuse_other_directory(directory: Path) -> None:
    """Raises UnsupportedError where checkpoints would come to a directory that says no net."""
    run = Run(directory.parent if directory.name == Run.BEST else directory)
    if run.exists() and run.directory != directory:
        raise UnsupportedError(
            f"{directory} is the best checkpoint of a run: training goes on beside it.",
            expected="a run directory",
            received=directory,
            next_step=f"Name {run.directory}.",
        )
    if not run.exists() and any(directory.glob("*.index")):
        raise UnsupportedError(
            f"{directory} is no run, and its checkpoints do not say their net.",
            expected="a run directory, or --net with a directory of checkpoints",
            next_step="Add --net NAME; slimtune nets lists them.",
        )


def _arriving(
    directory: Path, is_foreign: bool, interval: float, timeout: float, progress: Progress
) -> Iterator[Path | None]:
    """Prefixes, lowest step first, each once; None when the training has ended."""
    run = Run(directory)
    seen: set[str] = set()
    signs: object = None
    moved = time.monotonic()
    is_said = False
    while True:
        # Asked first: what is written after this question is looked for once more.
        is_over = not is_foreign and run.exists() and run.is_finished()
        new = [prefix for prefix in _present(directory, is_foreign) if prefix.name not in seen]
        if new:
            seen.add(new[0].name)
            yield new[0]
            moved = time.monotonic()
            is_said = False
            continue
        if is_over:
            yield None
            return
        now_signs = _signs(directory)
        if now_signs != signs:
            signs, moved = now_signs, time.monotonic()
        if time.monotonic() - moved >= timeout:
            progress.say(f"{directory}: no sign of training for {timeout:g} seconds.")
            return
        if not is_said:
            progress.say(f"{directory}: waiting for a checkpoint.")
            is_said = True
        time.sleep(min(interval, timeout))


def _present(directory: Path, is_foreign: bool) -> list[Path]:
    """The checkpoints of a directory by their step. The index is what a Saver writes last."""
    if not is_foreign and not Run(directory).exists():
        return []
    pattern = _INDEX if is_foreign else _OWN_INDEX
    found = []
    for file in directory.glob("*.index"):
        match = pattern.fullmatch(file.name)
        if match is not None:
            found.append(file.with_name(match["prefix"]))
    return sorted(found, key=step_of)


def _signs(directory: Path) -> set[tuple[str, int, int]]:
    """Names, times and sizes of what lies in the directory: training changes some of it."""
    signs = set()
    for file in directory.glob("*"):
        try:
            status = file.stat()
        except OSError:
            continue
        signs.add((file.name, status.st_mtime_ns, status.st_size))
    return signs
