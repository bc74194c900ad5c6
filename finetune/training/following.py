"""A process that trains a run together with its chief, and writes nothing that stays."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.errors import DataError, RunError, listed
from checkpoints.progress import Progress
from finetune.config import TrainConfig
from finetune.datasets.dataset import Dataset
from finetune.run import Run
from finetune.training.result import RunResult
from finetune.training.start import find_start, to_learn
from finetune.training.trainer import Trainer
from finetune.training_data import built_beside, find_dataset
from finetune.workers.workers import Workers


@dataclass(frozen=True)
class Told:
    """What the chief tells the others before the first step.

    Attributes:
      run: the directory that the chief writes.
      config: its options, as config.json holds them; None where the run is finished already.
      first: how many steps are done.
      content_hash: of the dataset.
    """

    run: str
    config: dict[str, Any] | None = None
    first: int = 0
    content_hash: str = ""

    @classmethod
    def of(cls, run: Run, config: TrainConfig, dataset: Dataset, first: int) -> Told:
        """What there is to tell of a run."""
        return cls(str(run.directory), config.as_json(), first, dataset.content_hash)

    def as_json(self) -> dict[str, Any]:
        """As it travels."""
        return dataclasses.asdict(self)


def follow(config: TrainConfig, workers: Workers, progress: Progress) -> RunResult:
    """Trains with the chief until it is done.

    Args:
      config: the options of this process: those of the chief, or left out.
      workers: the processes.
      progress: told what happens.

    Raises:
      RunError: options differ from the chief's, or a process was lost.
      DataError: the pictures are others than the chief's.
    """
    with workers:
        told = Told(**workers.share())
        if told.config is None:
            workers.part_ways()
            progress.say(f"{told.run} is finished; there is nothing to train.")
            return RunResult(told.run, told.first, finished_before=True, is_follower=True)
        chiefs = _agreed(config, told)
        run = Run(workers.scratch() / "run")
        dataset = find_dataset(chiefs.data, built_beside(run.directory), progress=progress)
        dataset = to_learn(dataset, chiefs)
        if dataset.content_hash != told.content_hash:
            raise DataError(
                f"{chiefs.data} holds other pictures here than on the chief's machine.",
                expected=f"the content {told.content_hash or 'that has no hash'}",
                received=dataset.content_hash or "no hash",
                next_step="Copy the chief's dataset here, or name one that all can read.",
            )
        progress.say(
            f"Worker {workers.index} of {workers.count} processes, the chief among them; it alone "
            f"writes {told.run}."
        )
        steps = chiefs.total_steps(dataset.splits["train"].count)
        weights = find_start(chiefs, progress)
        trainer = Trainer(run, chiefs, dataset, weights, steps, told.first, workers, progress)
        return dataclasses.replace(trainer.train(), run=told.run, is_follower=True)


def _agreed(config: TrainConfig, told: Told) -> TrainConfig:
    """The chief's options, with the places of this machine."""
    chiefs = TrainConfig.from_json(told.config, Path(told.run))
    refused = chiefs.differing(config, besides=("data",))
    if refused:
        raise RunError(
            f"This process was started with other options than its chief:\n{listed(refused)}",
            expected="the same command on every machine",
            next_step="Start all again with one command.",
        )
    return dataclasses.replace(chiefs, data=config.data, resume=config.resume)
