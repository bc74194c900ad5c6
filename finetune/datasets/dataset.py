"""A dataset directory: shards, dataset.json and labels.txt, ours or TF-Slim's.

Shards are `{name}_{split}_00000-of-00005.tfrecord`. `dataset.json` is what `data build`
writes; a directory without it (TF-Slim's own) is counted by walking the frames of its
shards, and its class names come from `labels.txt`.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, NotFoundError, UnsupportedError, listed, near_names
from finetune.datasets.labels import LABELS_FILE, name_classes
from finetune.datasets.records import count_records
from finetune.datasets.sources.names import check_class_names

DATASET_FILE = "dataset.json"
FORMAT = 1
"""The version of dataset.json that is written and read."""

SPLITS = ("train", "val", "test")
_SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
_SHARD = re.compile(
    r"(?:(?P<name>.+)_)?(?P<split>[A-Za-z]+)[_-](?P<index>\d{5})-of-(?P<total>\d{5})(?:\.tfrecords?)?"
)
_ONE_FILE = re.compile(r"(?P<name>.+)_(?P<split>[A-Za-z]+)\.tfrecord")
"""A split in one file, as TF-Slim writes MNIST and CIFAR-10; labels.txt must lie beside it."""


@dataclass(frozen=True)
class Shard:
    """One TFRecord file.

    Attributes:
      path: the file.
      count: how many records it holds.
      sha256: of the whole file, in hexadecimal; empty where dataset.json does not say.
    """

    path: Path
    count: int
    sha256: str = ""


@dataclass(frozen=True)
class Split:
    """The shards of one split, in order.

    Attributes:
      name: train, val or test.
      shards: its files.
      label_offset: the label that the first class has in them: 0, or 1 in older records.
    """

    name: str
    shards: tuple[Shard, ...]
    label_offset: int = 0

    @property
    def count(self) -> int:
        """Pictures in the split."""
        return sum(shard.count for shard in self.shards)


@dataclass(frozen=True)
class Dataset:
    """What a dataset directory holds.

    Attributes:
      path: the directory.
      name: the dataset's name, as in its shards' names.
      classes: class names; the label of a picture is its class's place here.
      splits: split name -> its shards; splits without pictures are absent.
      counts: split name -> pictures of each class, in the order of `classes`; empty for a
        directory without dataset.json (`check_labels` counts them).
      content_hash: hash over the pictures' contents, classes and splits; empty where unknown.
      multi_label: whether a picture may have several classes, in image/class/labels; then a
        class's count has every picture that shows it.
    """

    path: Path
    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Split]
    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    content_hash: str = ""
    multi_label: bool = False

    @property
    def label_offset(self) -> int:
        """The label that the first class has in the shards; all that reads them takes it off."""
        return max((split.label_offset for split in self.splits.values()), default=0)

    def split(self, name: str) -> Split:
        """One split; `validation` and `val` are the same.

        Raises:
          NotFoundError: the dataset has no such split; names those it has.
        """
        found = self.splits.get(canonical_split(name))
        if found is None:
            raise NotFoundError(
                f"{self.path} has no pictures in the split {name!r}.",
                expected=f"one of {', '.join(self.splits) or 'none'}",
                received=name,
                next_step="Name another split, or build the dataset with --val or --test.",
            )
        return found


def canonical_split(name: str) -> str:
    """`validation` and `valid` -> `val`, `training` -> `train`; other names as they are."""
    return _SPLIT_NAMES.get(name.lower(), name)


def shard_name(dataset: str, split: str, index: int, total: int) -> str:
    """The file name of a shard."""
    return f"{dataset}_{split}_{index:05d}-of-{total:05d}.tfrecord"


def is_dataset_directory(path: Path) -> bool:
    """Whether a directory holds shards: dataset.json, or files named as shards are."""
    path = Path(path)
    if not path.is_dir():
        return False
    return (path / DATASET_FILE).is_file() or any(_shard_names(path))


def read_dataset(path: Path) -> Dataset:
    """Opens a dataset directory, ours or TF-Slim's.

    Args:
      path: the directory, its dataset.json, or one of its shards.

    Raises:
      NotFoundError: nothing is there, or no shards are.
      DataError: a shard is missing or damaged, or dataset.json or labels.txt does not fit.
      UnsupportedError: dataset.json was written by a later version.
    """
    path = Path(path)
    if not path.exists():
        near = near_names(path.name, [entry.name for entry in path.parent.iterdir()]) if (
            path.parent.is_dir()
        ) else []  # fmt: skip
        raise NotFoundError(
            f"{path} is not there.",
            next_step=f"Did you mean {path.with_name(near[0])}?"
            if near
            else "Build a dataset with slimtune data build PICTURES OUT.",
        )
    directory = path if path.is_dir() else path.parent
    if (directory / DATASET_FILE).is_file():
        return _read_own(directory)
    return _read_without_json(directory)


def write_dataset_file(
    directory: Path,
    *,
    name: str,
    classes: Sequence[str],
    splits: Mapping[str, Sequence[Shard]],
    counts: Mapping[str, Sequence[int]],
    content_hash: str,
    multi_label: bool = False,
) -> None:
    """Writes dataset.json and labels.txt beside the shards."""
    from checkpoints.files import write_json, write_text

    value: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "classes": list(classes),
        "splits": {
            split: {
                "count": sum(shard.count for shard in shards),
                "counts": dict(zip(classes, counts[split], strict=True)),
                "shards": [_shard_as_json(shard) for shard in shards],
            }
            for split, shards in splits.items()
        },
        "hash": content_hash,
    }
    if multi_label:
        value["multi_label"] = True
    write_json(directory / DATASET_FILE, value)
    write_text(directory / LABELS_FILE, "".join(f"{label}\n" for label in classes))


def _shard_as_json(shard: Shard) -> dict[str, Any]:
    value: dict[str, Any] = {"file": shard.path.name, "count": shard.count}
    return value | {"sha256": shard.sha256} if shard.sha256 else value


def _read_own(directory: Path) -> Dataset:
    path = directory / DATASET_FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as err:
        raise DataError(
            f"{path} is no JSON.",
            received=err,
            next_step="Build the dataset again with slimtune data build.",
        ) from err
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise UnsupportedError(
            f"{path} was written by a later version of slimtune.",
            expected=f"format {FORMAT}",
            received=f"format {version}",
            next_step="Install a newer slimtune.",
        )
    try:
        dataset = _from_json(directory, value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as err:
        raise DataError(
            f"{path} is not what data build writes.",
            expected="name, classes, splits with shards and counts, and hash",
            received=f"{type(err).__name__}: {err}",
            next_step="Build the dataset again with slimtune data build.",
        ) from err
    check_class_names(path, dataset.classes, "Build the dataset again with slimtune data build.")
    if not dataset.splits:
        raise DataError(
            f"{path} names no pictures.",
            expected="a split with a count above 0",
            received=", ".join(f"{name}: 0" for name in value["splits"]) or "no splits",
            next_step="Build the dataset again with slimtune data build.",
        )
    missing = [
        shard.path.name
        for split in dataset.splits.values()
        for shard in split.shards
        # A name that is too long for a file is no error of the system's but one of dataset.json.
        if not os.path.isfile(shard.path)  # noqa: PTH113
    ]
    if missing:
        raise DataError(
            f"{directory} lacks shards that {DATASET_FILE} names:\n{listed(missing)}",
            next_step="Copy the whole directory, or build the dataset again.",
        )
    return dataset


def _from_json(directory: Path, value: Any) -> Dataset:
    classes = tuple(str(name) for name in value["classes"])
    if len(set(classes)) != len(classes):
        raise ValueError("a class is named twice")
    splits: dict[str, Split] = {}
    counts: dict[str, tuple[int, ...]] = {}
    for name, part in value["splits"].items():
        # Only names: a path would lead out of the directory.
        shards = tuple(
            Shard(
                directory / Path(str(shard["file"])).name,
                int(shard["count"]),
                str(shard.get("sha256", "")),
            )
            for shard in part["shards"]
        )
        split = Split(canonical_split(name), shards)
        if split.count:
            splits[split.name] = split
            counts[split.name] = tuple(int(part["counts"][name]) for name in classes)
    return Dataset(
        directory,
        str(value["name"]),
        classes,
        splits,
        counts,
        str(value["hash"]),
        value.get("multi_label") is True,
    )


def _shard_names(directory: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    patterns = (_SHARD, _ONE_FILE) if (directory / LABELS_FILE).is_file() else (_SHARD,)
    for entry in sorted(directory.iterdir()):
        match = next(filter(None, (pattern.fullmatch(entry.name) for pattern in patterns)), None)
        if match and canonical_split(match["split"]) in SPLITS and entry.is_file():
            yield entry, match


def _read_without_json(directory: Path) -> Dataset:
    groups: dict[tuple[str, str], dict[int, Path]] = defaultdict(dict)
    totals: dict[tuple[str, str], set[int]] = defaultdict(set)
    for path, match in _shard_names(directory):
        key = (match["name"] or "", canonical_split(match["split"]))
        place = match.groupdict()
        groups[key][int(place.get("index", 0))] = path
        totals[key].add(int(place.get("total", 1)))
    if not groups:
        raise NotFoundError(
            f"{directory} holds no shards.",
            expected="files named like flowers_train_00000-of-00005.tfrecord",
            next_step=shell_words("slimtune", "data", "build", directory, "OUT")
            + " makes shards of a folder of pictures.",
        )
    names = sorted({name for name, _ in groups})
    if len(names) > 1:
        raise DataError(
            f"{directory} holds the shards of several datasets: {', '.join(names)}.",
            expected="one dataset a directory",
            next_step="Move each dataset's shards into a directory of its own.",
        )
    missing = [
        f"{name or 'dataset'}, {split}: {index:05d}-of-{total:05d}"
        for (name, split), shards in groups.items()
        for total in totals[name, split]
        for index in range(total)
        if len(totals[name, split]) > 1 or index not in shards
    ]
    if missing:
        raise DataError(
            f"{directory} lacks shards:\n{listed(missing)}",
            next_step="Fetch or build the missing files; training on a part is never silent.",
        )
    splits = {
        split: Split(
            split,
            tuple(Shard(shards[index], count_records(shards[index])) for index in sorted(shards)),
        )
        for (_, split), shards in groups.items()
    }
    classes, offset = name_classes(directory, splits)
    ordered = {
        name: replace(splits[name], label_offset=offset) for name in SPLITS if name in splits
    }
    return Dataset(directory, names[0] or directory.name, classes, ordered)
