"""Shards: what a record holds, and the records of one shard in a file.

Every runner of `data build` writes shards through here, so that their bytes are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import IO, NamedTuple

from checkpoints.errors import DataError
from finetune.cloud.paths import Place
from finetune.datasets.cleaning import Cleaned, content_digest
from finetune.datasets.records import FeatureValue, RecordWriter, make_example
from finetune.datasets.sources import Box, SourceItem, read_item


class PlannedRecord(NamedTuple):
    """All that is known of a record but its picture's bytes.

    Attributes:
      picture: as it was cleaned.
      item: the picture in its source.
      labels: its classes, one or several, as they are written.
      text: the name of the first.
    """

    picture: Cleaned
    item: SourceItem
    labels: tuple[int, ...]
    text: str


class PlannedShard(NamedTuple):
    """A shard that is to be written.

    Attributes:
      split: train, val or test.
      file: its name.
      records: in order.
    """

    split: str
    file: str
    records: Sequence[PlannedRecord]


class WrittenShard(NamedTuple):
    """What is in a shard's file.

    Attributes:
      num_records: how many.
      sha256: of the file, in hexadecimal.
    """

    num_records: int
    sha256: str


def write_shard(
    file: IO[bytes],
    records: Iterable[PlannedRecord],
    read: Callable[[PlannedRecord], bytes],
) -> WrittenShard:
    """Writes the records of a shard.

    Args:
      file: open, to be written.
      records: what it holds, in order.
      read: gives the bytes of a picture as they are stored.
    """
    writer = RecordWriter(file)
    for record in records:
        picture, item = record.picture, record.item
        features: dict[str, FeatureValue] = {
            "image/encoded": read(record),
            "image/format": picture.format,
            "image/height": picture.height,
            "image/width": picture.width,
            "image/class/label": record.labels[0],
            "image/class/text": record.text,
            "image/filename": os.fsencode(item.name or item.path),
        }
        if item.labels:
            features["image/class/labels"] = record.labels
        writer.write(make_example(features | _box_features(item.boxes)))
    return WrittenShard(writer.count, writer.digest.hexdigest())


def _box_features(boxes: Sequence[Box]) -> dict[str, FeatureValue]:
    """The boxes as TF-Slim's ImageNet records have them; nothing where there are none."""
    return {
        f"image/object/bbox/{side}": [getattr(box, side) for box in boxes]
        for side in Box._fields
        if boxes
    }


def read_unchanged(picture: Cleaned, reader: str, root: Place, path: str) -> bytes:
    """The bytes that the source has of a picture, all of them.

    Raises:
      DataError: they are not what they were when it was cleaned.
      PictureError: they cannot be read.
    """
    data = read_item(reader, root, path)
    if content_digest(data) != picture.digest:
        raise DataError(
            f"{root / path} changed while the dataset was built.",
            next_step="Build again when nobody writes into the folder.",
        )
    return data
