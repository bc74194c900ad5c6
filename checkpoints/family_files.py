"""Which names in a directory belong to one checkpoint.

V2 keeps PREFIX.index and PREFIX.data-SSSSS-of-NNNNN, V1 one file PREFIX or shards
PREFIX-SSSSS-of-NNNNN; PREFIX.meta holds the graph of either.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path

from checkpoints.errors import SlimtuneError
from checkpoints.files import reading
from checkpoints.table import MAGIC

INDEX, META = ".index", ".meta"
DATA_FILE = re.compile(r"(?P<prefix>.+)\.data-\d{5}-of-(?P<count>\d{5})", re.DOTALL)
V1_SHARD = re.compile(r"(?P<prefix>.+)-\d{5}-of-(?P<count>\d{5})", re.DOTALL)
_STEP = re.compile(r"-(\d+)$")
# A first entry without a key whose value begins with SavedTensorSlices.meta.
_V1_HEAD = re.compile(rb"\x00\x00[\x80-\xff]{0,4}[\x00-\x7f]\x0a", re.DOTALL)
_TABLE_HEAD_BYTES = 8


def names_in(directory: Path) -> list[str]:
    """What lies in a directory, sorted; nothing where there is none."""
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def beside(prefix: Path, ending: str) -> Path:
    """PREFIX with an ending put after it."""
    return prefix.parent / f"{prefix.name}{ending}"


def size_of(path: Path) -> int | None:
    """The bytes of a file, or None where there is none, or none any more."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def has_index(prefix: Path) -> bool:
    """Whether a V2 checkpoint of this prefix is there."""
    return beside(prefix, INDEX).is_file()


def prefixes_in(directory: Path) -> list[Path]:
    """The prefixes of all checkpoints that lie in a directory, by step, then by name."""
    prefixes = set()
    for name in names_in(directory):
        shard = V1_SHARD.fullmatch(name)
        if name.endswith(INDEX) and name != INDEX:
            prefixes.add(name.removesuffix(INDEX))
        elif not DATA_FILE.fullmatch(name) and is_table(directory / name):
            prefixes.add(shard["prefix"] if shard else name)
    found = (directory / prefix for prefix in prefixes)
    return sorted(found, key=lambda prefix: (step_of(prefix) or 0, prefix.name))


def step_of(prefix: Path) -> int | None:
    """The number at the end of a checkpoint's name, as in model.ckpt-1999."""
    found = _STEP.search(prefix.name)
    return int(found[1]) if found else None


def members(prefix: Path) -> list[Path]:
    """The files with variables under a prefix, of both versions, whether they are whole or not.

    They come in an order in which they may be removed: V1 files, which an index hides, then
    the index, then the .data files, so that what remains is never another checkpoint. A file
    that has such a name and is no checkpoint, as a shard of records may, is not among them.
    """
    v1 = [prefix, *(path for paths in shards_of(prefix, V1_SHARD).values() for path in paths)]
    data = [path for paths in shards_of(prefix, DATA_FILE).values() for path in paths]
    index = [beside(prefix, INDEX)] if has_index(prefix) else []
    return [*filter(is_table, v1), *index, *data]


def shards_of(prefix: Path, regex: re.Pattern[str]) -> dict[int, list[Path]]:
    """The files of a prefix by how many their names say there are."""
    shards: dict[int, list[Path]] = {}
    for name in names_in(prefix.parent):
        match = regex.fullmatch(name) if name.startswith(prefix.name) else None
        if match is not None and match["prefix"] == prefix.name:
            shards.setdefault(int(match["count"]), []).append(prefix.parent / name)
    return shards


def data_files(prefix: Path) -> list[Path]:
    """The .data files; where an older save left files of another count, the index decides."""
    shards = shards_of(prefix, DATA_FILE)
    if len(shards) > 1:
        from checkpoints.bundle import Bundle

        try:
            return shards.get(Bundle(prefix).num_shards, [])
        except SlimtuneError:
            return [path for paths in shards.values() for path in paths]
    return [path for paths in shards.values() for path in paths]


def is_table(path: Path) -> bool:
    """Whether a file ends as a sorted string table does, or begins as a V1 checkpoint does.

    The second finds a file that was cut, so that the error says that instead of "no checkpoint".
    """
    if not path.is_file():
        return False
    # It may go meanwhile.
    with suppress(FileNotFoundError), reading(path), path.open("rb") as file:
        head = file.read(_TABLE_HEAD_BYTES)
        file.seek(max(0, file.seek(0, 2) - len(MAGIC)))
        return file.read() == MAGIC or _V1_HEAD.match(head) is not None
    return False
