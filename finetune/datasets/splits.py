"""Which split a picture goes to, and which files are one picture twice."""

from __future__ import annotations

from collections.abc import Sequence

from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned
from finetune.datasets.sources import Source


def assign_splits(
    source: Source, cleaned: Sequence[Cleaned], val: float, test: float
) -> tuple[list[str], list[int]]:
    """The split of each picture, by the hash of its file's content.

    A picture keeps its split when others are added. Where a class would be left without a
    training picture, its picture with the highest hash trains.

    Args:
      source: names the splits that the pictures already have.
      cleaned: the usable pictures.
      val: share for validation; not used where the source has a val split of its own.
      test: share for the test split; not used where the source has one.

    Returns:
      The split of each picture, and the places of those that train only because their class would
      have no training picture; they leave when it has others.
    """
    test_below = 0.0 if "test" in source.splits else test
    val_below = test_below + (0.0 if "val" in source.splits else val)
    splits: list[str] = []
    moved: set[int] = set()
    in_training: set[int] = set()
    highest: dict[int, tuple[bytes, int]] = {}
    for place, picture in enumerate(cleaned):
        item = source.items[picture.item]
        fraction = int.from_bytes(picture.digest[:8], "big") / 2**64
        if item.split is not None and item.split != "train":
            split = item.split
        elif fraction < test_below:
            split = "test"
        elif fraction < val_below:
            split = "val"
        else:
            split = "train"
        for label in item.all_labels:
            if split == "train":
                in_training.add(label)
            elif item.split in (None, "train"):
                highest[label] = max(highest.get(label, (b"", -1)), (picture.digest, place))
        splits.append(split)
    for label, (_, place) in highest.items():
        if label not in in_training:
            splits[place] = "train"
            moved.add(place)
    return splits, sorted(moved)


def find_duplicates(
    source: Source, cleaned: CleanedPictures, split_of: Sequence[str]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Files of the same content: groups across classes or splits, and the number of mere repeats."""
    groups: list[tuple[str, ...]] = []
    repeated = 0
    for places in cleaned.repeated():
        items = [source.items[cleaned.item(place)] for place in places]
        kinds = {
            (item.all_labels, split_of[place]) for item, place in zip(items, places, strict=True)
        }
        if len(kinds) > 1:
            groups.append(tuple(item.path for item in items))
        else:
            repeated += len(places) - 1
    return tuple(groups), repeated
