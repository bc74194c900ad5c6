"""Class folders: the folder a picture lies in says what it shows.

The class is the first level below the root (`depth` 1), whatever lies deeper; at depth 2
it is the first two levels, `cats/small`. Hidden files and folders are left out. Where the
first level is nothing but splits (train, val, test) the class is the level below it.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, NotFoundError, listed
from checkpoints.progress import SILENT, Progress
from finetune.cloud.paths import CloudPath, Place
from finetune.datasets.dataset import SPLITS, canonical_split, is_dataset_directory
from finetune.datasets.picture_formats import PICTURE_SUFFIXES, begins_like_picture
from finetune.datasets.sources import RejectedItem, Source, SourceItem
from finetune.datasets.sources.names import (
    check_class_names,
    folder_as_name,
    natural_key,
    natural_order,
    safe_name,
)

_OUTLINE_FOLDERS = 12
_OUTLINE_BELOW = 3
_CIFAR_PICKLE = re.compile(r"data_batch_\d+|test_batch")


@dataclass
class _Folder:
    """What lies in one folder; pictures and ignored files by their path from the root.

    `unreadable` says why it cannot be looked into, "" where it can.
    """

    pictures: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unreadable: str = ""
    folders: dict[str, _Folder] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.pictures) + sum(folder.count for folder in self.folders.values())

    def all_pictures(self) -> Iterator[str]:
        yield from self.pictures
        for name in natural_order(self.folders):
            yield from self.folders[name].all_pictures()

    def all_ignored(self) -> Iterator[str]:
        yield from self.ignored
        for name in natural_order(self.folders):
            yield from self.folders[name].all_ignored()

    def all_unreadable(self, path: str = "") -> Iterator[RejectedItem]:
        """The folders that cannot be looked into."""
        if self.unreadable:
            detail = f"is a folder that cannot be read ({self.unreadable})"
            yield RejectedItem(path, "unreadable", detail)
        for name in natural_order(self.folders):
            yield from self.folders[name].all_unreadable(f"{path}/{name}" if path else name)


class FolderItems(Sequence[SourceItem]):
    """Pictures of class folders: items made when they are asked for, as a path is most of each."""

    def __init__(self) -> None:
        """Holds none."""
        self._paths: list[str] = []
        self._labels = array("q")
        self._splits: list[str | None] = []

    def add(self, label: int, split: str | None, paths: Sequence[str]) -> None:
        """Adds pictures of one class and split."""
        self._paths.extend(paths)
        self._labels.extend([label] * len(paths))
        self._splits.extend([split] * len(paths))

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> SourceItem: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SourceItem]: ...
    def __getitem__(self, place: int | slice) -> SourceItem | Sequence[SourceItem]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return SourceItem(self._paths[place], self._labels[place], self._splits[place])


def recognises(path: Path) -> bool:
    """Anything may be a folder of class folders; `read_source` says why it is not."""
    return True


def read_source(root: Path, depth: int = 1, progress: Progress = SILENT) -> Source:
    """Walks a folder of class folders. No picture is opened.

    Args:
      root: the folder that holds the class folders (or train, val, test folders of them).
      depth: how many levels of folders make the class's name.
      progress: not used: walking is quick.

    Raises:
      NotFoundError: the root is not there.
      DataError: there are no pictures, or the levels do not fit; shows the tree as understood
        and the level that is likely meant.
    """
    root = Path(root)
    if not root.is_dir():
        raise NotFoundError(
            f"{root} is no folder." if root.exists() else f"{root} is not there.",
            expected="a folder of class folders, such as flowers/daisy/1.jpg",
            next_step="Name the folder that holds one folder for each class.",
        )
    tree = _walk(root)
    if tree.count == 0:
        raise _no_pictures(root, tree, _outline(root, tree))
    return _source_of(root, tree, depth)


def read_cloud_source(root: CloudPath, depth: int = 1) -> Source:
    """As `read_source`, for class folders in cloud storage.

    Raises:
      NotFoundError: nothing lies there.
      DataError: as of `read_source`.
    """
    from finetune.cloud.files import list_files

    tree = _tree_of(root, [file.name for file in list_files(root)])
    if tree.count == 0:
        raise DataError(
            f"{root} holds no pictures.\n{_outline(root, tree)}",
            expected="a folder of class folders, such as flowers/daisy/1.jpg",
            received=f"files that are no pictures:\n{listed(tree.all_ignored())}",
            next_step="Name the folder that holds one folder for each class. Other sources than"
            " class folders and manifests are read from this machine's disk.",
        )
    return _source_of(root, tree, depth)


def _source_of(root: Place, tree: _Folder, depth: int) -> Source:
    """The source that a tree with pictures in it is."""
    outline = _outline(root, tree)
    split_folders = _split_folders(tree)
    parts: list[tuple[str | None, _Folder]] = (
        [(canonical_split(name), tree.folders[name]) for name in split_folders]
        if split_folders
        else [(None, tree)]
    )
    classes: dict[str, list[tuple[str | None, list[str]]]] = {}
    stray: list[str] = []
    for split, folder in parts:
        for name, pictures in _classes_at(folder, depth, stray):
            classes.setdefault(folder_as_name(name), []).append((split, pictures))
    _check_levels(root, tree, classes, stray, depth, bool(split_folders), outline)
    names = tuple(natural_order(list(classes)))
    check_class_names(root, names, "Rename these folders.")
    items = FolderItems()
    for label, name in enumerate(names):
        for split, pictures in classes[name]:
            items.add(label, split, pictures)
    where = "the folders below train, val and test" if split_folders else f"depth {depth}"
    return Source(
        root=root,
        name=safe_name(root),
        classes=names,
        items=items,
        splits=tuple(dict.fromkeys(split for split, _ in parts if split)),
        ignored=tuple(tree.all_ignored()),
        outline=outline,
        described=where,
        hints=_hints(items, len(names), outline, depth, bool(split_folders)),
        rejected=tuple(tree.all_unreadable()),
    )


def list_pictures(root: Path) -> list[str]:
    """Every picture file below a folder, at any level, by its path from there."""
    return list(_walk(root).all_pictures())


def _tree_of(root: CloudPath, names: Iterable[str]) -> _Folder:
    """The tree that names of objects make, as `_walk` would find it on a disk."""
    tree = _Folder()
    for name in sorted(names, key=lambda name: natural_key(name.rpartition("/")[2])):
        *above, own = name.split("/")
        if any(part.startswith(".") for part in (*above, own)):
            continue
        folder = tree
        for part in above:
            folder = folder.folders.setdefault(part, _Folder())
        is_picture = _has_picture_suffix(own) or _begins_like_picture(root / name)
        (folder.pictures if is_picture else folder.ignored).append(name)
    return tree


def _begins_like_picture(path: CloudPath) -> bool:
    try:
        with path.open() as file:
            return begins_like_picture(file.read(16))
    except (OSError, NotFoundError):
        return False


def _has_picture_suffix(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES  # noqa: PTH122


def _walk(root: Path) -> _Folder:
    tree = _Folder()
    _walk_into(tree, str(root), "", frozenset())
    return tree


def _walk_into(
    folder: _Folder, path: str, relative: str, above: frozenset[tuple[int, int]]
) -> None:
    try:
        status = os.stat(path)  # noqa: PTH116 - plain text paths: a hundred thousand of them
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: natural_key(entry.name))
    except OSError as error:
        if not relative:
            raise
        folder.unreadable = error.strerror or str(error)
        return
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        return  # A link that leads back up.
    for entry in entries:
        if entry.name.startswith("."):
            continue
        below = relative + entry.name
        if _is_folder(entry):
            folder.folders[entry.name] = _Folder()
            _walk_into(folder.folders[entry.name], entry.path, below + "/", above | {identity})
        elif _is_picture(entry):
            folder.pictures.append(below)
        else:
            folder.ignored.append(below)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # A link to itself; read as a picture it will say so.


def _is_picture(entry: os.DirEntry[str]) -> bool:
    if _has_picture_suffix(entry.name):
        return True
    try:
        if not entry.is_file():
            return False  # A device or a pipe could be read without end.
        with open(entry.path, "rb") as file:  # noqa: PTH123
            return begins_like_picture(file.read(16))
    except OSError:
        return False


def _split_folders(tree: _Folder) -> list[str]:
    """The first level's names if they are splits, train among them, and hold folders only."""
    names = [name for name, folder in tree.folders.items() if folder.count]
    meant = [canonical_split(name) for name in names]
    are_splits = (
        not tree.pictures
        and "train" in meant
        and len(set(meant)) == len(meant) > 1
        and all(split in SPLITS for split in meant)
        and all(not tree.folders[name].pictures for name in names)
    )
    return sorted(names, key=lambda name: SPLITS.index(canonical_split(name))) if are_splits else []


def _classes_at(
    folder: _Folder, depth: int, stray: list[str], above: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """Class name and pictures of each folder `depth` levels down; pictures above are stray."""
    stray.extend(folder.pictures)
    for name in natural_order(folder.folders):
        below = folder.folders[name]
        if depth == 1:
            yield above + name, list(below.all_pictures())
        else:
            yield from _classes_at(below, depth - 1, stray, f"{above}{name}/")


def _check_levels(
    root: Place,
    tree: _Folder,
    classes: dict[str, list[tuple[str | None, list[str]]]],
    stray: list[str],
    depth: int,
    has_splits: bool,
    outline: str,
) -> None:
    filled = [name for name, parts in classes.items() if any(pictures for _, pictures in parts)]
    if not filled:
        raise DataError(
            f"{root} has no class folders at depth {depth}; its {tree.count} pictures lie above."
            f"\n{outline}",
            expected="a folder of class folders, such as flowers/daisy/1.jpg",
            received="one class's folder, by the look of it" if depth == 1 else None,
            next_step=f"Give the folder above it: {_above(root)}"
            if depth == 1
            else "Give a smaller --depth.",
        )
    if stray:
        raise DataError(
            f"{root}: {len(stray)} pictures lie beside the class folders, so that their class "
            f"is not known:\n{listed(stray)}\n{outline}",
            expected="every picture inside a class folder",
            next_step="Move them into a class folder, or away.",
        )
    deeper = _likely_root(tree)
    if deeper and depth == 1 and not has_splits and len(filled) == 1:
        raise DataError(
            f"{root} has one folder with pictures below it, which would be one class.\n{outline}",
            expected="at least two classes",
            received=f"1: {filled[0]}",
            next_step=f"Give the folder whose folders are the classes: {root / deeper}",
        )


def _above(root: Place) -> Place:
    return root.absolute().parent if isinstance(root, Path) else root.parent


def _likely_root(tree: _Folder) -> str:
    """Down from the root while there is one folder with pictures; "" where classes are there."""
    path: list[str] = []
    folder = tree
    while not folder.pictures:
        filled = [name for name, below in folder.folders.items() if below.count]
        if len(filled) != 1:
            return "/".join(path)
        path.append(filled[0])
        folder = folder.folders[filled[0]]
    return ""


def _hints(
    items: Sequence[SourceItem], num_classes: int, outline: str, depth: int, has_splits: bool
) -> tuple[str, ...]:
    """What speaks for another level or root than was given."""
    levels = depth + (2 if has_splits else 1)
    if items and all(item.path.count("/") >= levels for item in items):
        hint = (
            "All pictures lie in folders inside the class folders; if those are the classes, "
            f"use --depth {depth + 1}."
        )
    elif num_classes == 1:
        hint = "There is one class only; a net needs two to tell apart."
    else:
        return ()
    return f"The tree as understood:\n{outline}", hint


def _no_pictures(root: Path, tree: _Folder, outline: str) -> DataError:
    if is_dataset_directory(root):
        return DataError(
            f"{root} holds shards, not pictures.",
            expected="a folder of class folders, such as flowers/daisy/1.jpg",
            next_step="It is a dataset already: " + shell_words("slimtune", "data", "check", root),
        )
    ignored = list(tree.all_ignored())
    if any(_CIFAR_PICKLE.fullmatch(name) for name in tree.ignored):
        return DataError(
            f"{root} holds CIFAR-10's Python batches, which are pickles and are not read.",
            expected="the binary version: data_batch_1.bin to test_batch.bin",
            received=", ".join(sorted(filter(_CIFAR_PICKLE.fullmatch, tree.ignored))),
            next_step="Get cifar-10-binary.tar.gz from the same place.",
        )
    return DataError(
        f"{root} holds no pictures.\n{outline}",
        expected="a folder of class folders, such as flowers/daisy/1.jpg",
        received=f"{len(ignored)} files that are no pictures:\n{listed(ignored)}"
        if ignored
        else "no files",
        next_step="Name the folder that holds one folder for each class.",
    )


def _outline(root: Place, tree: _Folder) -> str:
    """The tree as understood, two levels, with the number of pictures below each folder."""
    lines = [f"{root}/  {_said(tree)}"]
    for name in natural_order(tree.folders)[:_OUTLINE_FOLDERS]:
        folder = tree.folders[name]
        lines.append(f"  {name}/  {_said(folder)}")
        below = natural_order(folder.folders)
        lines.extend(
            f"    {inner}/  {_said(folder.folders[inner])}" for inner in below[:_OUTLINE_BELOW]
        )
        if len(below) > _OUTLINE_BELOW:
            lines.append(f"    and {len(below) - _OUTLINE_BELOW} more folders")
    if len(tree.folders) > _OUTLINE_FOLDERS:
        lines.append(f"  and {len(tree.folders) - _OUTLINE_FOLDERS} more folders")
    return "\n".join(lines)


def _said(folder: _Folder) -> str:
    text = "1 picture" if folder.count == 1 else f"{folder.count} pictures"
    return text + (f", {len(folder.ignored)} other files" if folder.ignored else "")
