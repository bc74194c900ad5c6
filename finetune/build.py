"""Pictures to shards: every file opened, cleaned and split, with a report of what was met.

First the worker processes read, hash and clean each file; a file that is kept as it is
stays where it is, a re-encoded one waits in a spool file. Then the pictures are dealt to
splits by the hash of their file's content and written in the order of that hash, so that
classes are mixed in every shard and the same pictures give the same shards. Neither step
holds more than a few pictures in memory.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from checkpoints.errors import DataError, UsageError, listed
from checkpoints.files import atomic_directory, refuse_existing
from checkpoints.progress import SILENT, Progress
from finetune.cleaning import Cleaned, Rejected, clean_all
from finetune.dataset import (
    SPLITS,
    Shard,
    shard_name,
    write_dataset_file,
)
from finetune.pictures import read_picture_file
from finetune.records import RecordWriter, make_example
from finetune.sources import Source, SourceItem
from finetune.sources.folders import read_folders, suggests_deeper

DEFAULT_SHARDS = 5
LARGE_SHARD_BYTES = 256 << 20
"""Without --shards there are five, or more where one would be larger than this."""

_SPOOL = "spool"


class Skipped(NamedTuple):
    """A file that is not in the shards.

    Attributes:
      path: the file.
      kind: empty, not-a-picture, truncated, damaged, too-large, unsupported or unreadable.
      detail: the reason.
    """

    path: str
    kind: str
    detail: str


@dataclass(frozen=True)
class BuildResult:
    """What a build wrote and met.

    Attributes:
      path: the dataset directory.
      name: the dataset's name.
      classes: class names in order.
      counts: split name -> pictures of each class, in the order of `classes`; all three splits.
      num_pictures: pictures in the shards.
      changes: what was done to how many pictures.
      skipped: the files left out, with the reason.
      ignored: files that are no pictures by name and first bytes.
      empty_classes: folders without a usable picture; they are no class of the dataset.
      without_validation: classes without a picture in val, where val was asked for.
      without_training: classes whose pictures all lie in other splits of the source.
      duplicates: groups of files with the same content in several classes or splits.
      repeated: how many files only repeat another of the same class and split.
      hash: over contents, classes and splits.
      outline: the folder tree as it was understood.
      seconds: how long it took.
    """

    path: Path
    name: str
    classes: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]
    num_pictures: int
    changes: dict[str, int]
    skipped: tuple[Skipped, ...]
    ignored: tuple[str, ...]
    empty_classes: tuple[str, ...]
    without_validation: tuple[str, ...]
    without_training: tuple[str, ...]
    duplicates: tuple[tuple[str, ...], ...]
    repeated: int
    hash: str
    outline: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The object `data build --json` prints."""
        return {
            "path": str(self.path),
            "name": self.name,
            "classes": list(self.classes),
            "counts": {
                split: dict(zip(self.classes, counts, strict=True))
                for split, counts in self.counts.items()
            },
            "pictures": self.num_pictures,
            "changes": self.changes,
            "skipped": [item._asdict() for item in self.skipped],
            "ignored": list(self.ignored),
            "empty_classes": list(self.empty_classes),
            "without_validation": list(self.without_validation),
            "without_training": list(self.without_training),
            "duplicates": [list(group) for group in self.duplicates],
            "repeated": self.repeated,
            "hash": self.hash,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class _Pictures:
    """The usable pictures and what was met on the way."""

    cleaned: list[Cleaned] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)


def build(
    pictures: Path | str,
    out: Path | str,
    *,
    val: float = 0.1,
    test: float = 0.0,
    shards: int | None = None,
    processes: int | None = None,
    on_error: Literal["skip", "fail"] = "skip",
    max_side: int | None = None,
    depth: int = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> BuildResult:
    """Makes a dataset directory of a folder of class folders.

    Worker processes are started by spawn: a script that calls this with more than one process
    needs the usual `if __name__ == "__main__":`.

    Args:
      pictures: folder of class folders, or of train, val and test folders of them.
      out: the dataset directory to make.
      val: share of pictures for validation, 0 to below 1.
      test: share of pictures for the test split, 0 to below 1.
      shards: files a split, at most one a picture; None: five, more for large data.
      processes: worker processes; None: as many as there are cores.
      on_error: "skip" leaves a broken picture out and reports it, "fail" stops at it.
      max_side: larger pictures are shrunk to this many pixels on the longer side.
      depth: how many levels of folders make a class's name.
      overwrite: replace `out`.
      progress: where it tells how far it is.

    Raises:
      UsageError: a share or number is out of range.
      OutputExistsError: `out` is there and may not be replaced.
      DataError: a broken picture under "fail", no usable picture, or levels that do not fit.
    """
    started = time.monotonic()
    _check_options(val, test, shards, processes, max_side, depth)
    out = Path(out)
    refuse_existing(out, overwrite)
    source = read_folders(Path(pictures), depth)
    _say_levels(source, depth, progress)
    with atomic_directory(out, overwrite) as partial:
        spool = partial / _SPOOL
        spool.mkdir()
        met = _clean_source(source, spool, processes, on_error, max_side, progress)
        if not met.cleaned:
            raise DataError(
                f"{source.root} has no usable picture:\n"
                + listed(f"{item.path} {item.detail}" for item in met.skipped),
                next_step="Replace the files named.",
            )
        classes, label_of = _filled_classes(source, met.cleaned)
        split_of = assign_splits(source, met.cleaned, val, test)
        order = sorted(
            range(len(met.cleaned)), key=lambda place: (met.cleaned[place].digest, place)
        )
        written: dict[str, list[Shard]] = {}
        counts = {split: [0] * len(classes) for split in SPLITS}
        with progress.task("Writing shards", len(order), "pictures") as task:
            for split in SPLITS:
                places = [place for place in order if split_of[place] == split]
                chosen = [met.cleaned[place] for place in places]
                for cleaned in chosen:
                    counts[split][label_of[source.items[cleaned.item].label]] += 1
                if chosen:
                    written[split] = []
                for path, part in _deal(partial, source.name, split, chosen, shards):
                    _write_shard(path, part, source, spool, label_of, classes)
                    written[split].append(Shard(path, len(part)))
                    task.advance(len(part))
        content_hash = _content_hash(source, met.cleaned, split_of, order)
        write_dataset_file(
            partial,
            name=source.name,
            classes=classes,
            splits=written,
            counts=counts,
            content_hash=content_hash,
        )
        for file in spool.iterdir():
            file.unlink()
        spool.rmdir()
    duplicates, repeated = find_duplicates(source, met.cleaned, split_of)
    val_counts, train_counts = counts["val"], counts["train"]
    return BuildResult(
        path=out,
        name=source.name,
        classes=classes,
        counts={split: tuple(numbers) for split, numbers in counts.items()},
        num_pictures=len(met.cleaned),
        changes=dict(sorted(met.changes.items())),
        skipped=tuple(met.skipped),
        ignored=source.ignored,
        empty_classes=tuple(name for name in source.classes if name not in set(classes)),
        without_validation=tuple(
            name
            for name, count in zip(classes, val_counts, strict=True)
            if count == 0 and (val > 0 or "val" in source.splits)
        ),
        without_training=tuple(
            name for name, count in zip(classes, train_counts, strict=True) if count == 0
        ),
        duplicates=duplicates,
        repeated=repeated,
        hash=content_hash,
        outline=source.outline,
        seconds=time.monotonic() - started,
    )


def _check_options(
    val: float,
    test: float,
    shards: int | None,
    processes: int | None,
    max_side: int | None,
    depth: int,
) -> None:
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise UsageError(
            "The shares of validation and test pictures leave nothing to train on.",
            expected="--val and --test from 0, together below 1",
            received=f"--val {val} --test {test}",
        )
    for option, value in (
        ("--shards", shards),
        ("--processes", processes),
        ("--max-side", max_side),
        ("--depth", depth),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{option} is below 1.", expected="1 or more", received=value)


def _say_levels(source: Source, depth: int, progress: Progress) -> None:
    where = "the folders below train, val and test" if source.splits else f"depth {depth}"
    progress.say(
        f"{source.root}: {len(source.items)} pictures in {len(source.classes)} classes ({where})."
    )
    if source.splits:
        progress.say(f"The folder's own splits are kept: {', '.join(source.splits)}.")
    if suggests_deeper(source, depth) or len(source.classes) == 1:
        progress.say(f"The tree as understood:\n{source.outline}")
        progress.say(
            f"All pictures lie in folders inside the class folders; if those are the classes, "
            f"use --depth {depth + 1}."
            if suggests_deeper(source, depth)
            else "There is one class only; a net needs two to tell apart."
        )


def _clean_source(
    source: Source,
    spool: Path,
    processes: int | None,
    on_error: str,
    max_side: int | None,
    progress: Progress,
) -> _Pictures:
    met = _Pictures()
    paths = [item.path for item in source.items]
    with progress.task("Reading pictures", len(paths), "pictures") as task:
        for answer in clean_all(source.root, paths, spool, processes, max_side):
            task.advance()
            if isinstance(answer, Cleaned):
                met.cleaned.append(answer)
                met.changes.update(answer.changes)
                continue
            path = str(source.root / paths[answer.item])
            if on_error == "fail":
                raise _stopped(path, answer)
            met.skipped.append(Skipped(path, answer.kind, answer.detail))
            progress.say(f"Skipped {path}: {answer.detail}")
    return met


def _stopped(path: str, answer: Rejected) -> DataError:
    return DataError(
        f"{path} {answer.detail}.",
        expected="a picture that decodes to its end (--on-error fail)",
        next_step="Replace or remove the file, or leave it out with --on-error skip.",
    )


def _filled_classes(
    source: Source, cleaned: Sequence[Cleaned]
) -> tuple[tuple[str, ...], dict[int, int]]:
    """The classes that have a usable picture, and the source's label -> theirs."""
    filled = sorted({source.items[picture.item].label for picture in cleaned})
    classes = tuple(source.classes[label] for label in filled)
    return classes, {label: place for place, label in enumerate(filled)}


def assign_splits(source: Source, cleaned: Sequence[Cleaned], val: float, test: float) -> list[str]:
    """The split of each picture, by the hash of its file's content.

    A picture keeps its split when others are added. Where a class would be left without a
    training picture, its picture with the highest hash trains.

    Args:
      source: names the splits that the pictures already have.
      cleaned: the usable pictures.
      val: share for validation; not used where the source has a val split of its own.
      test: share for the test split; not used where the source has one.
    """
    test_below = 0.0 if "test" in source.splits else test
    val_below = test_below + (0.0 if "val" in source.splits else val)
    splits: list[str] = []
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
        if split == "train":
            in_training.add(item.label)
        elif item.split in (None, "train"):
            highest[item.label] = max(highest.get(item.label, (b"", -1)), (picture.digest, place))
        splits.append(split)
    for label, (_, place) in highest.items():
        if label not in in_training:
            splits[place] = "train"
    return splits


def find_duplicates(
    source: Source, cleaned: Sequence[Cleaned], split_of: Sequence[str]
) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Files of the same content: groups across classes or splits, and the number of mere repeats."""
    by_digest: dict[bytes, list[int]] = defaultdict(list)
    for place, picture in enumerate(cleaned):
        by_digest[picture.digest].append(place)
    groups: list[tuple[str, ...]] = []
    repeated = 0
    for places in by_digest.values():
        if len(places) == 1:
            continue
        items = [source.items[cleaned[place].item] for place in places]
        kinds = {(item.label, split_of[place]) for item, place in zip(items, places, strict=True)}
        if len(kinds) > 1:
            groups.append(tuple(item.path for item in items))
        else:
            repeated += len(places) - 1
    return tuple(groups), repeated


def _content_hash(
    source: Source, cleaned: Sequence[Cleaned], split_of: Sequence[str], order: Sequence[int]
) -> str:
    digest = hashlib.sha256()
    for place in order:
        picture = cleaned[place]
        name = source.classes[source.items[picture.item].label]
        digest.update(picture.digest)
        digest.update(picture.encoding)
        digest.update(f"{split_of[place]}/{name}\n".encode())
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
) -> None:
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for picture in pictures:
            item = source.items[picture.item]
            label = label_of[item.label]
            writer.write(
                make_example(
                    {
                        "image/encoded": _stored_bytes(picture, item, source.root, spool),
                        "image/format": picture.format,
                        "image/height": picture.height,
                        "image/width": picture.width,
                        "image/class/label": label,
                        "image/class/text": classes[label],
                        "image/filename": os.fsencode(item.path),
                    }
                )
            )


def _stored_bytes(picture: Cleaned, item: SourceItem, root: Path, spool: Path) -> bytes:
    if picture.spool:
        with (spool / picture.spool).open("rb") as file:
            file.seek(picture.offset)
            return file.read(picture.size)
    path = root / item.path
    data = read_picture_file(path)
    if hashlib.sha256(data).digest()[: len(picture.digest)] != picture.digest:
        raise DataError(
            f"{path} changed while the dataset was built.",
            next_step="Build again when nobody writes into the folder.",
        )
    return data[: picture.size]
