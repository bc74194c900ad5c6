"""Pictures to shards: every file opened, cleaned and split, with a report of what was met.

First the worker processes read, hash and clean each file; a file that is kept as it is
stays where it is, a re-encoded one waits in a spool file. Then the pictures are dealt to
splits by the hash of their file's content and written in the order of that hash, so that
classes are mixed in every shard and the same pictures give the same shards. Neither step
holds more than a few pictures in memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from checkpoints.errors import DataError, OutputExistsError, UsageError, listed
from checkpoints.files import atomic_directory, refuse_existing, write_json
from checkpoints.progress import SILENT, Progress
from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned, Rejected, clean_all
from finetune.datasets.dataset import SPLITS, is_dataset_directory
from finetune.datasets.shard_writer import Written, write_dataset
from finetune.datasets.sources import RejectedItem, Source, find_source
from finetune.datasets.sources.names import similar_names
from finetune.datasets.splits import find_duplicates

ORIGIN_FILE = "origin.json"
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
      sizes: split name -> pictures.
      num_pictures: pictures in the shards.
      changes: what was done to how many pictures.
      skipped: the files left out, with the reason.
      ignored: files that are no pictures by name and first bytes.
      empty_classes: folders without a usable picture; they are no class of the dataset.
      without_validation: classes without a picture in val, where val was asked for.
      without_training: classes whose pictures all lie in other splits of the source.
      moved_to_training: pictures that train only because their class would have no other; with
        others in the class, a later build gives them back to the split their content says.
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
    sizes: dict[str, int]
    num_pictures: int
    changes: dict[str, int]
    skipped: tuple[Skipped, ...]
    ignored: tuple[str, ...]
    empty_classes: tuple[str, ...]
    without_validation: tuple[str, ...]
    without_training: tuple[str, ...]
    moved_to_training: tuple[str, ...]
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
            "moved_to_training": list(self.moved_to_training),
            "duplicates": [list(group) for group in self.duplicates],
            "repeated": self.repeated,
            "hash": self.hash,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class _Pictures:
    """The usable pictures and what was met on the way."""

    cleaned: CleanedPictures = field(default_factory=CleanedPictures)
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
    manifest: Path | str | None = None,
    overwrite: bool = False,
    origin: Mapping[str, Any] | None = None,
    check: Callable[[tuple[str, ...]], object] | None = None,
    progress: Progress = SILENT,
) -> BuildResult:
    """Makes a dataset directory of a folder of class folders.

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
      manifest: CSV file of path, label and more (docs/formats/manifest.md), instead of folders.
      overwrite: replace `out`.
      origin: what origin.json beside the shards shall say of the pictures; None: no such file.
      check: called with the class names before `out` is put in place; may raise.
      progress: where it tells how far it is.

    Raises:
      UsageError: a share or number is out of range.
      OutputExistsError: `out` is there and may not be replaced.
      DataError: a broken picture under "fail", no usable picture, or levels that do not fit.
    """
    started = time.monotonic()
    _check_options(val, test, on_error, shards, processes, max_side, depth)
    out = Path(out)
    _check_output(Path(pictures), out, overwrite)
    source = find_source(
        Path(pictures), depth, None if manifest is None else Path(manifest), progress=progress
    )
    _say_source(source, progress)
    with atomic_directory(out, overwrite) as partial:
        spool = partial / _SPOOL
        spool.mkdir()
        met = _clean_source(source, spool, processes, on_error, max_side, progress)
        written = write_dataset(source, met.cleaned, partial, spool, val, test, shards, progress)
        if check is not None:
            check(written.classes)
        for file in spool.iterdir():
            file.unlink()
        spool.rmdir()
        if origin is not None:
            write_json(partial / ORIGIN_FILE, dict(origin))
    duplicates, repeated = find_duplicates(source, met.cleaned, written.splits)
    return BuildResult(
        path=out,
        name=source.name,
        classes=written.classes,
        counts=written.counts,
        sizes=dict(zip(SPLITS, map(written.splits.count, SPLITS), strict=True)),
        num_pictures=len(met.cleaned),
        changes=dict(sorted(met.changes.items())),
        skipped=tuple(met.skipped),
        ignored=source.ignored,
        empty_classes=tuple(name for name in source.classes if name not in written.classes),
        without_validation=_lacking(written, "val") if val > 0 or "val" in source.splits else (),
        without_training=_lacking(written, "train"),
        moved_to_training=written.moved,
        duplicates=duplicates,
        repeated=repeated,
        hash=written.content_hash,
        outline=source.outline,
        seconds=time.monotonic() - started,
    )


def _lacking(written: Written, split: str) -> tuple[str, ...]:
    """The classes without a picture in a split."""
    counts = written.counts[split]
    return tuple(name for name, count in zip(written.classes, counts, strict=True) if count == 0)


def _check_options(
    val: float,
    test: float,
    on_error: str,
    shards: int | None,
    processes: int | None,
    max_side: int | None,
    depth: int,
) -> None:
    if on_error not in ("skip", "fail"):
        raise UsageError(
            "--on-error is neither skip nor fail.", expected="skip or fail", received=repr(on_error)
        )
    shares = (val, test)
    if not all(isinstance(share, (int, float)) for share in shares) or not (
        0 <= val < 1 and 0 <= test < 1 and val + test < 1
    ):
        raise UsageError(
            "The shares of validation and test pictures leave nothing to train on.",
            expected="--val and --test from 0, together below 1",
            received=f"--val {val!r} --test {test!r}",
        )
    for option, value in (
        ("--shards", shards),
        ("--processes", processes),
        ("--max-side", max_side),
        ("--depth", depth),
    ):
        if value is None and option != "--depth":
            continue
        if not isinstance(value, int) or value < 1:
            raise UsageError(
                f"{option} is no whole number from 1.", expected="1 or more", received=repr(value)
            )


def _check_output(pictures: Path, out: Path, overwrite: bool) -> None:
    """--overwrite replaces datasets, not folders of other things, and never the pictures."""
    refuse_existing(out, overwrite, is_directory=True)
    if out.resolve() in (pictures.resolve(), *pictures.resolve().parents):
        raise UsageError(
            f"{out} holds the pictures and would be replaced.",
            next_step="Name another output directory.",
        )
    if pictures.is_dir() and out.resolve().is_relative_to(pictures.resolve()):
        raise UsageError(
            f"{out} lies inside {pictures}: the next build would take it for pictures.",
            next_step="Name an output directory beside it.",
        )
    if out.is_dir() and any(out.iterdir()) and not is_dataset_directory(out):
        raise OutputExistsError(
            f"{out} is there and is no dataset; --overwrite replaces datasets only.",
            next_step="Name another output directory, or remove this one yourself.",
        )


def _say_source(source: Source, progress: Progress) -> None:
    progress.say(
        f"{source.root}: {len(source.items)} pictures in {len(source.classes)} classes "
        f"({source.described})."
    )
    if source.splits:
        progress.say(f"The source's own splits are kept: {', '.join(source.splits)}.")
    for hint in source.hints:
        progress.say(hint)
    for names in similar_names(source.classes):
        progress.say(f"Classes of nearly the same name: {', '.join(map(repr, names))}.")


def _clean_source(
    source: Source,
    spool: Path,
    processes: int | None,
    on_error: str,
    max_side: int | None,
    progress: Progress,
) -> _Pictures:
    met = _Pictures()
    for rejected in source.rejected:
        _leave_out(met, str(source.root / rejected.path), rejected, on_error, progress)
    paths = [item.path for item in source.items]
    with progress.task("Reading pictures", len(paths), "pictures") as task:
        for answer in clean_all(source.root, paths, spool, processes, max_side, source.reader):
            task.advance()
            if isinstance(answer, Cleaned):
                met.cleaned.append(answer)
                met.changes.update(answer.changes)
                continue
            _leave_out(met, str(source.root / paths[answer.item]), answer, on_error, progress)
    if not met.cleaned:
        raise DataError(
            f"{source.root} has no usable picture:\n"
            + listed(f"{item.path} {item.detail}" for item in met.skipped),
            next_step="Replace the files named.",
        )
    return met


def _leave_out(
    met: _Pictures, path: str, answer: Rejected | RejectedItem, on_error: str, progress: Progress
) -> None:
    """Notes a picture that cannot be used, or stops at it."""
    if on_error == "fail":
        raise DataError(
            f"{path} {answer.detail.rstrip('.')}.",
            expected="a picture that decodes to its end (--on-error fail)",
            next_step="Replace or remove the file, or leave it out with --on-error skip.",
        )
    met.skipped.append(Skipped(path, answer.kind, answer.detail))
    progress.say(f"Skipped {path}: {answer.detail}".replace("\n", "\\n"))
