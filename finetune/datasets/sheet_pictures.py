"""Which pictures a contact sheet shows: of each class some, from a dataset or from any source."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.dataset import canonical_split, read_dataset
from finetune.datasets.picture_formats import PictureError, is_decoded_by_tensorflow
from finetune.datasets.pictures import clean, clean_bytes
from finetune.datasets.sources import SourceItem, find_source, read_item


class Shown(NamedTuple):
    """A picture's bytes, and its boxes [n, 4]: ymin, xmin, ymax, xmax in fractions."""

    encoded: bytes
    boxes: NDArray[np.float32]


Rows = dict[int, list[Shown]]


def from_folders(
    root: Path, split: str | None, wanted: int, depth: int
) -> tuple[str, dict[int, str], Rows]:
    """Pictures spread evenly over each class's files; those that cannot be read are passed over.

    Args:
      root: pictures of any source.
      split: one that the pictures come in, or None: all.
      wanted: pictures of each class.
      depth: how many levels of folders make a class's name.

    Returns:
      A title, the name of each label, and its pictures.

    Raises:
      NotFoundError: the pictures do not come in this split.
      DataError: there are no pictures.
    """
    source = find_source(root, depth)
    by_label: dict[int, list[SourceItem]] = {}
    if split is not None and canonical_split(split) not in source.splits:
        raise NotFoundError(
            f"{root} has no split {split!r} of its own.",
            expected=f"one of {', '.join(source.splits)}"
            if source.splits
            else "no --split: these pictures are dealt to splits by data build",
            received=split,
        )
    for item in source.items:
        if split is not None and item.split != canonical_split(split):
            continue
        by_label.setdefault(item.label, []).append(item)
    rows: Rows = {}
    for label, items in by_label.items():
        step = max(1, len(items) // wanted)
        for item in [*items[::step], *items]:
            if len(rows.get(label, ())) == wanted:
                break
            try:
                encoded = clean(read_item(source.reader, source.root, item.path)).encoded
            except PictureError:
                continue
            if all(encoded != shown.encoded for shown in rows.get(label, ())):
                boxes = [(box.ymin, box.xmin, box.ymax, box.xmax) for box in item.boxes]
                shown = Shown(encoded, np.array(boxes, np.float32).reshape(-1, 4))
                rows.setdefault(label, []).append(shown)
    return source.name, dict(enumerate(source.classes)), rows


def from_dataset(path: Path, split: str | None, wanted: int) -> tuple[str, dict[int, str], Rows]:
    """The first pictures of each label.

    Args:
      path: as for `read_dataset`.
      split: train, val (or validation) or test; None: the first there is.
      wanted: pictures of each class.

    Returns:
      A title, the name of each label, and its pictures.

    Raises:
      NotFoundError: there is no dataset or split.
      DataError: a shard is damaged, or a picture cannot be shown, or not by TensorFlow.
    """
    from finetune.datasets.record_index import read_index

    dataset = read_dataset(path)
    chosen = dataset.split(split) if split else next(iter(dataset.splits.values()))
    index = read_index(chosen)
    rows: Rows = {}
    for label in np.unique(index.labels):
        for position in np.flatnonzero(index.labels == label)[:wanted]:
            data = index.picture(int(position))
            _require_picture(index.describe(int(position)), data)
            rows.setdefault(int(label), []).append(Shown(data, index.boxes_of(int(position))))
    # A label without a class is a finding of `data check`; here it must not hide the sheet.
    names = {label: f"label {label + chosen.label_offset}" for label in rows}
    return f"{dataset.name}, {chosen.name}", names | dict(enumerate(dataset.classes)), rows


def _require_picture(where: str, data: bytes) -> None:
    """Refuses a record whose picture cannot be shown, or not by TensorFlow."""
    try:
        clean_bytes(where, data)
        reason = (
            "" if is_decoded_by_tensorflow(data) else "is of a format that TensorFlow does not read"
        )
    except PictureError as error:
        reason = error.detail
    if reason:
        raise DataError(
            f"{where}: the picture {reason}.",
            expected="a picture that TensorFlow decodes to its end",
            next_step="slimtune data check names every such record.",
        )
