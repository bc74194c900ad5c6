"""What a training run came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunResult:
    """What a training run came to.

    Attributes:
      run: the run directory.
      step: steps done in all.
      loss: of the last step; None where nothing was left to do.
      accuracy: on the validation split after the last step; None without such a split.
      best_accuracy: of the checkpoint in best/.
      totals: counts of the plan.
      frozen_verified: how many frozen variables were proved bit-equal after training.
      pictures_per_second: over the steps of this call, evaluation and saving apart.
      finished_before: whether the run was finished already and nothing was done.
      is_follower: whether another process, the chief, wrote the run.
    """

    run: str
    step: int
    loss: float | None = None
    accuracy: float | None = None
    best_accuracy: float | None = None
    totals: dict[str, int] = field(default_factory=dict)
    frozen_verified: int = 0
    pictures_per_second: float | None = None
    finished_before: bool = False
    is_follower: bool = False

    def as_json(self) -> dict[str, Any]:
        """What `train --json` prints."""
        return asdict(self)
