"""Cleaned pictures into a dataset directory: dealt to splits, then to TFRecord shards."""

from __future__ import annotations

import hashlib
import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import DataError
from checkpoints.progress import Progress
from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned, content_digest
from finetune.datasets.dataset import SPLITS, Shard, shard_name, write_dataset_file
from finetune.datasets.records import FeatureValue, RecordWriter, make_example
from finetune.datasets.sources import Box, Source, SourceItem, read_item
from finetune.datasets.splits import assign_splits

DEFAULT_SHARDS = 5
LARGE_SHARD_BYTES = 256 << 20
"""Without --shards there are five, or more where one would be larger than this."""


@dataclass(frozen=True)
class Written:
    """What went into a dataset directory.

    Attributes:
      classes: class names in order, those with a usable picture.
      splits: the split of each cleaned picture.
      counts: split name -> pictures of each class, in the order of `classes`; all three splits.
      content_hash: over contents, classes and splits.
      moved: paths of the pictures that train only because their class would have no other.
    """

    classes: tuple[str, ...]
    splits: list[str]
    counts: dict[str, tuple[int, ...]]
    content_hash: str
    moved: tuple[str, ...]


def write_dataset(
    source: Source,
    cleaned: CleanedPictures,
    directory: Path,
    spool: Path,
    val: float,
    test: float,
    shards: int | None,
    progress: Progress,
) -> Written:
    """Deals pictures to splits and writes the shards, dataset.json and labels.txt.

    Args:
      source: names each picture's file and class.
      cleaned: the usable pictures.
      directory: an empty one, but for the spool; it is renamed as a whole when all is written.
      spool: the directory of the re-encoded pictures.
      val: share for validation, as for `build`.
      test: share for the test split.
      shards: files a split; None: five, more for large data.
      progress: gets a task in pictures.

    Raises:
      DataError: a picture's file is not what it was when it was cleaned.
    """
    classes, label_of = _filled_classes(source, cleaned)
    splits, moved = assign_splits(source, cleaned, val, test)
    order = cleaned.by_digest()
    files: dict[str, list[Shard]] = {}
    counts = {split: [0] * len(classes) for split in SPLITS}
    with progress.task("Writing shards", len(order), "pictures") as task:
        for split in SPLITS:
            places = array("q", (place for place in order if splits[place] == split))
            chosen = cleaned.picked(places)
            for picture in chosen:
                for label in source.items[picture.item].all_labels:
                    counts[split][label_of[label]] += 1
            for path, part in _deal(directory, source.name, split, chosen, shards):
                shard = _write_shard(path, part, source, spool, label_of, classes)
                files.setdefault(split, []).append(shard)
                task.advance(len(part))
    content_hash = _content_hash(source, cleaned, splits, order)
    write_dataset_file(
        directory,
        name=source.name,
        classes=classes,
        splits=files,
        counts=counts,
        content_hash=content_hash,
        multi_label=any(item.labels for item in source.items),
    )
    fixed = {split: tuple(numbers) for split, numbers in counts.items()}
    moved_paths = tuple(source.items[cleaned.item(place)].path for place in moved)
    return Written(classes, splits, fixed, content_hash, moved_paths)


def _filled_classes(
    source: Source, cleaned: Sequence[Cleaned]
) -> tuple[tuple[str, ...], dict[int, int]]:
    """The classes that have a usable picture, and the source's label -> theirs."""
    filled = sorted(
        {label for picture in cleaned for label in source.items[picture.item].all_labels}
    )
    classes = tuple(source.classes[label] for label in filled)
    return classes, {label: place for place, label in enumerate(filled)}


def _content_hash(
    source: Source, cleaned: Sequence[Cleaned], split_of: Sequence[str], order: Sequence[int]
) -> str:
    digest = hashlib.sha256()
    for place in order:
        picture = cleaned[place]
        name = "|".join(source.classes[each] for each in source.items[picture.item].all_labels)
        digest.update(picture.digest)
        digest.update(picture.encoding)
        digest.update(f"{split_of[place]}/{name}\n".encode())
        for box in source.items[picture.item].boxes:
            digest.update(struct.pack("<4f", *box))
    return f"sha256:{digest.hexdigest()}"


def _deal(
    directory: Path,
    name: str,
    split: str,
    pictures: Sequence[Cleaned],
    shards: int | None,
) -> Iterator[tuple[Path, Sequence[Cleaned]]]:
    """Shard paths with their pictures: consecutive ones, numbers that differ by one at most."""
    if not pictures:
        return
    if shards is None:
        size = sum(picture.size for picture in pictures)
        shards = max(DEFAULT_SHARDS, -(-size // LARGE_SHARD_BYTES))
    shards = min(shards, len(pictures))
    for index in range(shards):
        start = index * len(pictures) // shards
        stop = (index + 1) * len(pictures) // shards
        yield directory / shard_name(name, split, index, shards), pictures[start:stop]


def _write_shard(
    path: Path,
    pictures: Sequence[Cleaned],
    source: Source,
    spool: Path,
    label_of: Mapping[int, int],
    classes: Sequence[str],
) -> Shard:
    """Writes one shard.

    Args:
      path: the file; its directory is renamed as a whole when all is written.
      pictures: what it holds, in order.
      source: names each picture's file and class.
      spool: the directory of the re-encoded pictures.
      label_of: the source's label -> the label to write.
      classes: the name of each label written.

    Raises:
      DataError: a picture's file is not what it was when it was cleaned.
    """
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for picture in pictures:
            item = source.items[picture.item]
            label = label_of[item.label]
            features: dict[str, FeatureValue] = {
                "image/encoded": _stored_bytes(picture, item, source, spool),
                "image/format": picture.format,
                "image/height": picture.height,
                "image/width": picture.width,
                "image/class/label": label,
                "image/class/text": classes[label],
                "image/filename": os.fsencode(item.name or item.path),
            }
            if item.labels:
                features["image/class/labels"] = [label_of[each] for each in item.labels]
            writer.write(make_example(features | _box_features(item.boxes)))
    return Shard(path, writer.count, writer.digest.hexdigest())


def _box_features(boxes: Sequence[Box]) -> dict[str, FeatureValue]:
    """The boxes as TF-Slim's ImageNet records have them; nothing where there are none."""
    return {
        f"image/object/bbox/{side}": [getattr(box, side) for box in boxes]
        for side in Box._fields
        if boxes
    }


def _stored_bytes(picture: Cleaned, item: SourceItem, source: Source, spool: Path) -> bytes:
    if picture.spool:
        with (spool / picture.spool).open("rb") as file:
            file.seek(picture.offset)
            return file.read(picture.size)
    path = source.root / item.path
    data = read_item(source.reader, source.root, item.path)
    if content_digest(data) != picture.digest:
        raise DataError(
            f"{path} changed while the dataset was built.",
            next_step="Build again when nobody writes into the folder.",
        )
    return data[: picture.size]
