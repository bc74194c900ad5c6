"""A run directory: what lies in it, and in which state it is.

config.json            the options, and how many steps they come to
plan.json              the partition, with the SHA-256 of every frozen variable
labels.txt             class names, a line each
signature.json         names of inputs and outputs, class names, preprocessing
inference_graph.pb     the net in evaluation mode, variables kept
metrics.jsonl          a line a logged step or an evaluation
events.out.tfevents.*  the same for TensorBoard
checkpoint             the state file, names relative
model.ckpt-N.*         the last checkpoints
best/                  the checkpoint that scored best
evaluation.json        the last evaluation, picture by picture
report.html            the page about all of it
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from checkpoints import family
from checkpoints.errors import RunError
from checkpoints.files import atomic_directory, temporary_beside, write_json, write_text
from checkpoints.numbers import whole_number
from finetune.config import BROKEN_FILE, TrainConfig
from finetune.training.option_checks import is_counting, is_number

PREFIX = "model.ckpt"
TOTAL_STEPS = "total_steps"
ENDED_AT = "ended_at"
CONTENT_HASH = "content_hash"


@dataclass(frozen=True)
class Run:
    """The files of one run."""

    GRAPH: ClassVar[str] = "inference_graph.pb"
    BEST: ClassVar[str] = "best"

    directory: Path

    @property
    def config_file(self) -> Path:
        """config.json."""
        return self.directory / "config.json"

    @property
    def plan_file(self) -> Path:
        """plan.json."""
        return self.directory / "plan.json"

    @property
    def labels_file(self) -> Path:
        """labels.txt."""
        return self.directory / "labels.txt"

    @property
    def signature_file(self) -> Path:
        """signature.json."""
        return self.directory / "signature.json"

    @property
    def graph_file(self) -> Path:
        """inference_graph.pb."""
        return self.directory / self.GRAPH

    @property
    def metrics_file(self) -> Path:
        """metrics.jsonl."""
        return self.directory / "metrics.jsonl"

    @property
    def evaluation_file(self) -> Path:
        """evaluation.json."""
        return self.directory / "evaluation.json"

    @property
    def report_file(self) -> Path:
        """report.html."""
        return self.directory / "report.html"

    @property
    def best_directory(self) -> Path:
        """best/."""
        return self.directory / self.BEST

    @property
    def prefix(self) -> Path:
        """What the names of the checkpoints begin with."""
        return self.directory / PREFIX

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.config_file.is_file()

    def latest(self) -> Path | None:
        """The newest checkpoint's prefix, or None before the first."""
        return newest_checkpoint(self.directory)

    def step(self) -> int:
        """The step of the newest checkpoint; 0 before the first."""
        latest = self.latest()
        return 0 if latest is None else step_of(latest)

    def write_end(self, step: int) -> None:
        """Notes in config.json that training ended with this step: the last, or stopped early."""
        write_json(self.config_file, {**self._stored_config(), ENDED_AT: step})

    def write_config(self, config: TrainConfig, total_steps: int, content_hash: str = "") -> None:
        """Writes config.json."""
        more = {TOTAL_STEPS: total_steps, CONTENT_HASH: content_hash}
        write_json(self.config_file, {**config.as_json(), **more})

    def content_hash(self) -> str:
        """The hash of the data that the run was begun, or last resumed, with; may be empty."""
        return str(self._stored_config().get(CONTENT_HASH, ""))

    def read_config(self) -> TrainConfig:
        """config.json, checked."""
        stored = self._stored_config()
        for name in (TOTAL_STEPS, ENDED_AT, CONTENT_HASH):
            stored.pop(name, None)
        return TrainConfig.from_json(stored, self.config_file)

    def total_steps(self) -> int:
        """How many steps the run has in all."""
        total = self._stored_config().get(TOTAL_STEPS)
        if not isinstance(total, int):
            raise RunError(
                f"{self.config_file} is not what train writes.",
                expected=f"a whole number {TOTAL_STEPS}",
                received=total,
            )
        return total

    def is_finished(self) -> bool:
        """Whether training ended with the newest checkpoint and all that belongs to it."""
        self.total_steps()
        return self.step() == self._stored_config().get(ENDED_AT)

    def clear(self) -> None:
        """Removes the files of the run and no others; config.json last, so that it stays a run.

        After a kill in the middle it is the old run, unfinished: at the step of the newest of the
        checkpoints that are left, which are whole.
        """
        import shutil

        self._forget_end()
        if self.best_directory.is_dir():
            aside = temporary_beside(self.best_directory)
            self.best_directory.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        indexes = sorted(self.directory.glob(f"{PREFIX}-*.index"), key=_step_of_index)
        patterns = ("checkpoint", f"{PREFIX}-*", "events.out.tfevents.*")
        files = [file for pattern in patterns for file in self.directory.glob(pattern)]
        named = (
            self.plan_file,
            self.labels_file,
            self.signature_file,
            self.graph_file,
            self.metrics_file,
            self.evaluation_file,
            self.report_file,
            self.config_file,
        )
        for file in (*indexes, *files, *named):
            file.unlink(missing_ok=True)

    def _forget_end(self) -> None:
        """Makes a finished run an unfinished one."""
        try:
            stored = read_json(self.config_file)
        except RunError:
            return
        if isinstance(stored, dict) and stored.pop(ENDED_AT, None) is not None:
            write_json(self.config_file, stored)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The objects in the lines of metrics.jsonl; a last line cut by a kill is left out."""
        if not self.metrics_file.is_file():
            return []
        metrics = []
        text = self.metrics_file.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            with suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    metrics.append(entry)
        return metrics

    def forget_metrics_after(self, step: int) -> None:
        """Drops lines of steps that a resumed run does again."""
        done = range(step + 1)
        kept = [entry for entry in self.read_metrics() if entry.get("step", 0) in done]
        write_text(self.metrics_file, "".join(json.dumps(entry) + "\n" for entry in kept))

    def keep_best(self, checkpoint: Path, accuracy: float) -> None:
        """Copies a checkpoint's files to best/, replacing the one before."""
        import shutil

        with atomic_directory(self.best_directory, overwrite=True) as best:
            for file in sorted(checkpoint.parent.glob(f"{checkpoint.name}.*")):
                shutil.copyfile(file, best / file.name)
            family.write_state(best, checkpoint.name, [checkpoint.name])
            write_json(best / "best.json", {"step": step_of(checkpoint), "accuracy": accuracy})

    def best_step(self) -> int:
        """The step of the checkpoint in best/; 0 without one."""
        best = self._best()
        return 0 if best is None else best[0]

    def best_accuracy(self) -> float | None:
        """The accuracy of the checkpoint in best/, or None."""
        best = self._best()
        return None if best is None else best[1]

    def _best(self) -> tuple[int, float] | None:
        """Step and accuracy of the checkpoint in best/, or None."""
        file = self.best_directory / "best.json"
        if not file.is_file():
            return None
        stored = read_object(file)
        step: Any = stored.get("step")
        accuracy: Any = stored.get("accuracy")
        if not (is_counting(step) and is_number(accuracy)):
            raise RunError(
                f"{file} is not what train writes.",
                expected="a step and an accuracy",
                received=f"{step!r} and {accuracy!r}",
                next_step=BROKEN_FILE,
            )
        return step, float(accuracy)

    def _stored_config(self) -> dict[str, Any]:
        return read_object(self.config_file)


def newest_checkpoint(directory: Path) -> Path | None:
    """The prefix of the newest `model.ckpt-N` of a run, or of its best/; None before the first.

    Another checkpoint that somebody put there is not the run's.
    """
    found = family.latest(directory)
    if found is not None and re.fullmatch(rf"{re.escape(PREFIX)}-\d+", found.prefix.name):
        return found.prefix
    own = [file.with_suffix("") for file in directory.glob(f"{PREFIX}-*.index")]
    return max(own, key=step_of, default=None)


def read_json(file: Path) -> Any:
    """Reads a JSON file of a run.

    Raises:
      RunError: it is absent or no JSON.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(
            f"{file} is not there.",
            expected=f"a run directory that train wrote, with {file.name} in it",
            next_step="Name the directory given to train --run.",
        ) from error
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"{file} is no JSON.",
            expected="the file as train wrote it",
            received=error,
            next_step=BROKEN_FILE,
        ) from error


def read_object(file: Path) -> dict[str, Any]:
    """Reads a JSON file of a run that holds an object.

    Raises:
      RunError: it is absent, no JSON or no object.
    """
    stored = read_json(file)
    if not isinstance(stored, dict):
        raise RunError(
            f"{file} is not what train writes.",
            expected="a JSON object",
            received=type(stored).__name__,
            next_step=BROKEN_FILE,
        )
    return stored


def _step_of_index(file: Path) -> int:
    return step_of(file.with_suffix(""))


def step_of(prefix: Path) -> int:
    """N of `model.ckpt-N`; 0 where the name has none."""
    return whole_number(prefix.name.rpartition("-")[2]) or 0
