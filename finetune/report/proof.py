"""Whether the frozen variables are what they were: the checkpoint's bytes against plan.json."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import checkpoints
from checkpoints.errors import SlimtuneError
from checkpoints.progress import Progress
from finetune.report.facts import StoredPlan
from finetune.run import Run


@dataclass(frozen=True)
class FrozenProof:
    """What comparing the frozen variables gave.

    Attributes:
      frozen: how many variables the plan froze.
      equal: how many of them hold the bytes they started from.
      changed: names of those that do not, or that the checkpoint lacks.
      checkpoint: name of the checkpoint they were read from, or None.
      reason: why nothing was compared, or None.
    """

    frozen: int
    equal: int = 0
    changed: tuple[str, ...] = ()
    checkpoint: str | None = None
    reason: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every frozen variable was compared and found equal."""
        return self.equal == self.frozen


def prove_frozen(run: Run, plan: StoredPlan, progress: Progress) -> FrozenProof:
    """Compares the newest checkpoint with the SHA-256 that plan.json has of each frozen variable.

    They were noted when training began, so equal sums say that training changed nothing there.
    """
    frozen = plan.frozen
    if not frozen:
        return FrozenProof(0)
    try:
        latest = run.latest()
        if latest is None:
            return FrozenProof(len(frozen), reason="the run has no checkpoint yet")
        if any(variable.sha256 is None for variable in frozen):
            return FrozenProof(len(frozen), reason="plan.json has no checksums of them")
        changed = []
        with (
            checkpoints.open(latest) as saved,
            progress.task("Comparing frozen variables", len(frozen), "variables") as task,
        ):
            for variable in frozen:
                name = variable.name
                if name not in saved or (
                    sha256(saved.bytes_of(name)).hexdigest() != variable.sha256
                ):
                    changed.append(name)
                task.advance()
    except SlimtuneError as error:
        return FrozenProof(len(frozen), reason=error.message)
    return FrozenProof(len(frozen), len(frozen) - len(changed), tuple(changed), latest.name)
