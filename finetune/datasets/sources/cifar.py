"""CIFAR-10's binary version: files of records of fixed length.

A record is 3,073 bytes: the label, then a picture of 32 x 32, its red bytes row by row, then its
green, then its blue ones. data_batch_1.bin to data_batch_5.bin train, test_batch.bin tests,
batches.meta.txt names the classes. Format: docs/formats/idx-and-cifar.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from checkpoints.errors import DataError
from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import SPLITS
from finetune.datasets.labels import read_labels_file
from finetune.datasets.picture_formats import PictureError
from finetune.datasets.records import mapped
from finetune.datasets.sources import Source, SourceItem
from finetune.datasets.sources.names import check_class_names, natural_key, number_names, safe_name

SIDE = 32
_PLANE = SIDE * SIDE
_PICTURE = 3 * _PLANE
RECORD_BYTES = 1 + _PICTURE
NAMES_FILE = "batches.meta.txt"

_FILE = re.compile(r"(data_batch_\d+|test_batch)\.bin")


def recognises(path: Path) -> bool:
    """Whether a directory holds a file named as CIFAR-10's are."""
    return path.is_dir() and any(_FILE.fullmatch(entry.name) for entry in path.iterdir())


def read_source(root: Path, depth: int = 1, progress: Progress = SILENT) -> Source:
    """Reads the labels; pictures are cut out when they are wanted.

    Raises:
      DataError: a file is no whole number of records, or a label names no class.
    """
    files = sorted(
        (entry for entry in root.iterdir() if _FILE.fullmatch(entry.name)),
        key=lambda entry: natural_key(entry.name),
    )
    items: list[SourceItem] = []
    lines: list[str] = []
    for path in files:
        labels = _read_labels(path)
        split = "test" if path.name.startswith("test") else "train"
        items.extend(
            SourceItem(f"{path.name}:{number}", label, split) for number, label in enumerate(labels)
        )
        lines.append(f"  {path.name}  {len(labels)} pictures")
    classes = _class_names(root, max(item.label for item in items))
    wrong = next((item for item in items if item.label >= len(classes)), None)
    if wrong is not None:
        raise DataError(
            f"{root / wrong.path}: label {wrong.label}.",
            expected=f"labels 0 to {len(classes) - 1}, as {NAMES_FILE} has {len(classes)} names",
            next_step=f"Correct {NAMES_FILE}, or get the file again.",
        )
    splits = {item.split for item in items}
    return Source(
        root=root,
        name=safe_name(root),
        classes=classes,
        items=items,
        splits=tuple(split for split in SPLITS if split in splits),
        ignored=(),
        outline="\n".join([f"{root}/", *lines]),
        described="CIFAR-10 batches",
        reader="cifar",
    )


def read_item(root: Path, path: str) -> bytes:
    """One picture, as the bytes of a PPM file.

    Raises:
      PictureError: the file is no longer what it was.
    """
    name, _, number = path.rpartition(":")
    with (root / name).open("rb") as file:
        file.seek(int(number) * RECORD_BYTES + 1)
        planes = file.read(_PICTURE)
    if len(planes) != _PICTURE:
        raise PictureError(str(root / path), "truncated", "is no longer in the file")
    pixels = bytearray(_PICTURE)
    for channel in range(3):
        pixels[channel::3] = planes[channel * _PLANE : (channel + 1) * _PLANE]
    return b"P6 %d %d 255\n" % (SIDE, SIDE) + pixels


def _read_labels(path: Path) -> bytes:
    """The first byte of every record."""
    size = path.stat().st_size
    if size == 0 or size % RECORD_BYTES:
        raise DataError(
            f"{path} is no whole number of records.",
            expected=f"a multiple of {RECORD_BYTES} bytes",
            received=f"{size} bytes, {size % RECORD_BYTES} after record {size // RECORD_BYTES - 1}"
            if size > RECORD_BYTES
            else f"{size} bytes",
            next_step="Get the file again.",
        )
    with mapped(path) as view:
        return bytes(view[::RECORD_BYTES])


def _class_names(root: Path, highest: int) -> tuple[str, ...]:
    path = root / NAMES_FILE
    if not path.is_file():
        return number_names(highest)
    names = read_labels_file(path)
    check_class_names(path, names, "Correct the file.")
    return names
