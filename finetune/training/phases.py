"""The phases of a run: which scopes train from which step to which, and at what rate.

A run without --unfreeze-at has one phase. Each later phase trains the scopes of those before it
and more, in a graph of its own, and starts from the checkpoint at its first step with fresh
optimiser slots, as a run of its own would.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from checkpoints.errors import UsageError, counted, listed
from checkpoints.published import Net
from finetune.config import DEFAULT_EPOCHS, TrainConfig, steps_an_epoch
from finetune.training.schedules import TO_THE_END, Schedule
from finetune.training.stages import Stage, read_stages, scopes_by_phase, updating_by_phase

OWN_BATCH_NORM_DECAY = 0.9997
"""What the published nets were trained with, over hundreds of thousands of steps."""

_EPOCHS_A_DECAY = 2


@dataclass(frozen=True)
class Phase:
    """A stretch of steps in which the same scopes train.

    Attributes:
      number: from 1.
      first: how many steps of the run are done before it.
      last: the number of its last step.
      trainable: the scopes that train.
      schedule: the learning rate, counted from the phase's own first step.
      updating: the trainable scopes whose batch norms use and average their batches; those of the
        others use and keep the averages they have. None: all.
      batch_norm_decay: share of its old value that a moving average of a batch norm keeps.
    """

    number: int
    first: int
    last: int
    trainable: tuple[str, ...]
    schedule: Schedule
    updating: tuple[str, ...] | None
    batch_norm_decay: float

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return self.last - self.first

    def describe(self, of: int) -> str:
        """A line before the first step; `of` is the number of phases."""
        if of == 1:
            return self.schedule.describe()
        return (
            f"Phase {self.number} of {of}, steps {self.first + 1} to {self.last}. "
            + self.schedule.describe()
        )


def make_phases(
    config: TrainConfig, net: Net, steps: int, pictures: int, *, is_restored: bool = True
) -> tuple[Phase, ...]:
    """The phases of a run.

    Args:
      config: the options.
      net: whose scopes train.
      steps: of the whole run.
      pictures: for training.
      is_restored: whether the net starts from a checkpoint.

    Raises:
      UsageError: a stage would begin before the first step or after the last.
    """
    epoch = steps_an_epoch(pictures, config.batch_size)
    stages = read_stages(config.unfreeze_at, epoch)
    _refuse_outside(stages, steps, "step")
    bounds = [0, *(stage.at for stage in stages), steps]
    phases = []
    scopes = scopes_by_phase(net, config.trainable, stages)
    updating = updating_by_phase(net, scopes, config.batch_norm_decay, is_restored=is_restored)
    for place, (first, last) in enumerate(itertools.pairwise(bounds)):
        phases.append(
            Phase(
                number=place + 1,
                first=first,
                last=last,
                trainable=scopes[place],
                schedule=_schedule(config, last - first, epoch, is_first=place == 0),
                updating=updating[place],
                batch_norm_decay=config.batch_norm_decay
                if config.batch_norm_decay is not None
                else fitting_decay(last - first),
            )
        )
    return tuple(phases)


def refuse_stages_outside(config: TrainConfig) -> None:
    """Finds stages beyond the run's end where no pictures are needed to tell.

    Raises:
      UsageError: a stage counted as the run is, in steps or in epochs, begins after its end.
    """
    stages = read_stages(config.unfreeze_at)
    if config.steps is not None:
        _refuse_outside([s for s in stages if not s.in_epochs], config.steps, "step")
    else:
        epochs = config.epochs or DEFAULT_EPOCHS
        _refuse_outside([s for s in stages if s.in_epochs], epochs, "epoch")


def _refuse_outside(stages: Sequence[Stage], end: int, unit: str) -> None:
    """Raises UsageError where a stage does not begin within the run; `unit` is step or epoch."""
    outside = [stage for stage in stages if not 0 < stage.at < end]
    if not outside:
        return
    raise UsageError(
        f"--unfreeze-at names {unit}s outside the run's {counted(end, unit)}:\n"
        + listed(f"{unit} {stage.at}: {', '.join(stage.scopes)}" for stage in outside),
        expected=f"{unit}s from 1 to {end - 1}" if end > 1 else f"a run of two {unit}s or more",
        received=", ".join(f"{unit} {stage.at}" for stage in outside),
        next_step="Ask for more --steps or --epochs, or unfreeze earlier.",
    )


def fitting_decay(steps: int) -> float:
    """A batch-norm decay with which the averages follow the data within so many steps.

    What they started from keeps a share of decay ** steps in them: less than 1/20,000 from 100
    steps on. Below that, averages over fewer than ten batches would be noise.
    """
    return min(OWN_BATCH_NORM_DECAY, max(0.9, 1.0 - 10.0 / steps))


def _schedule(config: TrainConfig, steps: int, epoch: int, is_first: bool) -> Schedule:
    warmup = config.warmup_steps if is_first else 0
    if config.schedule in TO_THE_END:
        decay_steps = max(1, steps - warmup)
    else:
        decay_steps = _EPOCHS_A_DECAY * epoch
    return Schedule(
        kind=config.schedule,
        first=config.first_learning_rate if is_first else config.later_learning_rate,
        steps=steps,
        decay_steps=config.decay_steps or decay_steps,
        decay_rate=config.decay_rate,
        staircase=config.staircase,
        last=config.end_learning_rate,
        warmup=warmup,
    )
