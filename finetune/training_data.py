"""What `train` and `evaluate` take as DATA: a dataset directory, or what one can be built of."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkpoints.errors import RunError
from checkpoints.progress import SILENT, Progress
from finetune.cloud.local_copy import local_copy
from finetune.datasets.build import ORIGIN_FILE, build
from finetune.datasets.dataset import Dataset, is_dataset_directory, read_dataset
from finetune.run import Run


def find_dataset(
    data: str | Path,
    built: Path,
    *,
    before_building: Callable[[], object] = lambda: None,
    check: Callable[[tuple[str, ...]], object] | None = None,
    progress: Progress = SILENT,
) -> Dataset:
    """Opens DATA; pictures of any other source are built into a dataset first.

    A dataset that was built before is taken as long as the files are what they were, and is built
    again where they are not.

    Args:
      data: a dataset directory (ours or TF-Slim's), class folders of pictures, or a directory
        of another source (finetune/datasets/sources/); in cloud storage, too: it is copied.
      built: where a dataset is built from pictures, or was built before.
      before_building: called before pictures are read, for what else may be found wrong.
      check: called with the class names of what was built, before it gets its place; what it raises
        leaves the dataset before in place.
      progress: where the building is told.

    Raises:
      RunError: a dataset that somebody else built lies in the place of `built`.
    """
    data = local_copy(data, progress)
    if not data.is_dir() or is_dataset_directory(data):
        return _told(read_dataset(data), progress)
    files = _files_of(data)
    is_there = is_dataset_directory(built)
    why = f"{data} is no dataset yet: building {built} of it."
    if is_there:
        before = _require_origin(built, data)
        if before == files:
            return read_dataset(built)
        changed = _difference(before, files)
        why = f"{data} is not what {built} was built of ({changed}): building it again."
    before_building()
    progress.say(why)
    build(data, built, overwrite=is_there, origin=files, check=check, progress=progress)
    return read_dataset(built)


def has_changed(data: Path, built: Path) -> bool:
    """Whether a folder of pictures is known to be no more what a dataset was built of."""
    origin = _read_origin(built)
    return data.is_dir() and origin is not None and origin != _files_of(data)


def _files_of(folder: Path) -> dict[str, Any]:
    """What origin.json says of a folder: how many files it has, and a digest of their names, sizes and times.

    Hidden files do not count. Links to folders are followed, each folder once.
    """
    lines: list[bytes] = []
    waiting, seen = [folder], set()
    while waiting:
        directory = waiting.pop()
        try:
            status = directory.stat()
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:  # the build names it
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            if entry.name.startswith("."):
                continue
            with suppress(OSError):
                if entry.is_dir():
                    waiting.append(Path(entry.path))
                    continue
                found = entry.stat()
                name = os.fsencode(os.path.relpath(entry.path, folder))
                lines.append(b"%s\0%d\0%d\n" % (name, found.st_size, found.st_mtime_ns))
    digest = hashlib.sha256(b"".join(sorted(lines))).hexdigest()
    return {"files": len(lines), "digest": f"sha256:{digest}"}


def _read_origin(built: Path) -> Any:
    """What origin.json says; None where there is none."""
    try:
        return json.loads((built / ORIGIN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _require_origin(built: Path, data: Path) -> Any:
    """As `_read_origin`, of a dataset that training built.

    Raises:
      RunError: somebody else built it, so that nobody knows of what, and it is not replaced.
    """
    origin = _read_origin(built)
    if not isinstance(origin, dict):
        raise RunError(
            f"{built} is a dataset that train did not build: of which pictures it is nobody knows.",
            expected=f"the dataset that train built of {data}, with {ORIGIN_FILE} in it, or nothing",
            received=f"a dataset without {ORIGIN_FILE}",
            next_step=f"Name {built} as DATA to train on it, or move it away, or name another --run.",
        )
    return origin


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    if before.get("files") != now["files"]:
        return f"{before.get('files')} files then, {now['files']} now"
    return "files of other names, sizes or times"


def find_pictures(
    data: str | Path, model: str | Path | None = None, *, progress: Progress = SILENT
) -> Dataset:
    """Opens DATA to evaluate on; a plain folder of pictures is one split, `test`, with all of them.

    Nothing is written beside the pictures: their dataset lies in a temporary directory and goes
    with the process. The folder that a run was trained on has the splits of its training.

    Args:
      data: as for `find_dataset`.
      model: what is evaluated; matters where it is a run that was trained on `data`.
      progress: where the building is told.
    """
    trained_on = None if model is None else _trained_on(Path(model), Path(data))
    data = local_copy(data, progress)
    if trained_on is not None:
        if has_changed(data, trained_on):
            progress.say(
                f"Warning: {data} has changed since the run was trained on it; evaluated are the "
                f"pictures that {trained_on} was built of."
            )
        return read_dataset(trained_on)
    if not data.is_dir() or is_dataset_directory(data):
        return find_dataset(data, data, progress=progress)
    directory = Path(tempfile.mkdtemp(prefix="slimtune-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    built = directory / f"{data.resolve().name or 'pictures'}-data"
    build(data, built, val=0.0, progress=progress)
    dataset = read_dataset(built)
    if set(dataset.splits) != {"train"}:
        return dataset
    counts = {"test": dataset.counts["train"]}
    split = replace(dataset.splits["train"], name="test")
    return replace(dataset, splits={"test": split}, counts=counts)


def _trained_on(model: Path, data: Path) -> Path | None:
    """The dataset that a run built of these pictures, or None."""
    run = Run(model.parent if model.name == Run.BEST else model)
    if not run.exists():
        return None
    try:
        is_same = Path(run.read_config().data).resolve() == data.resolve()
    except RunError:
        return None
    built = built_beside(run.directory)
    return built if is_same and is_dataset_directory(built) else None


def _told(dataset: Dataset, progress: Progress) -> Dataset:
    if dataset.label_offset:
        progress.say(
            f"{dataset.path}: its labels count from {dataset.label_offset}, as the class names in "
            f"its records say: label {dataset.label_offset} is {dataset.classes[0]!r}, class 0 here."
        )
    if dataset.multi_label:
        progress.say(
            f"{dataset.path}: pictures may have several classes, and each class is learned for "
            "itself; where one is wanted, it is the first that was named."
        )
    return dataset


def built_beside(run: Path) -> Path:
    """Where the dataset of a run that was given pictures lies."""
    return run.with_name(f"{run.name}-data")
