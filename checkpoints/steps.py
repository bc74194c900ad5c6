"""The training step that a checkpoint is of."""

from __future__ import annotations

from checkpoints.family import Family
from checkpoints.mapping import SavedVariables
from checkpoints.numbers import whole_number

STEP = "step"
"""The key under which files of arrays keep the step in their metadata."""


def step_variables(saved: SavedVariables) -> list[str]:
    """The names of the variables that count training steps: whole numbers, one each."""
    return [
        name
        for name, variable in saved.variables.items()
        if saved.role(name) == "step" and not variable.shape and variable.dtype.kind in "iu"
    ]


def step_of(saved: SavedVariables, family: Family | None = None) -> int | None:
    """The training step: of the variable global_step, else the metadata, else the file's name.

    Where there are several such variables it is the largest.

    Raises:
      CheckpointError: the variable cannot be read.
    """
    steps = [int(saved[name]) for name in step_variables(saved)]
    if steps:
        return max(steps)
    step = whole_number(saved.metadata.get(STEP, ""))
    return step if step is not None or family is None else family.step
