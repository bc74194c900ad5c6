"""Which files make a checkpoint: any spelling of its path, the `checkpoint` file, the latest.

A checkpoint's name is its prefix. V2 keeps PREFIX.index and PREFIX.data-SSSSS-of-NNNNN, V1 one
file PREFIX or shards PREFIX-SSSSS-of-NNNNN; PREFIX.meta holds the graph of either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from checkpoints.containers import recognise
from checkpoints.errors import (
    BrokenFileError,
    CheckpointError,
    NotFoundError,
    SlimtuneError,
    UnsupportedError,
    listed,
    near_names,
)
from checkpoints.files import write_text
from checkpoints.table import MAGIC

Kind: TypeAlias = Literal["checkpoint-v1", "checkpoint-v2"]

STATE_NAME = "checkpoint"
"""The file in which a directory notes its latest checkpoints."""

_INDEX, _META = ".index", ".meta"
_DATA_FILE = re.compile(r"(?P<prefix>.+)\.data-\d{5}-of-(?P<count>\d{5})", re.DOTALL)
_V1_SHARD = re.compile(r"(?P<prefix>.+)-\d{5}-of-(?P<count>\d{5})", re.DOTALL)
_PATTERN = re.compile(r"(?P<prefix>.+?)(\.data)?-[?*]+-of-[?*\d]+", re.DOTALL)
# A first entry without a key whose value begins with SavedTensorSlices.meta.
_V1_HEAD = re.compile(rb"\x00\x00[\x80-\xff]{0,4}[\x00-\x7f]\x0a", re.DOTALL)
_TABLE_HEAD_BYTES = 8
_STEP = re.compile(r"-(\d+)$")


@dataclass(frozen=True)
class Family:
    """The files of one checkpoint.

    Attributes:
      prefix: the checkpoint's name: the path without endings.
      kind: "checkpoint-v1" or "checkpoint-v2".
      files: the files with the variables; of V2 the index first.
      meta: the .meta file with the graph, where there is one.
      said: how the path that was given led here, or None where it was the prefix.
    """

    prefix: Path
    kind: Kind
    files: tuple[Path, ...]
    meta: Path | None
    said: str | None = None

    @property
    def step(self) -> int | None:
        """The number at the end of the name, as in model.ckpt-1999."""
        found = _STEP.search(self.prefix.name)
        return int(found[1]) if found else None


@dataclass(frozen=True)
class State:
    """What a `checkpoint` file says.

    Attributes:
      latest: the prefix of the latest checkpoint.
      all_paths: the prefixes of all that are kept, oldest first.
    """

    latest: Path
    all_paths: tuple[Path, ...]


def resolve(path: str | os.PathLike[str]) -> Family:
    """Finds the checkpoint that a path means.

    Args:
      path: the prefix, any of the files, a pattern of shards (x-?????-of-00002), a directory, a
        SavedModel's directory or a `checkpoint` file. A slash at the end is forgiven.

    Raises:
      NotFoundError: nothing of that name is there, a directory holds no checkpoint, or several
        of which none is the latest.
      UnsupportedError: the file is no checkpoint; it is named for what it is.
      CheckpointError: files of the checkpoint are missing.
    """
    given = Path(path)
    slash = os.fspath(path).endswith(("/", os.sep))
    if given.is_dir() and (slash or not _has_index(given)):
        return _in_directory(given)
    found = _by_prefix(given) if _has_index(given) else _by_member(given)
    if found is None:
        found = _by_prefix(given)
    if found is not None:
        return replace(found, said="the slash at its end was left out") if slash else found
    if given.is_file():
        return _from_state_file(given)
    raise _not_found(given)


def latest(directory: str | os.PathLike[str]) -> Family | None:
    """The newest checkpoint of a directory: by its `checkpoint` file, else by the highest step.

    Returns:
      None where there is no such directory, or no checkpoint in it.

    Raises:
      NotFoundError: without a `checkpoint` file several would do.
    """
    folder = Path(directory)
    if not folder.is_dir():
        return None
    state = folder / STATE_NAME
    found = _by_state(state) if state.is_file() else None
    return found or _by_step(folder)


def read_state(directory: str | os.PathLike[str]) -> State | None:
    """Reads a directory's `checkpoint` file, or gives None where there is none.

    Names are relative to the directory. A name whose base name lies in the directory means
    that one, even where the name is absolute: the directory was moved or copied.

    Raises:
      BrokenFileError: the file is not the text it should be.
    """
    path = Path(directory) / STATE_NAME
    if not path.is_file():
        return None
    from checkpoints.state import parse_state

    latest_name, names = parse_state(path)
    return State(
        _located(path.parent, latest_name), tuple(_located(path.parent, name) for name in names)
    )


def write_state(
    directory: str | os.PathLike[str],
    latest: str | os.PathLike[str],
    all_paths: Sequence[str | os.PathLike[str]] = (),
) -> None:
    """Writes a directory's `checkpoint` file, names relative to it, so that it can be moved.

    Args:
      directory: where the file goes.
      latest: the prefix of the latest checkpoint.
      all_paths: the prefixes of all that are kept, oldest first; `latest` is put at the end
        where it is missing, as TensorFlow expects.
    """
    from checkpoints.state import format_state

    folder = Path(directory)
    prefixes = [path for path in map(Path, all_paths) if path != Path(latest)] + [Path(latest)]
    names = [
        # A bare name is one in the directory, not one in the working directory.
        path.name if path.parent == Path() else os.path.relpath(path, folder)
        for path in prefixes
    ]
    write_text(folder / STATE_NAME, format_state(names[-1], names))


def families_in(directory: Path) -> list[Family]:
    """All checkpoints that lie in a directory, by step, then by name; broken sets are left out."""
    prefixes = set()
    for name in _names_in(directory):
        shard = _V1_SHARD.fullmatch(name)
        if name.endswith(_INDEX):
            prefixes.add(name.removesuffix(_INDEX))
        elif not _DATA_FILE.fullmatch(name) and _is_table(directory / name):
            prefixes.add(shard["prefix"] if shard else name)
    families = []
    for prefix in prefixes:
        try:
            found = _by_prefix(directory / prefix)
        except CheckpointError:
            continue
        if found is not None:
            families.append(found)
    return sorted(families, key=lambda family: (family.step or 0, family.prefix.name))


def members(prefix: Path) -> list[Path]:
    """The files with variables under a prefix, of both versions, whether they are whole or not."""
    found = []
    for name in _names_in(prefix.parent):
        match = _DATA_FILE.fullmatch(name) or _V1_SHARD.fullmatch(name)
        is_shard = match is not None and match["prefix"] == prefix.name
        if is_shard or name in (prefix.name, f"{prefix.name}{_INDEX}"):
            found.append(prefix.parent / name)
    return [path for path in found if not path.is_dir()]


def _by_prefix(prefix: Path) -> Family | None:
    """The checkpoint of exactly this prefix; V2 goes before V1, as in TensorFlow."""
    meta = _beside(prefix, _META)
    meta_file = meta if meta.is_file() else None
    if _has_index(prefix):
        files = (_beside(prefix, _INDEX), *_data_files(prefix))
        return Family(prefix, "checkpoint-v2", files, meta_file)
    if _is_table(prefix):
        return Family(prefix, "checkpoint-v1", (prefix,), meta_file)
    shards = _shards(prefix, _V1_SHARD)
    if not shards or not _is_table(next(iter(shards.values()))[0]):
        return None
    whole = {count: paths for count, paths in shards.items() if len(paths) == count}
    if len(whole) != 1:
        count = max(shards)
        raise CheckpointError(
            f"{prefix}: the shards are not one whole set.",
            expected=f"{count} files {prefix.name}-00000-of-{count:05d} and so on",
            received=", ".join(path.name for paths in shards.values() for path in paths),
            next_step="Put the missing files there, or move those of another set away.",
        )
    (files,) = (tuple(paths) for paths in whole.values())
    return Family(prefix, "checkpoint-v1", files, meta_file)


def _by_member(given: Path) -> Family | None:
    """The checkpoint that a file, or a pattern of files, belongs to."""
    name = given.name
    for ending, what in ((_INDEX, "index"), (_META, "graph")):
        if name.endswith(ending) and name != ending:
            return _named_by(given, name.removesuffix(ending), f"is the {what} of")
    for regex, what in (
        (_DATA_FILE, "is a file of"),
        (_V1_SHARD, "is a shard of"),
        (_PATTERN, "is a pattern of the files of"),
    ):
        match = regex.fullmatch(name)
        if match is not None:
            return _named_by(given, match["prefix"], what)
    return None


def _named_by(given: Path, prefix_name: str, what: str) -> Family | None:
    found = _by_prefix(given.with_name(prefix_name))
    return None if found is None else replace(found, said=f"{given} {what} {found.prefix}")


def _in_directory(directory: Path) -> Family:
    found = latest(directory)
    if found is not None:
        return found
    saved_model = _by_prefix(directory / "variables" / "variables")
    if saved_model is not None:
        return replace(saved_model, said=f"{directory} is a SavedModel; these are its variables")
    inside = [
        family.prefix
        for name in _names_in(directory)
        if (directory / name).is_dir()
        for family in families_in(directory / name)[-1:]
    ]
    raise NotFoundError(
        f"The directory {directory} holds no checkpoint.",
        expected="PREFIX.index with PREFIX.data-00000-of-00001, or a V1 file",
        received=_contents(directory),
        next_step=f"Did you mean one of these?\n{listed(inside)}" if inside else None,
    )


def _from_state_file(given: Path) -> Family:
    """The checkpoint that a file names which is none itself."""
    from checkpoints.state import is_state

    if is_state(given):
        found = _by_state(given) or _by_step(given.parent)
        if found is not None:
            return found
        raise NotFoundError(
            f"{given} names a checkpoint that is not there, and there is no other beside it.",
            received=_contents(given.parent),
        )
    container = recognise(given)
    raise UnsupportedError(
        f"{given} is no checkpoint.", received=container.name, next_step=container.next_step
    )


def _by_state(state_file: Path) -> Family | None:
    """The checkpoint that a `checkpoint` file names as the latest, where it is there."""
    from checkpoints.state import parse_state

    name, _ = parse_state(state_file)
    found = _by_prefix(_located(state_file.parent, name))
    return None if found is None else replace(found, said=f"{state_file} names {found.prefix.name}")


def _by_step(directory: Path) -> Family | None:
    """The checkpoint of the highest step in a directory, or the only one."""
    families = families_in(directory)
    with_step = [family for family in families if family.step is not None]
    if len(families) > 1 and not with_step:
        raise NotFoundError(
            f"The directory {directory} holds several checkpoints and nothing says which is meant.",
            expected="one checkpoint, a `checkpoint` file, or names that end in a step",
            received=f"\n{listed(family.prefix for family in families)}",
            next_step="Name one of them.",
        )
    if not families:
        return None
    if not with_step:
        return replace(families[0], said=f"{directory} holds one checkpoint")
    found = max(with_step, key=lambda family: (family.step or 0, family.prefix.name))
    return replace(found, said=f"{found.prefix.name} has the highest step in {directory}")


def _located(directory: Path, name: str) -> Path:
    """Where the checkpoint of a `checkpoint` file's name lies."""
    # Who moved or copied a directory means the checkpoint in it, wherever it was written; names
    # may come from Windows.
    base = directory / re.split(r"[\\/]", name)[-1]
    written = directory / name
    return base if members(base) or not members(written) else written


def _not_found(given: Path) -> SlimtuneError:
    if any(_DATA_FILE.fullmatch(path.name) for path in members(given)) or (
        _DATA_FILE.fullmatch(given.name) and given.is_file()
    ):
        match = _DATA_FILE.fullmatch(given.name)
        prefix = given.with_name(match["prefix"]) if match else given
        return CheckpointError(
            f"{prefix}: the index is missing.",
            expected=f"{prefix}{_INDEX} beside the .data files",
            received=", ".join(path.name for path in members(prefix)),
            next_step="Copy the .index file too: without it nobody knows which bytes are what.",
        )
    if given.name.endswith(_META) and given.is_file():
        return NotFoundError(
            f"{given} is the graph of a checkpoint whose variables are not beside it.",
            expected=f"{given.with_name(given.name.removesuffix(_META))}{_INDEX}, or a V1 file",
            received=_contents(given.parent),
        )
    existing = next(parent for parent in (given, *given.parents) if parent.is_dir())
    names = [family.prefix.name for family in families_in(existing)]
    near = near_names(given.name, names) or names[-1:]
    return NotFoundError(
        f"There is no checkpoint {given}.",
        received=_contents(existing),
        next_step=f"Did you mean {', '.join(str(existing / name) for name in near)}?"
        if near
        else None,
    )


def _contents(directory: Path) -> str:
    """What lies in a directory, for messages."""
    names = sorted(_names_in(directory))
    if not names:
        return f"{directory} is empty"
    return f"in {directory}:\n{listed(names)}"


def _names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def _beside(prefix: Path, ending: str) -> Path:
    return prefix.parent / f"{prefix.name}{ending}"


def _has_index(prefix: Path) -> bool:
    return _beside(prefix, _INDEX).is_file()


def _shards(prefix: Path, regex: re.Pattern[str]) -> dict[int, list[Path]]:
    """The files of a prefix by how many their names say there are."""
    shards: dict[int, list[Path]] = {}
    for name in _names_in(prefix.parent):
        match = regex.fullmatch(name)
        if match is not None and match["prefix"] == prefix.name:
            shards.setdefault(int(match["count"]), []).append(prefix.parent / name)
    return shards


def _data_files(prefix: Path) -> list[Path]:
    """The .data files; where an older save left files of another count, the index decides."""
    shards = _shards(prefix, _DATA_FILE)
    if len(shards) > 1:
        from checkpoints.bundle import Bundle

        try:
            return shards.get(Bundle(prefix).num_shards, [])
        except BrokenFileError:
            return [path for paths in shards.values() for path in paths]
    return [path for paths in shards.values() for path in paths]


def _is_table(path: Path) -> bool:
    """Whether a file ends as a sorted string table does, or begins as a V1 checkpoint does.

    The second finds a file that was cut, so that the error says that instead of "no checkpoint".
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_TABLE_HEAD_BYTES)
        file.seek(max(0, file.seek(0, 2) - len(MAGIC)))
        return file.read() == MAGIC or _V1_HEAD.match(head) is not None
