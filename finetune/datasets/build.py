"""Pictures to shards: every file opened, cleaned and split, with a report of what was met.

First workers read, hash and clean each file; a file that is kept as it is stays where it
is, a re-encoded one waits in a spool file or is encoded once more. Then the pictures are
dealt to splits by the hash of their file's content and written in the order of that hash,
so that classes are mixed in every shard and the same pictures give the same shards. Neither
step holds more than a few pictures in memory. Runners (runners.py) do both: worker processes
of this machine, or those of Apache Beam.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from checkpoints.errors import DataError, listed
from checkpoints.files import write_json
from checkpoints.progress import SILENT, Progress
from finetune.cloud.paths import Place, as_place
from finetune.datasets.build_options import check_options, check_output, find_runner
from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned, Rejected
from finetune.datasets.dataset import SPLITS, Shard, write_dataset_file
from finetune.datasets.dealing import Dealt, deal
from finetune.datasets.runners import Runner
from finetune.datasets.sources import RejectedItem, Source, find_source
from finetune.datasets.sources.names import similar_names
from finetune.datasets.splits import find_duplicates
from finetune.datasets.workplace import workplace

ORIGIN_FILE = "origin.json"


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

    path: Place
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
    pictures: Place | str,
    out: Place | str,
    *,
    val: float = 0.1,
    test: float = 0.0,
    shards: int | None = None,
    processes: int | None = None,
    on_error: Literal["skip", "fail"] = "skip",
    max_side: int | None = None,
    depth: int = 1,
    manifest: Path | str | None = None,
    runner: Literal["local", "beam"] = "local",
    beam_options: str = "",
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
      runner: "local", or "beam" for many machines; the shards are the same. With "beam" `pictures`
        and `out` may be paths in cloud storage.
      beam_options: options of Apache Beam, as on its command line; by default it works on
        this machine.
      overwrite: replace `out`.
      origin: what origin.json beside the shards shall say of the pictures; None: no such file.
      check: called with the class names before `out` is put in place; may raise.
      progress: where it tells how far it is.

    Raises:
      UsageError: a share or number is out of range.
      OutputExistsError: `out` is there and may not be replaced.
      DataError: a broken picture under "fail", no usable picture, or levels that do not fit.
      UnsupportedError: Apache Beam is asked for and not installed.
    """
    started = time.monotonic()
    check_options(val, test, on_error, shards, processes, max_side, depth)
    pictures, out = as_place(pictures), as_place(out)
    make_runner = find_runner(runner, beam_options, processes, pictures, out)
    check_output(pictures, out, overwrite)
    source = find_source(
        pictures, depth, None if manifest is None else Path(manifest), progress=progress
    )
    _say_source(source, progress)
    with workplace(out, overwrite) as place:
        work = make_runner(place)
        met = _clean_source(source, work, on_error, max_side, progress)
        written = deal(source, met.cleaned, val, test, shards)
        _write_dataset(source, written, work, place.directory, progress)
        if check is not None:
            check(written.classes)
        if origin is not None:
            write_json(place.directory / ORIGIN_FILE, dict(origin))
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


def _write_dataset(
    source: Source, dealt: Dealt, runner: Runner, directory: Path, progress: Progress
) -> None:
    """Has the shards written, then writes dataset.json and labels.txt beside them."""
    files: dict[str, list[Shard]] = {}
    total = sum(len(shard.records) for shard in dealt.shards)
    with progress.task("Writing shards", total, "pictures") as task:
        answers = runner.write(source, dealt.shards, task)
        for shard, written in zip(dealt.shards, answers, strict=True):
            found = Shard(directory / shard.file, written.num_records, written.sha256)
            files.setdefault(shard.split, []).append(found)
    write_dataset_file(
        directory,
        name=source.name,
        classes=dealt.classes,
        splits=files,
        counts=dealt.counts,
        content_hash=dealt.content_hash,
        multi_label=any(item.labels for item in source.items),
    )


def _lacking(written: Dealt, split: str) -> tuple[str, ...]:
    """The classes without a picture in a split."""
    counts = written.counts[split]
    return tuple(name for name, count in zip(written.classes, counts, strict=True) if count == 0)


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
    runner: Runner,
    on_error: str,
    max_side: int | None,
    progress: Progress,
) -> _Pictures:
    met = _Pictures()
    for rejected in source.rejected:
        _leave_out(met, str(source.root / rejected.path), rejected, on_error, progress)
    with progress.task("Reading pictures", len(source.items), "pictures") as task:
        for answer in runner.clean(source, max_side, task):
            if isinstance(answer, Cleaned):
                met.cleaned.append(answer)
                met.changes.update(answer.changes)
                continue
            path = source.items[answer.item].path
            _leave_out(met, str(source.root / path), answer, on_error, progress)
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
