"""Training by the recipe: restore the frozen, initialise the rest, train exactly the chosen scopes."""

from __future__ import annotations

import errno
import functools
import math
from pathlib import Path

from checkpoints.errors import RunError, UsageError, listed
from checkpoints.progress import SILENT, Progress
from checkpoints.scopes import clean_scopes
from finetune.config import TrainConfig
from finetune.datasets.dataset import is_dataset_directory, read_dataset
from finetune.planning import default_exclude
from finetune.report import write_report
from finetune.run import Run, read_object
from finetune.trained_classes import refuse_head_of_other_classes, refuse_other_classes
from finetune.training.checkpointing import clear_leftovers, require_whole
from finetune.training.devices import use_device
from finetune.training.following import Told, follow
from finetune.training.result import RunResult
from finetune.training.run_lock import LOCK, run_lock
from finetune.training.start import find_start, to_learn
from finetune.training.trainer import Trainer
from finetune.training_data import built_beside, find_dataset, has_changed
from finetune.workers.cluster import find_cluster
from finetune.workers.workers import Workers

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a full disk, a quota and a limit on the size of files are called."""


def train(config: TrainConfig, *, progress: Progress = SILENT) -> RunResult:
    """Trains, or goes on with, a run.

    Raises:
      RunError: the directory holds an unfinished run, or a finished one with other options, or
        something else, or somebody trains there; or the disk is full; or a process that trains
        with this one was lost, or was started otherwise.
      CheckpointError: the checkpoint to go on from is damaged.
      PlanError: net and checkpoint do not fit, or a scope matches nothing, or a head would be
        restored that was trained for other classes.
      DataError: labels and classes do not fit, or are not those of the run to go on with; or
        there is nothing to train on.
      UsageError: an option needs one class a picture, and pictures have several; or TF_CONFIG or
        --hosts is broken, or a batch cannot be shared out.
    """
    if config.device is not None:
        use_device(config.device)
    workers = Workers(find_cluster(config.hosts), progress)
    if not workers.is_chief:
        return follow(config, workers, progress)
    run = Run(Path(config.run))
    if config.resume and not run.exists():
        raise RunError(
            f"There is no run in {run.directory} to go on with.",
            expected=f"{run.config_file.name} in it",
            next_step="Leave --resume out to begin one.",
        )
    with run_lock(run.directory, progress):
        try:
            with workers:
                return _train(run, config, workers, progress)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise RunError(
                f"There is no room to write the files of the run {run.directory}.",
                received=error.strerror,
                next_step=f"Make room on the disk; --resume then goes on from step {run.step()}.",
            ) from error


def _require_like_parts(batch_size: int, count: int) -> None:
    if batch_size % count:
        raise UsageError(
            f"A batch of {batch_size} pictures cannot be shared out evenly to {count} processes.",
            expected=f"a multiple of {count}: --batch-size is that of all processes together",
            received=f"--batch-size {batch_size}",
            next_step=f"--batch-size {math.ceil(batch_size / count) * count}",
        )


def _train(run: Run, config: TrainConfig, workers: Workers, progress: Progress) -> RunResult:
    """What `train` does while it holds the run directory."""
    clear_leftovers(run.directory)
    if config.resume:
        stored = run.read_config()
        wanted, config = config, stored.resumed(config)
        changes = config.changes_from(stored)
        same_end = (config.steps, config.epochs) == (stored.steps, stored.epochs)
        if same_end and config.patience == stored.patience and run.is_finished():
            _refuse_other_options(run, stored, wanted)
            return _finished(run, workers, progress)
        require_whole(run)
        if changes:
            progress.say("Changed on resuming: " + "; ".join(changes) + ".")
    elif run.exists() and not config.overwrite:
        if run.is_finished():
            _refuse_other_options(run, run.read_config(), config)
            return _finished(run, workers, progress)
        raise RunError(
            f"{run.directory} holds an unfinished run, at step {run.step()} of "
            f"{run.total_steps()}.",
            next_step="Add --resume to go on with it, or --overwrite to start again.",
        )
    else:
        _refuse_other_files(run)
    _require_like_parts(config.batch_size, workers.count)

    weights_found = functools.cache(lambda: find_start(config, progress))

    def check_classes(classes: tuple[str, ...]) -> None:
        if config.resume:
            refuse_other_classes(run, config.data, classes)
        else:
            left_out = clean_scopes(default_exclude(weights_found(), config.exclude))
            refuse_head_of_other_classes(weights_found(), left_out, classes)

    dataset = find_dataset(
        config.data,
        built_beside(run.directory),
        before_building=weights_found,
        check=check_classes if config.label_offset is None else None,
        progress=progress,
    )
    dataset = to_learn(dataset, config)
    check_classes(dataset.classes)
    if config.resume and run.content_hash() not in ("", dataset.content_hash):
        progress.say(
            f"Warning: {config.data} holds other pictures than the run was begun with; it goes on "
            "with these, and is not what one run on either would be."
        )
    steps = config.total_steps(dataset.splits["train"].count)
    if run.step() > steps and config.resume:
        raise RunError(
            f"{run.directory} is at step {run.step()}, beyond the {steps} steps asked for.",
            next_step="Ask for more --steps or --epochs.",
        )
    first = run.step() if config.resume else 0
    weights = weights_found()
    workers.share(Told.of(run, config, dataset, first).as_json())
    result = Trainer(run, config, dataset, weights, steps, first, workers, progress).train()
    write_report(run.directory, progress=progress)
    run.write_end(result.step)
    return result


def _refuse_other_files(run: Run) -> None:
    """A new run goes into a new or empty directory, or replaces a run."""
    if run.exists() or not run.directory.is_dir():
        return
    others = sorted(path.name for path in run.directory.iterdir() if path.name != LOCK)
    if others:
        raise RunError(
            f"{run.directory} is not empty and holds no run.",
            expected="a new or empty directory",
            received=", ".join(others[:5]),
            next_step="Name another --run.",
        )


def _refuse_other_options(run: Run, stored: TrainConfig, wanted: TrainConfig) -> None:
    """A finished run answers only to the options and the data it was trained with."""
    refused = stored.differing(wanted, besides=("data",))
    is_same = Path(wanted.data).resolve() == Path(stored.data).resolve()
    hashes = {run.content_hash()}
    if is_dataset_directory(Path(wanted.data)):
        hashes.add(read_dataset(Path(wanted.data)).content_hash)
    if "" not in hashes and len(hashes) == 2:
        refused.insert(
            0, f"DATA: the run has {stored.data}, received other pictures in {wanted.data}"
        )
    elif not is_same and ("" in hashes or not is_dataset_directory(Path(wanted.data))):
        refused.insert(0, f"DATA: the run has {stored.data}, received {wanted.data}")
    elif is_same and has_changed(Path(stored.data), built_beside(run.directory)):
        refused.insert(0, f"DATA: {stored.data} has changed since the run was trained on it")
    if refused:
        raise RunError(
            f"The run in {run.directory} is finished, and had other options:\n{listed(refused)}",
            expected="the options it was begun with, or none",
            next_step="--resume with more --steps or --epochs goes on with it; --overwrite starts "
            "again; another --run begins a new one.",
        )


def _finished(run: Run, workers: Workers, progress: Progress) -> RunResult:
    workers.share(Told(str(run.directory), first=run.step()).as_json())
    workers.part_ways()
    steps = run.total_steps()
    progress.say(
        f"{run.directory} is finished: {run.step()} of {steps} steps. To go on: --resume with "
        f"more --steps or --epochs, as in --resume --steps {2 * steps}; --overwrite starts again."
    )
    evaluations = [entry for entry in run.read_metrics() if entry.get("split") == "val"]
    return RunResult(
        run=str(run.directory),
        step=run.step(),
        accuracy=evaluations[-1].get("accuracy") if evaluations else None,
        best_accuracy=run.best_accuracy(),
        totals=read_object(run.plan_file).get("totals", {}),
        finished_before=True,
    )
