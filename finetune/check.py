"""What is wrong with a folder of pictures or with a dataset's shards: all of it, in one list.

A problem is what makes training fail or learn something wrong. A note is what `data build`
puts right by itself, or leaves out on purpose.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints.errors import DataError, NotFoundError, SlimtuneError
from checkpoints.progress import SILENT, Progress
from finetune.cleaning import Cleaned, clean_all
from finetune.dataset import DATASET_FILE, Dataset, is_dataset_directory, read_dataset
from finetune.picture_formats import PictureError
from finetune.pictures import clean_bytes
from finetune.records import RecordError, checked_data, mapped, parse_example, record_places
from finetune.sources import Source, find_source
from finetune.sources.folders import list_pictures

_FAULTY_CHANGES = ("bytes after the end", " named .")
"""Changes that tell of a fault in the file, not only of another format."""

_FEW_RECORDS = 10
"""Fewer records than this may well be of one class by chance."""


class Problem(NamedTuple):
    """One finding.

    Attributes:
      kind: a word to sort by: truncated, empty, not-a-picture, damaged, too-large, unsupported,
        unreadable, trailing-bytes, wrong-suffix, duplicate, layout, empty-class,
        similar-classes, damaged-record, missing-shard, count, missing-feature, label, one-label,
        class-name, format, size.
      path: the file, or the folder.
      detail: what is wrong with it.
    """

    kind: str
    path: str
    detail: str


@dataclass
class CheckResult:
    """What a check met.

    Attributes:
      path: what was checked.
      kind: "pictures" or "dataset".
      num_pictures: pictures looked at.
      classes: class names; empty where they could not be told.
      problems: the findings.
      notes: what is put right or left out without harm.
    """

    path: Path
    kind: str
    num_pictures: int = 0
    classes: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The object `data check --json` prints."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "pictures": self.num_pictures,
            "classes": list(self.classes),
            "problems": [problem._asdict() for problem in self.problems],
            "notes": [note._asdict() for note in self.notes],
        }


def check(
    path: Path | str,
    *,
    depth: int = 1,
    processes: int | None = None,
    progress: Progress = SILENT,
) -> CheckResult:
    """Looks at every picture of a folder, or at every record of a dataset or of one shard.

    Args:
      path: folder of class folders, dataset directory, or a TFRecord file.
      depth: how many levels of folders make a class's name.
      processes: worker processes for pictures; None: as many as there are cores.
      progress: where it tells how far it is.

    Raises:
      NotFoundError: nothing is there.
    """
    path = Path(path)
    if not path.exists():
        raise NotFoundError(
            f"{path} is not there.", next_step="Name a folder of pictures or a dataset directory."
        )
    if path.is_file() or is_dataset_directory(path):
        return _check_dataset(path, progress)
    return _check_pictures(path, depth, processes, progress)


def _check_pictures(
    root: Path, depth: int, processes: int | None, progress: Progress
) -> CheckResult:
    result = CheckResult(root, "pictures")
    source: Source | None = None
    try:
        source = find_source(root, depth)
    except DataError as error:
        result.problems.append(Problem("layout", str(root), _in_one_line(error)))
    paths = [item.path for item in source.items] if source else list_pictures(root)
    reader = source.reader if source else "files"
    result.num_pictures = len(paths)
    cleaned: list[Cleaned] = []
    with progress.task("Checking pictures", len(paths), "pictures") as task:
        for answer in clean_all(root, paths, None, processes, None, reader):
            task.advance()
            path = str(root / paths[answer.item])
            if not isinstance(answer, Cleaned):
                result.problems.append(Problem(answer.kind, path, answer.detail))
                continue
            cleaned.append(answer)
            for change in answer.changes:
                _sort_change(result, path, change)
    if source is not None:
        result.classes = source.classes
        _check_source(result, source, cleaned)
    return result


def _in_one_line(error: SlimtuneError) -> str:
    parts = (error.message, error.next_step)
    return " ".join(" ".join(part.split()) for part in parts if part)


def _sort_change(result: CheckResult, path: str, change: str) -> None:
    if _FAULTY_CHANGES[0] in change:
        result.problems.append(Problem("trailing-bytes", path, change))
    elif _FAULTY_CHANGES[1] in change:
        result.problems.append(Problem("wrong-suffix", path, change))
    else:
        result.notes.append(Problem("changed", path, change))


def _check_source(result: CheckResult, source: Source, cleaned: Sequence[Cleaned]) -> None:
    filled = {source.items[picture.item].label for picture in cleaned}
    for label, name in enumerate(source.classes):
        if label not in filled:
            result.problems.append(
                Problem("empty-class", str(source.root / name), "has no usable picture")
            )
    result.problems.extend(_similar_classes(source.root, source.classes))
    if len(filled) == 1 and len(cleaned) >= _FEW_RECORDS:
        detail = f"all {len(cleaned)} pictures have the label {source.classes[filled.pop()]}"
        result.problems.append(Problem("one-label", str(source.root), detail))
    by_digest: dict[bytes, list[int]] = defaultdict(list)
    for picture in cleaned:
        by_digest[picture.digest].append(picture.item)
    for places in by_digest.values():
        items = [source.items[place] for place in places]
        if len({(item.label, item.split) for item in items}) > 1:
            others = ", ".join(item.path for item in items[1:])
            result.problems.append(
                Problem("duplicate", str(source.root / items[0].path), f"same content as {others}")
            )
        elif len(items) > 1:
            others = ", ".join(item.path for item in items[1:])
            result.notes.append(
                Problem("repeated", str(source.root / items[0].path), f"same content as {others}")
            )
    result.notes.extend(
        Problem("ignored", str(source.root / path), "no picture by name and first bytes")
        for path in source.ignored
    )


def _similar_classes(root: Path, classes: Sequence[str]) -> Iterator[Problem]:
    """Names that differ in case, blanks at the ends or Unicode's spelling alone."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[unicodedata.normalize("NFC", name).casefold().strip()].append(name)
    for names in groups.values():
        if len(names) > 1:
            listed_names = ", ".join(repr(name) for name in names)
            yield Problem(
                "similar-classes", str(root / names[0]), f"nearly the same names: {listed_names}"
            )


class _Seen(NamedTuple):
    """Where a picture of some content was met first."""

    place: str
    label: int
    split: str


def _check_dataset(path: Path, progress: Progress) -> CheckResult:
    result = CheckResult(path, "dataset")
    try:
        dataset = read_dataset(path)
    except RecordError as error:
        result.problems.append(Problem("damaged-record", str(path), _in_one_line(error)))
        return result
    except (DataError, NotFoundError) as error:
        if path.is_file() and path.name != DATASET_FILE:
            # A shard that lies alone is looked at without class names.
            result.num_pictures = len(list(_check_shard(result, "", path, {})))
            if path.stat().st_size == 0:
                detail = "record 0 (offset 0): the file is empty"
                result.problems.append(Problem("damaged-record", str(path), detail))
        else:
            result.problems.append(Problem("layout", str(path), _in_one_line(error)))
        return result
    result.classes = dataset.classes
    seen: dict[bytes, _Seen] = {}
    total = sum(split.count for split in dataset.splits.values())
    with progress.task("Checking records", total, "records") as task:
        for name, split in dataset.splits.items():
            labels: list[int] = []
            for shard in split.shards:
                if path.is_file() and path.name not in (DATASET_FILE, shard.path.name):
                    continue
                count = 0
                for label in _check_shard(result, name, shard.path, seen):
                    labels.append(label)
                    count += 1
                    task.advance()
                if count != shard.count:
                    detail = f"{count} sound records, expected {shard.count}"
                    result.problems.append(Problem("count", str(shard.path), detail))
            result.num_pictures += len(labels)
            _check_split(result, dataset, name, labels)
    return result


def _check_split(result: CheckResult, dataset: Dataset, name: str, labels: Sequence[int]) -> None:
    if len(dataset.classes) > 1 and len(labels) >= _FEW_RECORDS and len(set(labels)) == 1:
        result.problems.append(
            Problem(
                "one-label",
                str(dataset.path),
                f"all {len(labels)} records of the split {name} have the label {labels[0]}",
            )
        )


def _check_shard(
    result: CheckResult, split: str, path: Path, seen: dict[bytes, _Seen]
) -> Iterator[int]:
    """Yields the label of each record that can be read; stops where the file is broken."""
    with mapped(path) as view:
        try:
            for place in record_places(path, view):
                where = f"{path}: record {place.number} (offset {place.offset})"
                try:
                    features = parse_example(checked_data(path, view, place))
                except DataError as error:
                    message = error.message if where in error.message else (
                        f"{where}: {error.message}"
                    )  # fmt: skip
                    result.problems.append(Problem("damaged-record", str(path), message))
                    continue
                yield _check_record(result, split, where, features, seen)
        except DataError as error:
            result.problems.append(Problem("damaged-record", str(path), _in_one_line(error)))


def _check_record(
    result: CheckResult,
    split: str,
    where: str,
    features: dict[str, list[bytes] | list[int] | list[float]],
    seen: dict[bytes, _Seen],
) -> int:
    encoded = _first(features, "image/encoded", bytes)
    label = _first(features, "image/class/label", int)
    if encoded is None or label is None:
        absent = [
            key
            for key, value in (("image/encoded", encoded), ("image/class/label", label))
            if value is None
        ]
        detail = f"has no {' and no '.join(absent)}; it has {', '.join(sorted(features))}"
        result.problems.append(Problem("missing-feature", where, detail))
        return -1 if label is None else int(label)
    _check_label(result, where, label, _first(features, "image/class/text", bytes))
    _check_picture(result, where, encoded, features)
    digest = hashlib.sha256(encoded).digest()
    first = seen.setdefault(digest, _Seen(where, label, split))
    if (first.label, first.split) != (label, split):
        result.problems.append(Problem("duplicate", where, f"same content as {first.place}"))
    return int(label)


def _check_label(result: CheckResult, where: str, label: int, text: bytes | None) -> None:
    num_classes = len(result.classes)
    if num_classes == 0:
        return
    if not 0 <= label < num_classes:
        detail = f"label {label}; {num_classes} classes have labels 0 to {num_classes - 1}"
        result.problems.append(Problem("label", where, detail))
    elif text and text != result.classes[label].encode("utf-8"):
        shown = text.decode("utf-8", "replace")
        detail = f"says class {shown!r}, but label {label} is {result.classes[label]!r}"
        result.problems.append(Problem("class-name", where, detail))


def _check_picture(
    result: CheckResult,
    where: str,
    encoded: bytes,
    features: dict[str, list[bytes] | list[int] | list[float]],
) -> None:
    try:
        picture = clean_bytes(where, encoded)
    except PictureError as error:
        result.problems.append(Problem(error.kind, where, error.detail))
        return
    for change in picture.changes:
        _sort_change(result, where, change)
    said = _first(features, "image/format", bytes)
    if said and not picture.changes:
        stated = said.decode("utf-8", "replace").lower()
        if stated.replace("jpg", "jpeg") != picture.format:
            detail = f"image/format says {stated!r}, the bytes are {picture.format}"
            result.problems.append(Problem("format", where, detail))
    height = _first(features, "image/height", int)
    width = _first(features, "image/width", int)
    if height is not None and width is not None and (
        (height, width) != (picture.height, picture.width)
    ):  # fmt: skip
        detail = (
            f"image/height and image/width say {height} x {width}, "
            f"the picture has {picture.height} x {picture.width}"
        )
        result.problems.append(Problem("size", where, detail))


def _first(features: dict[str, Any], name: str, kind: type) -> Any:
    """The first value of a feature, or None where it is absent or of another kind."""
    values = features.get(name) or []
    return values[0] if values and isinstance(values[0], kind) else None
