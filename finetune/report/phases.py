"""The phases of a run: what trained from when, and what it brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from finetune.report.charts import Mark
from finetune.report.facts import StoredPhase


@dataclass(frozen=True)
class PhaseRow:
    """One phase.

    Attributes:
      number: from 1.
      first: its first step.
      last: its last step.
      scopes: what trains from its beginning on; of later phases what came to it.
      learning_rate: of its first step.
      accuracy: on validation, after its last evaluation; None before that.
      gain: by how much that is more than at the end of the phase before, a share, or None.
    """

    number: int
    first: int
    last: int
    scopes: tuple[str, ...]
    learning_rate: float
    accuracy: float | None
    gain: float | None


def phase_rows(
    phases: Sequence[StoredPhase], metrics: Iterable[Mapping[str, Any]]
) -> list[PhaseRow]:
    """The phases in order; none of a run that has but one.

    Args:
      phases: from plan.json.
      metrics: the lines of metrics.jsonl.
    """
    if len(phases) < 2:
        return []
    scores = {
        int(entry["step"]): float(entry["accuracy"])
        for entry in metrics
        if entry.get("split") == "val"
        and isinstance(entry.get("accuracy"), float)
        and isinstance(entry.get("step"), int)
    }
    rows: list[PhaseRow] = []
    known: tuple[str, ...] = ()
    for number, phase in enumerate(phases, 1):
        within = [step for step in scores if phase.first < step <= phase.last]
        accuracy = scores[max(within)] if within else None
        before = rows[-1].accuracy if rows else None
        rows.append(
            PhaseRow(
                number=number,
                first=phase.first + 1,
                last=phase.last,
                scopes=tuple(scope for scope in phase.trainable if scope not in known),
                learning_rate=phase.learning_rate,
                accuracy=accuracy,
                gain=None if accuracy is None or before is None else accuracy - before,
            )
        )
        known = phase.trainable
    return rows


def phase_marks(phases: Sequence[StoredPhase]) -> list[Mark]:
    """Where phases after the first begin, for the charts."""
    return [
        Mark(phase.first, f"phase {number}")
        for number, phase in enumerate(phases, 1)
        if phase.first
    ]
