"""Checkpoints of a run: written whole or not at all, the last few kept, everything else left alone."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checkpoints import family
from checkpoints.errors import CheckpointError, RunError, listed
from checkpoints.files import temporary_beside
from checkpoints.temporary_names import PARTIAL
from checkpoints.verifying import verify
from exporters.runtime import load_tensorflow, reason_of
from finetune.run import PREFIX, Run, step_of

_OWN_FILE = re.compile(rf"({re.escape(PREFIX)}-\d+)\.(index|meta|data-\d{{5}}-of-\d{{5}})")
_SAVING = "saving"


class RunSaver:
    """Saves and restores the variables of the current graph."""

    def __init__(self, run: Run, keep: int) -> None:
        """Adds the nodes of a Saver to the current graph; call it last.

        Args:
          run: where checkpoints go.
          keep: how many of the last are kept.
        """
        v1 = load_tensorflow().compat.v1
        self._run = run
        self._keep = keep
        self._saver = v1.train.Saver(max_to_keep=keep, save_relative_paths=True)
        self._meta: bytes | None = None

    def restore(self, session: Any, prefix: Path) -> None:
        """Gives every variable its value of a checkpoint of this graph."""
        self._saver.restore(session, str(prefix))

    def save(self, session: Any, step: int) -> Path:
        """Writes model.ckpt-STEP and its .meta, notes it as the latest, and removes old ones.

        TensorFlow's Saver writes into a directory of its own; the files then get their names, the
        index last. So after a kill at any moment a checkpoint with an index is whole.

        Raises:
          RunError: it cannot be written; the checkpoints before it are as they were.
        """
        target = self._run.directory / f"{PREFIX}-{step}"
        with self._written(session, step) as folder:
            target.with_name(f"{target.name}.index").unlink(missing_ok=True)
            files = sorted(folder.iterdir(), key=lambda file: file.suffix == ".index")
            for file in files:
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
                file.replace(target.with_name(file.name))
        older = sorted((s for s in own_steps(self._run.directory) if s < step), reverse=True)
        for old in older[self._keep - 1 :]:
            _remove(self._run.directory, f"{PREFIX}-{old}")
        kept = [f"{PREFIX}-{old}" for old in reversed(older[: self._keep - 1])]
        family.write_state(self._run.directory, target.name, [*kept, target.name])
        return target

    @contextmanager
    def _written(self, session: Any, step: int) -> Iterator[Path]:
        """A directory beside the place with the checkpoint's files, removed at the end."""
        errors = load_tensorflow().errors
        folder = temporary_beside(self._run.directory / _SAVING)
        try:
            folder.mkdir()
            prefix = folder / f"{PREFIX}-{step}"
            self._saver.save(session, str(prefix), write_meta_graph=False, write_state=False)
            prefix.with_name(f"{prefix.name}.meta").write_bytes(self.note_graph())
            yield folder
        except (errors.OpError, OSError) as error:
            raise self._not_written(step, error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def note_graph(self) -> bytes:
        """The message of the graph as it is when this is called first: every .meta holds it."""
        if self._meta is None:
            exported = self._saver.export_meta_graph()
            self._meta = exported.SerializeToString(deterministic=True)
        return self._meta

    def _not_written(self, step: int, error: Exception) -> RunError:
        latest = self._run.latest()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        else:
            reason = reason_of(str(getattr(error, "message", error)))
        return RunError(
            f"The checkpoint of step {step} could not be written to {self._run.directory}.",
            received=reason,
            next_step="Make room on the disk; --resume then goes on "
            + (f"from step {step_of(latest)}, which is whole." if latest else "from the start."),
        )


def own_steps(directory: Path) -> list[int]:
    """The steps of the run's own checkpoints that have an index."""
    matches = (_OWN_FILE.fullmatch(file.name) for file in directory.glob(f"{PREFIX}-*.index"))
    return [step_of(Path(match[1])) for match in matches if match]


def require_whole(run: Run) -> None:
    """Compares the checkpoint that a run goes on from with its checksums.

    Raises:
      CheckpointError: it is damaged or lacks a file; an older one that is whole is named.
    """
    latest = run.latest()
    if latest is None:
        return
    problems = verify(latest).problems
    if not problems:
        return
    older = sorted((s for s in own_steps(run.directory) if s < step_of(latest)), reverse=True)
    whole = next((s for s in older if verify(run.directory / f"{PREFIX}-{s}").is_ok), None)
    best = run.best_directory
    if whole is not None:
        next_step = (
            f"Move {latest}.* away: --resume then goes on from step {whole}, which is whole."
        )
    elif family.latest(best) is not None and verify(best).is_ok:
        next_step = f"Begin a new --run from --checkpoint {best}, of step {run.best_step()}."
    else:
        next_step = "Start again with --overwrite; no other checkpoint of the run is whole."
    raise CheckpointError(
        f"The checkpoint {latest}, from which the run would go on, is damaged.",
        expected="its files as they were written",
        received=listed(f"{one.path}: {one.detail}" for one in problems[:3]).strip(),
        next_step=next_step,
    )


def clear_leftovers(directory: Path) -> None:
    """Removes what a killed trainer left: partial files, and checkpoint files without an index."""
    whole = {f"{PREFIX}-{step}" for step in own_steps(directory)}
    for file in list(directory.iterdir()):
        own = _OWN_FILE.fullmatch(file.name)
        if own and own[1] not in whole:
            file.unlink()
        elif PARTIAL.fullmatch(file.name):
            shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink()


def _remove(directory: Path, name: str) -> None:
    """Removes one checkpoint, the index first: what is left without it counts for nothing."""
    files = [file for file in directory.glob(f"{name}.*") if _OWN_FILE.fullmatch(file.name)]
    for file in sorted(files, key=lambda file: file.suffix != ".index"):
        file.unlink(missing_ok=True)
