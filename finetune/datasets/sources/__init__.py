"""Where pictures come from. Each source is one module that gives a Source.

The table SOURCES is all that the rest of the code knows of them. A source's module has

- `recognises(path)`: whether the path is its kind, from names alone;
- `read_source(path, depth, progress)`: the Source, without opening the pictures.

What opens one picture is the `read_item(root, path)` of the module that READERS names.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints.progress import SILENT, Progress
from finetune.cloud.paths import CloudPath, Place

SOURCES: dict[str, str] = {
    "idx": "finetune.datasets.sources.idx",
    "cifar": "finetune.datasets.sources.cifar",
    "records": "finetune.datasets.sources.records",
    "folders": "finetune.datasets.sources.folders",
}
"""Kinds of sources -> their modules, in the order in which they are asked; folders take what is left."""

READERS: dict[str, str] = {
    "files": "finetune.datasets.sources.files",
    "idx": "finetune.datasets.sources.idx",
    "cifar": "finetune.datasets.sources.cifar",
    "records": "finetune.datasets.sources.records",
}
"""Where one picture lies -> the module whose `read_item(root, path)` gives its bytes."""


class Box(NamedTuple):
    """Where something is in a picture, in fractions of its width and height, 0 to 1."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float

    @property
    def is_inside(self) -> bool:
        """Whether it has an area and lies inside its picture; training refuses any other."""
        return 0 <= self.xmin < self.xmax <= 1 and 0 <= self.ymin < self.ymax <= 1


class SourceItem(NamedTuple):
    """One picture of a source.

    Attributes:
      path: of its file, relative to the source's root; of a picture inside a larger file that
        file's path, a colon and the picture's number.
      label: its class's place in the source's classes.
      split: train, val or test where the source says it, else None.
      boxes: where in the upright picture the thing is, if the source says it.
      name: what the picture is called where that is another name than its path, else "".
      labels: all its classes in a source whose pictures have several; empty in others.
    """

    path: str
    label: int
    split: str | None
    boxes: tuple[Box, ...] = ()
    name: str = ""
    labels: tuple[int, ...] = ()

    @property
    def all_labels(self) -> tuple[int, ...]:
        """Its classes, one or several."""
        return self.labels or (self.label,)


class RejectedItem(NamedTuple):
    """A picture that was found useless before it was opened.

    Attributes:
      path: as of a SourceItem.
      kind: as in PictureError.
      detail: the reason.
    """

    path: str
    kind: str
    detail: str


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
      outline: the source as it was understood, for people.
      described: what it is, in a few words.
      hints: what may not be as meant, each a line or more for people.
      reader: the key of READERS for its pictures.
      rejected: pictures that cannot be used, as it turned out already.
    """

    root: Place
    name: str
    classes: tuple[str, ...]
    items: Sequence[SourceItem]
    splits: tuple[str, ...]
    ignored: tuple[str, ...]
    outline: str
    described: str
    hints: tuple[str, ...] = ()
    reader: str = "files"
    rejected: tuple[RejectedItem, ...] = ()


def find_source(
    path: Place, depth: int = 1, manifest: Path | None = None, *, progress: Progress = SILENT
) -> Source:
    """The pictures of a path, whatever kind of source it is.

    Args:
      path: a folder, or the file of a source that is one file; in cloud storage class folders.
      depth: how many levels of folders make a class's name, in class folders.
      manifest: a CSV file that says what the pictures below `path` show.
      progress: told where reading the labels takes its time.

    Raises:
      NotFoundError: nothing is there.
      DataError: there are no pictures, or something is wrong with the source as a whole.
    """
    if manifest is not None:
        from finetune.datasets.sources.manifest import read_manifest

        return read_manifest(path, Path(manifest), progress)
    if isinstance(path, CloudPath):
        from finetune.datasets.sources.folders import read_cloud_source

        return read_cloud_source(path, depth)
    for name in SOURCES.values():
        module = importlib.import_module(name)
        if module.recognises(path):
            break
    source: Source = module.read_source(path, depth, progress)
    return source


def read_item(reader: str, root: Place, path: str) -> bytes:
    """The bytes of one picture, in a form of which `finetune.datasets.pictures.clean_bytes` makes a record.

    Args:
      reader: a key of READERS.
      root: the source's root.
      path: the item's.

    Raises:
      PictureError: it cannot be read.
    """
    module: Any = importlib.import_module(READERS[reader])
    data: bytes = module.read_item(root, path)
    return data
