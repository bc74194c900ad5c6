"""What drawing a set of pictures gives back, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import UsageError


@dataclass(frozen=True)
class Drawn:
    """What was written: the directory, the class names in order, how many pictures in all."""

    out_dir: Path
    classes: tuple[str, ...]
    count: int


def refuse_count(per_class: int, *, at_least: int) -> None:
    """Raises UsageError for fewer pictures of a class than `at_least`."""
    if per_class < at_least:
        raise UsageError(
            "Too few pictures of each class.",
            expected=f"{at_least} or more",
            received=per_class,
            next_step=f"--per-class {at_least}",
        )
