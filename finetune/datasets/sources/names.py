"""Names of classes and datasets: their order, and what may stand in files."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from checkpoints.errors import DataError, listed
from finetune.cloud.paths import Place


def natural_key(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sorts names as people count: 2 before 10; otherwise by code point."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return [_part_key(part) for part in parts], name


def _part_key(part: str) -> tuple[int, int, str]:
    if part[0] not in "0123456789":
        return 1, 0, part
    # As numbers sort, of as many digits as there are: Python converts a few thousand.
    digits = part.lstrip("0")
    return 0, len(digits), digits


def natural_order(names: Iterable[str]) -> list[str]:
    """The names, 2 before 10."""
    return sorted(names, key=natural_key)


def safe_name(root: Place) -> str:
    """The folder's name as it may stand in shards' names: letters of any script, digits, - and _."""
    name = re.sub(r"[^\w-]+", "_", _own_name(root)).strip("_")
    return name or "pictures"


def _own_name(root: Place) -> str:
    return root.absolute().name if isinstance(root, Path) else root.name


def check_class_names(source: Place, names: Sequence[str], next_step: str) -> None:
    """Refuses names that a line of labels.txt cannot hold.

    Raises:
      DataError: a name has a line break or a NUL, or is no Unicode.
    """
    bad = [ascii(name) for name in names if set("\n\r\0") & set(name) or not _is_unicode(name)]
    if bad:
        raise DataError(
            f"{source}: class names that cannot stand in a line of UTF-8 text:\n{listed(bad)}",
            next_step=next_step,
        )


def folder_as_name(folder: str) -> str:
    """A folder's name as text: UTF-8 where its bytes are, whatever the locale takes them for."""
    try:
        return os.fsencode(folder).decode("utf-8")
    except UnicodeDecodeError:
        return folder  # `check_class_names` tells of it.


def _is_unicode(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def number_names(highest: int) -> tuple[str, ...]:
    """`0` to `highest`: how classes are called that have numbers only."""
    return tuple(str(number) for number in range(highest + 1))


def similar_names(names: Sequence[str]) -> list[list[str]]:
    """Groups of names that differ in case, blanks at the ends or Unicode's spelling alone."""
    groups: dict[str, list[str]] = {}
    for name in names:
        key = unicodedata.normalize("NFC", name).casefold().strip()
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]
