"""What a check finds, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints.errors import SlimtuneError
from finetune.datasets.pictures import PIXELS_TO_PNG

FEW = 10
"""Fewer pictures than this may well be of one class by chance."""

_FAULTY_CHANGES = ("bytes after the end", " named .")
"""Changes that tell of a fault in the file, not only of another format."""


class Problem(NamedTuple):
    """One finding.

    Attributes:
      kind: a word to sort by: truncated, empty, not-a-picture, damaged, too-large, unsupported,
        unreadable, trailing-bytes, wrong-suffix, duplicate, layout, empty-class,
        similar-classes, damaged-record, changed-shard, count, repeated-record, missing-feature,
        label, one-label, labels-file, class-name, format, size, box.
      path: the file, or the folder.
      detail: what is wrong with it.
    """

    kind: str
    path: str
    detail: str


@dataclass
class CheckResult:
    """What a check met.

    Attributes:
      path: what was checked.
      kind: "pictures", "dataset" or "records" (TFRecord files that are no dataset).
      num_pictures: pictures looked at.
      classes: class names; empty where they could not be told.
      problems: the findings.
      notes: what is put right or left out without harm.
    """

    path: Path
    kind: str
    num_pictures: int = 0
    classes: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The object `data check --json` prints."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "pictures": self.num_pictures,
            "classes": list(self.classes),
            "problems": [problem._asdict() for problem in self.problems],
            "notes": [note._asdict() for note in self.notes],
        }


def in_one_line(error: SlimtuneError) -> str:
    """What happened and what to do, without line breaks."""
    parts = (error.message, error.next_step)
    return " ".join(" ".join(part.split()) for part in parts if part)


def sort_change(result: CheckResult, path: str, change: str) -> None:
    """Adds what cleaning changed: a problem where it tells of a fault, else a note.

    What has no format cannot have the wrong one: for plain pixels there is no note.
    """
    if change == PIXELS_TO_PNG:
        return
    if _FAULTY_CHANGES[0] in change:
        result.problems.append(Problem("trailing-bytes", path, change))
    elif _FAULTY_CHANGES[1] in change:
        result.problems.append(Problem("wrong-suffix", path, change))
    else:
        result.notes.append(Problem("changed", path, change))
