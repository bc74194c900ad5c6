"""The phases of a run: which scopes train from which step to which, and at what rate.

A run without --unfreeze-at has one phase. Each later phase trains the scopes of those before it
and more, in a graph of its own, and starts from the checkpoint at its first step with fresh
optimiser slots, as a run of its own would.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from checkpoints.errors import UsageError, listed
from checkpoints.published import Net
from checkpoints.scopes import in_scope
from finetune.config import TrainConfig, steps_an_epoch
from finetune.planning import default_trainable, named_scopes
from finetune.training.option_checks import UNFREEZING
from finetune.training.schedules import TO_THE_END, Schedule

OWN_BATCH_NORM_DECAY = 0.9997
"""What the published nets were trained with, over hundreds of thousands of steps."""

_EPOCHS_A_DECAY = 2


@dataclass(frozen=True)
class Stage:
    """What one --unfreeze-at asks for.

    Attributes:
      at: steps that are done before it.
      scopes: what trains from then on, beside what trains already.
    """

    at: int
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Phase:
    """A stretch of steps in which the same scopes train.

    Attributes:
      number: from 1.
      first: how many steps of the run are done before it.
      last: the number of its last step.
      trainable: the scopes that train.
      schedule: the learning rate, counted from the phase's own first step.
      batch_norm_decay: share of its old value that a moving average of a batch norm keeps.
    """

    number: int
    first: int
    last: int
    trainable: tuple[str, ...]
    schedule: Schedule
    batch_norm_decay: float

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return self.last - self.first

    def describe(self, of: int) -> str:
        """A line before the first step; `of` is the number of phases."""
        if of == 1:
            return self.schedule.describe()
        scopes = ", ".join(self.trainable)
        return (
            f"Phase {self.number} of {of}, steps {self.first + 1} to {self.last}, trains {scopes}. "
            + self.schedule.describe()
        )


def read_stages(texts: tuple[str, ...], epoch: int) -> list[Stage]:
    """The stages of --unfreeze-at, those of the same step joined, in order.

    Args:
      texts: as typed and split at commas: ("100:Net/A", "Net/B", "3e:Net/C").
      epoch: steps of one epoch.
    """
    found: dict[int, list[str]] = {}
    at = 0
    for text in texts:
        beginning = UNFREEZING.fullmatch(text)
        if beginning is not None:
            at = int(beginning[1]) * (epoch if beginning[2] else 1)
        scope = text if beginning is None else beginning[3]
        found.setdefault(at, []).append(scope)
    return [Stage(at, tuple(scopes)) for at, scopes in sorted(found.items())]


def make_phases(config: TrainConfig, net: Net, steps: int, pictures: int) -> tuple[Phase, ...]:
    """The phases of a run.

    Args:
      config: the options.
      net: whose scopes train.
      steps: of the whole run.
      pictures: for training.

    Raises:
      UsageError: a stage would begin before the first step or after the last.
    """
    epoch = steps_an_epoch(pictures, config.batch_size)
    stages = read_stages(config.unfreeze_at, epoch)
    outside = [stage for stage in stages if not 0 < stage.at < steps]
    if outside:
        raise UsageError(
            f"--unfreeze-at names steps outside the run's {steps} steps:\n"
            + listed(f"step {stage.at}: {', '.join(stage.scopes)}" for stage in outside),
            expected=f"steps from 1 to {steps - 1}" if steps > 1 else "a run of two steps or more",
            received=", ".join(f"step {stage.at}" for stage in outside),
            next_step="Ask for more --steps or --epochs, or unfreeze earlier.",
        )
    bounds = [0, *(stage.at for stage in stages), steps]
    trainable = default_trainable(net, config.trainable)
    phases = []
    for place, (first, last) in enumerate(itertools.pairwise(bounds)):
        if place:
            more = named_scopes(net, stages[place - 1].scopes)
            trainable = _widest([*trainable, *more])
        phases.append(
            Phase(
                number=place + 1,
                first=first,
                last=last,
                trainable=trainable,
                schedule=_schedule(config, last - first, epoch, is_first=place == 0),
                batch_norm_decay=config.batch_norm_decay
                if config.batch_norm_decay is not None
                else fitting_decay(last - first),
            )
        )
    return tuple(phases)


def _widest(scopes: Sequence[str]) -> tuple[str, ...]:
    """The scopes, without those that lie in another of them."""
    different = dict.fromkeys(scopes)
    return tuple(
        scope
        for scope in different
        if not any(in_scope(scope, other) for other in different if other != scope)
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
