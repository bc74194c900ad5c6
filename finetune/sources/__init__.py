"""Where pictures come from. Each source is one module that gives a Source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class SourceItem(NamedTuple):
    """One picture of a source.

    Attributes:
      path: of its file, relative to the source's root.
      label: its class's place in the source's classes.
      split: train, val or test where the source says it, else None.
    """

    path: str
    label: int
    split: str | None


@dataclass(frozen=True)
class Source:
    """Pictures with their classes, before they are opened.

    Attributes:
      root: what the items' paths are relative to.
      name: what the dataset is called.
      classes: class names in their order, those without pictures too.
      items: every picture.
      splits: the splits that the source itself names; empty where the pictures are still to
        be split.
      ignored: files that are no pictures by name and by their first bytes.
      outline: the tree as it was understood, for people.
    """

    root: Path
    name: str
    classes: tuple[str, ...]
    items: Sequence[SourceItem]
    splits: tuple[str, ...]
    ignored: tuple[str, ...]
    outline: str
