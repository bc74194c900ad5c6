"""A dataset directory in cloud storage: written beside its place, then given its names.

Storage has no folders that could be renamed as a whole. So dataset.json goes first where an older
dataset is replaced, and comes last: what has none is no dataset of ours, and never a mixed one.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoints.errors import NotFoundError, OutputExistsError
from finetune.cloud.files import list_files, move, new_file, remove
from finetune.cloud.paths import CloudPath
from finetune.datasets.dataset import DATASET_FILE

_OWN = re.compile(r"dataset\.json|labels\.txt|origin\.json|[^/]+_\d{5}-of-\d{5}\.tfrecord")


def refuse_existing(out: CloudPath, overwrite: bool) -> None:
    """Raises OutputExistsError where something lies below `out` that may not be replaced."""
    found = _names(out)
    if not found:
        return
    if not overwrite:
        raise OutputExistsError(
            f"{out} is already there.",
            next_step="Add --overwrite to replace it, or name another output.",
        )
    foreign = [name for name in found if not _OWN.fullmatch(name)]
    if foreign:
        raise OutputExistsError(
            f"{out} is there and is no dataset; --overwrite replaces datasets only.",
            received=", ".join(foreign[:5]),
            next_step="Name another output, or remove this one yourself.",
        )


@contextmanager
def cloud_directory(out: CloudPath, overwrite: bool) -> Iterator[tuple[Path, CloudPath]]:
    """A local directory for small files, and a path in the storage; below it `shards` is for shards.

    When the block ends without an error, all of both lies below `out`.

    Raises:
      OutputExistsError: what is there may not be replaced.
      OutputError: it cannot be written.
    """
    refuse_existing(out, overwrite)
    scratch = CloudPath(f"{out}.partial-{uuid.uuid4().hex[:12]}")
    with tempfile.TemporaryDirectory(prefix="slimtune-") as directory:
        try:
            yield Path(directory), scratch
            refuse_existing(out, overwrite)
            _replace(out, Path(directory), scratch / "shards")
        finally:
            remove([scratch / name for name in _names(scratch)])


def _replace(out: CloudPath, directory: Path, shards: CloudPath) -> None:
    old = _names(out)
    if DATASET_FILE in old:
        remove([out / DATASET_FILE])
    remove([out / name for name in old if name != DATASET_FILE])
    move([(shards / name, out / name) for name in _names(shards)])
    small = sorted(directory.iterdir(), key=lambda path: (path.name == DATASET_FILE, path.name))
    for path in small:
        with new_file(out / path.name) as file:
            file.write(path.read_bytes())


def _names(folder: CloudPath) -> list[str]:
    try:
        return [file.name for file in list_files(folder)]
    except NotFoundError:
        return []
