"""What is wrong with a folder of pictures or with a dataset's shards: all of it, in one list.

A problem is what makes training fail or learn something wrong. A note is what `data build`
puts right by itself, or leaves out on purpose.
"""

from __future__ import annotations

from pathlib import Path

from checkpoints.errors import DataError, NotFoundError
from checkpoints.progress import SILENT, Progress
from finetune.cloud.local_copy import local_copy
from finetune.datasets.check_records import check_dataset, check_record_files
from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned, clean_all
from finetune.datasets.dataset import is_dataset_directory
from finetune.datasets.findings import FEW, CheckResult, Problem, in_one_line, sort_change
from finetune.datasets.picture_formats import PICTURE_SUFFIXES, PictureError
from finetune.datasets.pictures import clean_bytes, read_picture_file
from finetune.datasets.sources import Source, find_source, records
from finetune.datasets.sources.folders import list_pictures
from finetune.datasets.sources.names import similar_names


def check(
    path: Path | str,
    *,
    depth: int = 1,
    processes: int | None = None,
    progress: Progress = SILENT,
) -> CheckResult:
    """Looks at every picture of a source, or at every record of a dataset or of one shard.

    Args:
      path: folder of class folders, directory of another source, dataset directory, a TFRecord
        file, or one picture's file.
      depth: how many levels of folders make a class's name.
      processes: worker processes for pictures; None: as many as there are cores.
      progress: where it tells how far it is.

    Raises:
      NotFoundError: nothing is there.
    """
    path = local_copy(path, progress)
    if not path.exists():
        raise NotFoundError(
            f"{path} is not there.", next_step="Name a folder of pictures or a dataset directory."
        )
    if path.is_file() and path.suffix.lower() in PICTURE_SUFFIXES:
        return _check_picture(path)
    if path.is_file() or is_dataset_directory(path):
        return check_dataset(path, progress)
    if records.recognises(path):
        return check_record_files(path, records.find_files(path), progress)
    return _check_pictures(path, depth, processes, progress)


def _check_picture(path: Path) -> CheckResult:
    """One picture's file, alone."""
    result = CheckResult(path, "pictures", num_pictures=1)
    try:
        picture = clean_bytes(str(path), read_picture_file(path))
    except PictureError as error:
        result.problems.append(Problem(error.kind, str(path), error.detail))
        return result
    for change in picture.changes:
        sort_change(result, str(path), change)
    return result


def _check_pictures(
    root: Path, depth: int, processes: int | None, progress: Progress
) -> CheckResult:
    result = CheckResult(root, "pictures")
    source: Source | None = None
    try:
        source = find_source(root, depth, progress=progress)
    except DataError as error:
        result.problems.append(Problem("layout", str(root), in_one_line(error)))
    paths = [item.path for item in source.items] if source else list_pictures(root)
    reader = source.reader if source else "files"
    result.num_pictures = len(paths)
    result.problems.extend(
        Problem(rejected.kind, str(root / rejected.path), rejected.detail)
        for rejected in (source.rejected if source else ())
    )
    cleaned = CleanedPictures()
    with progress.task("Checking pictures", len(paths), "pictures") as task:
        for answer in clean_all(root, paths, None, processes, None, reader):
            task.advance()
            path = str(root / paths[answer.item])
            if not isinstance(answer, Cleaned):
                result.problems.append(Problem(answer.kind, path, answer.detail))
                continue
            cleaned.append(answer)
            for change in answer.changes:
                sort_change(result, path, change)
    if source is not None:
        result.classes = source.classes
        _check_source(result, source, cleaned)
    return result


def _check_source(result: CheckResult, source: Source, cleaned: CleanedPictures) -> None:
    filled = {source.items[picture.item].label for picture in cleaned}
    for label, name in enumerate(source.classes):
        if label not in filled:
            result.problems.append(
                Problem("empty-class", str(source.root / name), "has no usable picture")
            )
    result.problems.extend(
        Problem("similar-classes", str(source.root / names[0]), f"nearly the same names: {listed}")
        for names in similar_names(source.classes)
        for listed in (", ".join(map(repr, names)),)
    )
    if len(filled) == 1 and len(cleaned) >= FEW:
        detail = f"all {len(cleaned)} pictures have the label {source.classes[filled.pop()]}"
        result.problems.append(Problem("one-label", str(source.root), detail))
    for places in cleaned.repeated():
        first, *others = (source.items[cleaned.item(place)] for place in places)
        where = str(source.root / first.path)
        detail = f"same content as {', '.join(item.path for item in others)}"
        if any((item.label, item.split) != (first.label, first.split) for item in others):
            result.problems.append(Problem("duplicate", where, detail))
        else:
            result.notes.append(Problem("repeated", where, detail))
    result.notes.extend(
        Problem("ignored", str(source.root / path), "no picture by name and first bytes")
        for path in source.ignored
    )
