"""Which files make a checkpoint: any spelling of its path, the `checkpoint` file, the latest.

A checkpoint's name is its prefix. V2 keeps PREFIX.index and PREFIX.data-SSSSS-of-NNNNN, V1 one
file PREFIX or shards PREFIX-SSSSS-of-NNNNN; PREFIX.meta holds the graph of either.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from checkpoints.command_lines import shell_words
from checkpoints.containers import recognise
from checkpoints.errors import (
    BrokenFileError,
    CheckpointError,
    NotFoundError,
    UnsupportedError,
    UsageError,
    listed,
    near_names,
)
from checkpoints.family_files import (
    DATA_FILE,
    INDEX,
    META,
    V1_SHARD,
    beside,
    data_files,
    has_index,
    is_table,
    members,
    names_in,
    prefixes_in,
    shards_of,
    size_of,
    step_of,
)
from checkpoints.files import broken_link, kind_of_file, write_text

Kind: TypeAlias = Literal["checkpoint-v1", "checkpoint-v2", "npz", "safetensors"]

STATE_NAME = "checkpoint"
"""The file in which a directory notes its latest checkpoints."""

_PATTERN = re.compile(r"(?P<prefix>.+?)(\.data)?-[?*]+-of-[?*\d]+", re.DOTALL)


@dataclass(frozen=True)
class Family:
    """The files of one checkpoint.

    Attributes:
      prefix: the checkpoint's name: the path without endings; of an npz or safetensors file the
        file itself.
      kind: "checkpoint-v1", "checkpoint-v2", "npz" or "safetensors".
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
    def num_bytes(self) -> int:
        """The size of all files, the graph too; those that went meanwhile count nothing."""
        files = (*self.files, *([] if self.meta is None else [self.meta]))
        return sum(size_of(file) or 0 for file in files)

    @property
    def is_lone_file(self) -> bool:
        """Whether it is one file of the very name, without a graph."""
        return self.files == (self.prefix,) and self.meta is None

    @property
    def step(self) -> int | None:
        """The number at the end of the name, as in model.ckpt-1999."""
        return step_of(self.prefix)


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
        SavedModel's directory, a `checkpoint` file, or an npz or safetensors file. A slash at
        the end is forgiven.

    Raises:
      NotFoundError: nothing of that name is there, a directory holds no checkpoint, or several
        of which none is the latest.
      UnsupportedError: the file is no checkpoint; it is named for what it is.
      CheckpointError: files of the checkpoint are missing.
      UsageError: the path is empty, or none.
    """
    given = Path(_text_of(path))
    slash = os.fspath(path).endswith(("/", os.sep))
    if given.is_dir() and (slash or not has_index(given)):
        return _in_directory(given)
    found = None if has_index(given) else _by_member(given)
    found = found or at_prefix(given)
    if found is not None:
        return replace(found, said="the slash at its end was left out") if slash else found
    _refuse_parts(given)
    kind = kind_of_file(given)
    if kind is not None:
        raise UnsupportedError(
            f"{given} is {kind} and cannot be read as a file.",
            expected="a file, or the prefix of a checkpoint",
            received=kind,
            next_step="Copy what it gives into a file, and name that.",
        )
    if given.is_file():
        return _from_state_file(given)
    raise _not_found(given)


def _text_of(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """A path that is said: an empty one would mean this directory, and None nothing at all."""
    if isinstance(path, str | os.PathLike) and os.fspath(path):
        return path
    raise UsageError(
        "A checkpoint is named by a path, and this is none.",
        expected="its prefix, one of its files, or its directory",
        received=repr(path),
        next_step="Name the checkpoint; this directory is a dot.",
    )


def at_prefix(prefix: Path) -> Family | None:
    """The checkpoint of exactly this prefix, or None; V2 goes before V1, as in TensorFlow.

    Raises:
      CheckpointError: shards are missing, or belong to several sets.
    """
    meta = beside(prefix, META)
    meta_file = meta if meta.is_file() else None
    if has_index(prefix):
        files = (beside(prefix, INDEX), *data_files(prefix))
        return Family(prefix, "checkpoint-v2", files, meta_file)
    if is_table(prefix):
        return Family(prefix, "checkpoint-v1", (prefix,), meta_file)
    shards = shards_of(prefix, V1_SHARD)
    if not shards or not is_table(next(iter(shards.values()))[0]):
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
    return _by_state(state) if state.is_file() else _by_step(folder)


def read_state(directory: str | os.PathLike[str]) -> State | None:
    """Reads a directory's `checkpoint` file, or gives None where there is none.

    Relative names start at the directory. An absolute name whose base name lies in the
    directory means that one, wherever it was written: the directory was moved or copied.

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


def _by_member(given: Path) -> Family | None:
    """The checkpoint that a file, or a pattern of files, belongs to."""
    name = given.name
    for ending, what in ((INDEX, "index"), (META, "graph")):
        if name.endswith(ending) and name != ending:
            return _named_by(given, name.removesuffix(ending), f"is the {what} of")
    for regex, what in (
        (DATA_FILE, "is a file of"),
        (V1_SHARD, "is a shard of"),
        (_PATTERN, "is a pattern of the files of"),
    ):
        match = regex.fullmatch(name)
        if match is not None:
            return _named_by(given, match["prefix"], what)
    return None


def _named_by(given: Path, prefix_name: str, what: str) -> Family | None:
    found = at_prefix(given.with_name(prefix_name))
    return None if found is None else replace(found, said=f"{given} {what} {found.prefix}")


def _in_directory(directory: Path) -> Family:
    found = latest(directory)
    if found is not None:
        return found
    saved_model = at_prefix(directory / "variables" / "variables")
    if saved_model is not None:
        return replace(saved_model, said=f"{directory} is a SavedModel; these are its variables")
    inside = [
        prefix
        for name in names_in(directory)
        if (directory / name).is_dir()
        for prefix in _newest_in(directory / name)
    ]
    raise NotFoundError(
        f"The directory {directory} holds no checkpoint.",
        expected="PREFIX.index with PREFIX.data-00000-of-00001, or a V1 file",
        received=_contents(directory),
        next_step=f"Did you mean one of these?\n{listed(inside)}"
        if inside
        else "Name another directory, or the checkpoint itself.",
    )


def _newest_in(directory: Path) -> list[Path]:
    """The newest prefix of a directory that may be meant; none where it cannot be looked into."""
    try:
        return prefixes_in(directory)[-1:]
    except OSError:
        return []


def _from_state_file(given: Path) -> Family:
    """The checkpoint that a file names, or its variables in a form that is not TensorFlow's."""
    from checkpoints.state import is_state

    if is_state(given):
        found = _by_state(given)
        if found is not None:
            return found
        raise NotFoundError(
            f"{given} names a checkpoint that is not there, and there is no other beside it.",
            expected="the name of a checkpoint beside it, or of its files",
            received=_contents(given.parent),
            next_step="Copy the checkpoint's files there, or name another checkpoint.",
        )
    container = recognise(given)
    if container.kind:
        return Family(given, container.kind, (given,), None)
    raise UnsupportedError(
        f"{given} is no checkpoint.",
        received=container.name,
        next_step=container.next_step
        or "Name the directory, the prefix or a file of a checkpoint.",
    )


def _by_state(state_file: Path) -> Family | None:
    """The checkpoint that a `checkpoint` file names as the latest, else the highest step."""
    from checkpoints.state import parse_state

    directory = state_file.parent
    name, _ = parse_state(state_file)
    prefix = _located(directory, name)
    found = at_prefix(prefix)
    if found is not None:
        moved = "" if prefix == directory / name else f", which lies in {directory} now"
        return replace(found, said=f"{state_file} names {name}{moved}")
    found = _by_step(directory)
    if found is None:
        return None
    what = f"{name}, which is not there" if name else "no checkpoint"
    return replace(found, said=f"{state_file} names {what}; {found.said}")


def _by_step(directory: Path) -> Family | None:
    """The checkpoint of the highest step in a directory, or the only one."""
    prefixes = prefixes_in(directory)
    with_step = [prefix for prefix in prefixes if step_of(prefix) is not None]
    if len(prefixes) > 1 and not with_step:
        raise NotFoundError(
            f"The directory {directory} holds several checkpoints and nothing says which is meant.",
            expected="one checkpoint, a `checkpoint` file, or names that end in a step",
            received=f"\n{listed(prefixes)}",
            next_step="Name one of them.",
        )
    why = f"has the highest step in {directory}" if with_step else f"is the one in {directory}"
    for prefix in reversed(with_step or prefixes):
        found = at_prefix(prefix)
        if found is not None:
            return replace(found, said=f"{prefix.name} {why}")
    return None


def _located(directory: Path, name: str) -> Path:
    """Where the checkpoint of a `checkpoint` file's name lies."""
    # Names may come from Windows. Who moved or copied a directory means the checkpoint in it,
    # also where one still lies at the old place.
    written, base = directory / name, directory / re.split(r"[\\/]", name)[-1]
    first, second = (base, written) if Path(name).is_absolute() else (written, base)
    try:
        return first if members(first) or not members(second) else second
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise BrokenFileError(
            f"{directory / STATE_NAME} names a checkpoint by more than a file's name can have.",
            received=f"{len(name)} characters",
            next_step="Name a checkpoint itself instead of the directory.",
        ) from error


def _refuse_parts(given: Path) -> None:
    """Names what is missing where parts of a checkpoint are there."""
    match = DATA_FILE.fullmatch(given.name)
    prefix = given.with_name(match["prefix"] if match else given.name.removesuffix(INDEX))
    data = [path for paths in shards_of(prefix, DATA_FILE).values() for path in paths]
    if data:
        raise CheckpointError(
            f"{prefix}: the index is missing.",
            expected=f"{prefix}{INDEX} beside the .data files",
            received=", ".join(path.name for path in data),
            next_step="Copy the .index file too: without it nobody knows which bytes are what.",
        )
    if given.name.endswith(META) and given.is_file():
        raise NotFoundError(
            f"{given} is the graph of a checkpoint whose variables are not beside it.",
            expected=f"{given.with_name(given.name.removesuffix(META))}{INDEX}, or a V1 file",
            received=_contents(given.parent),
            next_step="Copy them there, or name the checkpoint.",
        )


def _not_found(given: Path) -> NotFoundError:
    existing = next(parent for parent in (given, *given.parents) if parent.is_dir())
    if existing not in (given, given.parent):
        missing = given.parents[given.parents.index(existing) - 1]
        link = broken_link(missing)
        return NotFoundError(
            f"There is no checkpoint {given}.",
            received=f"the directory {missing} is not there"
            if link is None
            else f"{missing} is {link}",
            next_step=f"See what is there: ls {shell_words(existing)}",
        )
    link = broken_link(given)
    if link is not None:
        return NotFoundError(
            f"There is no checkpoint {given}.",
            received=link,
            next_step=f"Make the link anew; see what is there: ls -l {shell_words(existing)}",
        )
    prefixes = [prefix.name for prefix in prefixes_in(existing) if prefix.name != given.name]
    names = [name for name in names_in(existing) if name != given.name]
    near = near_names(given.name, prefixes) or near_names(given.name, names) or prefixes[-1:]
    return NotFoundError(
        f"There is no checkpoint {given}.",
        received=f"no file or checkpoint of this name in {existing}",
        next_step=f"Did you mean {', '.join(str(existing / name) for name in near)}?"
        if near
        else f"See what is there: ls {shell_words(existing)}",
    )


def _contents(directory: Path) -> str:
    """What lies in a directory, for messages."""
    names = sorted(names_in(directory))
    if not names:
        return f"{directory} is empty"
    return f"in {directory}:\n{listed(names)}"
