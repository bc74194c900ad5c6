"""Cleaned pictures into TFRecord shards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from checkpoints.errors import DataError
from finetune.datasets.cleaning import Cleaned
from finetune.datasets.dataset import Shard, shard_name
from finetune.datasets.records import FeatureValue, RecordWriter, make_example
from finetune.datasets.sources import Box, Source, SourceItem, read_item

DEFAULT_SHARDS = 5
LARGE_SHARD_BYTES = 256 << 20
"""Without --shards there are five, or more where one would be larger than this."""


def deal(
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


def write_shard(
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
    if hashlib.sha256(data).digest()[: len(picture.digest)] != picture.digest:
        raise DataError(
            f"{path} changed while the dataset was built.",
            next_step="Build again when nobody writes into the folder.",
        )
    return data[: picture.size]
