"""Cleaned pictures are dealt to splits and shards; nothing is written here."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned
from finetune.datasets.dataset import SPLITS, shard_name
from finetune.datasets.shard_writer import PlannedRecord, PlannedShard
from finetune.datasets.sources import Source
from finetune.datasets.splits import assign_splits

DEFAULT_SHARDS = 5
LARGE_SHARD_BYTES = 256 << 20
"""Without --shards there are five, or more where one would be larger than this."""


@dataclass(frozen=True)
class Dealt:
    """What goes into a dataset directory.

    Attributes:
      classes: class names in order, those with a usable picture.
      splits: the split of each cleaned picture.
      counts: split name -> pictures of each class, in the order of `classes`; all three splits.
      content_hash: over contents, classes and splits.
      moved: paths of the pictures that train only because their class would have no other.
      shards: of all splits, in order.
    """

    classes: tuple[str, ...]
    splits: list[str]
    counts: dict[str, tuple[int, ...]]
    content_hash: str
    moved: tuple[str, ...]
    shards: tuple[PlannedShard, ...]


def deal(
    source: Source, cleaned: CleanedPictures, val: float, test: float, shards: int | None
) -> Dealt:
    """Deals pictures to splits and shards.

    Args:
      source: names each picture's file and class.
      cleaned: the usable pictures.
      val: share for validation, as for `build`.
      test: share for the test split.
      shards: files a split; None: five, more for large data.
    """
    classes, label_of = _filled_classes(source, cleaned)
    splits, moved = assign_splits(source, cleaned, val, test)
    order = cleaned.by_digest()
    planned: list[PlannedShard] = []
    counts = {split: [0] * len(classes) for split in SPLITS}
    for split in SPLITS:
        places = array("q", (place for place in order if splits[place] == split))
        chosen = cleaned.picked(places)
        for picture in chosen:
            for label in source.items[picture.item].all_labels:
                counts[split][label_of[label]] += 1
        planned.extend(
            PlannedShard(split, file, _PlannedRecords(part, source, label_of, classes))
            for file, part in _in_shards(source.name, split, chosen, shards)
        )
    return Dealt(
        classes,
        splits,
        {split: tuple(numbers) for split, numbers in counts.items()},
        _content_hash(source, cleaned, splits, order),
        tuple(source.items[cleaned.item(place)].path for place in moved),
        tuple(planned),
    )


class _PlannedRecords(Sequence[PlannedRecord]):
    """Records of pictures, made when they are asked for."""

    def __init__(
        self,
        pictures: Sequence[Cleaned],
        source: Source,
        label_of: Mapping[int, int],
        classes: Sequence[str],
    ) -> None:
        """`label_of`: the source's label -> the one that is written; `classes`: their names."""
        self._pictures = pictures
        self._source = source
        self._label_of = label_of
        self._classes = classes

    def __len__(self) -> int:
        return len(self._pictures)

    @overload
    def __getitem__(self, place: int) -> PlannedRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PlannedRecord]: ...
    def __getitem__(self, place: int | slice) -> PlannedRecord | Sequence[PlannedRecord]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        picture = self._pictures[place]
        item = self._source.items[picture.item]
        labels = tuple(self._label_of[label] for label in item.all_labels)
        return PlannedRecord(picture, item, labels, self._classes[self._label_of[item.label]])


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


def _in_shards(
    name: str, split: str, pictures: Sequence[Cleaned], shards: int | None
) -> Iterator[tuple[str, Sequence[Cleaned]]]:
    """Shards' names with their pictures: consecutive ones, numbers that differ by one at most."""
    if not pictures:
        return
    if shards is None:
        size = sum(picture.size for picture in pictures)
        shards = max(DEFAULT_SHARDS, -(-size // LARGE_SHARD_BYTES))
    shards = min(shards, len(pictures))
    for index in range(shards):
        start = index * len(pictures) // shards
        stop = (index + 1) * len(pictures) // shards
        yield shard_name(name, split, index, shards), pictures[start:stop]
