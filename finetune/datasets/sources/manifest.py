"""A manifest: a CSV file with a line for each picture, path and label and what else is known.

The first line names the columns, in any order: `path` and `label`, and if need be `split` and
a box, `x0`, `y0`, `x1`, `y1`; without names they stand in this order. Format: docs/formats/manifest.md.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from checkpoints.errors import DataError, NotFoundError, listed
from checkpoints.numbers import real_number
from checkpoints.progress import SILENT, Progress
from finetune.cloud.paths import Place
from finetune.datasets.dataset import SPLITS, canonical_split
from finetune.datasets.pictures import upright_size
from finetune.datasets.sources import Box, Source, SourceItem
from finetune.datasets.sources.names import check_class_names, natural_order, safe_name

_REQUIRED = ("path", "label")
_BOX = ("x0", "y0", "x1", "y1")
_COLUMNS = (*_REQUIRED, "split", *_BOX)
_UNNAMED = {2: _REQUIRED, 3: (*_REQUIRED, "split"), 6: (*_REQUIRED, *_BOX), 7: _COLUMNS}
"""What the columns of a file without names are, by how many there are."""

_OUTLINE_CLASSES = 12


@dataclass
class _Row:
    """What the lines of one picture say."""

    line: int
    labels: tuple[str, ...]
    split: str | None
    boxes: list[tuple[int, tuple[float, float, float, float]]] = field(default_factory=list)


def read_manifest(root: Place, path: Path, progress: Progress = SILENT) -> Source:
    """Reads the whole manifest; pictures are opened only where boxes are in pixels.

    Args:
      root: what relative paths start from.
      path: the CSV file, UTF-8 with or without a byte-order mark.
      progress: gets a task in pictures where boxes are in pixels.

    Raises:
      NotFoundError: the folder or the manifest is not there.
      DataError: columns are missing, or lines are wrong: all of them, with their numbers.
    """
    if isinstance(root, Path) and not root.is_dir():
        raise NotFoundError(
            f"{root} is not there." if not root.exists() else f"{root} is no folder.",
            expected="the folder that relative paths start from",
            next_step="Name the folder of the pictures first, the manifest with --manifest.",
        )
    if not path.is_file():
        raise NotFoundError(
            f"{path} is no file." if path.exists() else f"{path} is not there.",
            expected="a CSV file",
            next_step="Name the manifest with --manifest.",
        )
    problems: list[tuple[int, str]] = []
    rows: dict[str, _Row] = {}
    hints: list[str] = []
    for line, cells in _lines(path, root, problems, hints):
        _take(rows, line, cells, problems)
    boxes, unit = _boxes(rows, root, problems, progress)
    if problems or not rows:
        lines = listed(f"line {line}: {what}" for line, what in sorted(problems))
        raise DataError(
            f"{path} cannot be used:\n{lines}" if problems else f"{path} has no lines.",
            expected="a line for each picture, all of them right",
            received=f"{len(problems)} wrong lines" if problems else "nothing but a header",
            next_step="Correct these lines.",
        )
    several = any(len(row.labels) > 1 for row in rows.values())
    classes = tuple(natural_order({name for row in rows.values() for name in row.labels}))
    check_class_names(path, classes, "Rename these labels.")
    label_of = {name: label for label, name in enumerate(classes)}
    splits = {row.split for row in rows.values() if row.split}
    if boxes:
        hints.append(f"Boxes are taken as {unit}.")
    if several:
        hints.append("Labels with | are several classes: the pictures may show more than one.")
    return Source(
        root=root,
        name=safe_name(root),
        classes=classes,
        items=[
            _item(name, [label_of[each] for each in row.labels], row, boxes.get(name, ()), several)
            for name, row in rows.items()
        ],
        splits=tuple(split for split in SPLITS if split in splits),
        ignored=(),
        outline="\n".join(f"  {name}" for name in classes[:_OUTLINE_CLASSES]),
        described=path.name,
        hints=tuple(hints),
    )


def _lines(
    path: Path, root: Place, problems: list[tuple[int, str]], hints: list[str]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and cells by column of each line that has as many cells as the first."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True, skipinitialspace=True)
            first = next(reader, [])
            header = [name.strip().lower() for name in first]
            lines: Iterable[list[str]] = reader
            if not set(header) & set(_COLUMNS) and len(header) in _UNNAMED:
                _refuse_other_names(path, root, first)
                header, lines = list(_UNNAMED[len(header)]), itertools.chain([first], reader)
                hints.append(f"The first line names no columns; taken as {', '.join(header)}.")
            _check_header(path, header)
            unused = [name for name in header if name not in _COLUMNS]
            if unused:
                hints.append(f"Columns that are not used: {', '.join(unused)}.")
            for cells in lines:
                if not cells:
                    continue
                if len(cells) != len(header):
                    what = f"{len(cells)} cells, the first line has {len(header)}"
                    problems.append((reader.line_num, what))
                    continue
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except UnicodeDecodeError as err:
        raise DataError(
            f"{path} is not UTF-8: {err.reason}.", next_step="Save it as UTF-8."
        ) from err
    except csv.Error as err:
        raise DataError(
            f"{path}, line {reader.line_num}: {err}.", next_step="Correct this line."
        ) from err


def _refuse_other_names(path: Path, root: Place, first: list[str]) -> None:
    """A first line without our names is one of a picture, or it has other names."""
    with suppress(OSError):  # longer than any name of a file
        if "\0" not in first[0] and (root / first[0]).is_file():
            return
    raise DataError(
        f"The first line of {path} names neither the columns nor a picture that is there.",
        expected=f"path,label and, if need be, split and {','.join(_BOX)}, with commas",
        received=",".join(first),
        next_step="Write path, label ... over the columns.",
    )


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in _REQUIRED if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    in_part = [name for name in _BOX if name not in header] if set(_BOX) & set(header) else []
    if missing or twice or in_part:
        wrong = [f"{name} is missing" for name in missing + in_part]
        wrong += [f"{name} comes twice" for name in twice]
        raise DataError(
            f"The first line of {path} does not name the columns: {', '.join(wrong)}.",
            expected=f"path,label and, if need be, split and {','.join(_BOX)}, with commas",
            received=",".join(header) or "an empty file",
            next_step="Write the names of the columns into the first line.",
        )


def _take(
    rows: dict[str, _Row],
    line: int,
    cells: Mapping[str, str],
    problems: list[tuple[int, str]],
) -> None:
    """Adds one line to what is known of its picture, or to the problems."""
    name = cells["path"]
    labels = _labels(cells["label"])
    split = cells.get("split", "").strip()
    wrong: list[str] = []
    if not name:
        wrong.append("no path")
    elif "\0" in name:
        wrong.append(f"{name!r} is no path")
    if not all(each.strip() for each in labels):
        wrong.append("no label" if len(labels) == 1 else f"an empty label in {cells['label']!r}")
    if len(set(labels)) < len(labels):
        wrong.append(f"a label twice in {cells['label']!r}")
    if split and canonical_split(split) not in SPLITS:
        wrong.append(f"split {split!r}; the splits are {', '.join(SPLITS)}")
    box = _numbers(cells, wrong)
    known = rows.get(name)
    if known is not None:
        if (labels, canonical_split(split) or None) != (known.labels, known.split):
            wrong.append(f"{name} has another label or split in line {known.line}")
        elif box is None or not known.boxes:
            wrong.append(f"{name} stands in line {known.line} already")
    if wrong:
        problems.append((line, "; ".join(wrong)))
        return
    row = rows.setdefault(name, _Row(line, labels, canonical_split(split) or None))
    if box is not None:
        row.boxes.append((line, box))


def _labels(cell: str) -> tuple[str, ...]:
    """The classes of a cell, `red | round` two; a class name alone is kept as it is."""
    return tuple(part.strip() for part in cell.split("|")) if "|" in cell else (cell,)


def _item(
    name: str, labels: Sequence[int], row: _Row, boxes: tuple[Box, ...], several: bool
) -> SourceItem:
    return SourceItem(name, labels[0], row.split, boxes, labels=tuple(labels) if several else ())


def _numbers(
    cells: Mapping[str, str], wrong: list[str]
) -> tuple[float, float, float, float] | None:
    """The box of a line as it stands there, None where its cells are empty."""
    texts = [cells.get(side, "").strip() for side in _BOX]
    if not any(texts):
        return None
    sides = [real_number(text) for text in texts]
    found = [side for side in sides if side is not None]
    if len(found) < len(_BOX):
        wrong.append(f"box {','.join(texts)}: four numbers are needed")
        return None
    x0, y0, x1, y1 = found
    if not (0 <= x0 < x1 and 0 <= y0 < y1):
        wrong.append(f"box {','.join(texts)}: x0 < x1 and y0 < y1 are needed, from 0")
    return x0, y0, x1, y1


def _boxes(
    rows: Mapping[str, _Row], root: Place, problems: list[tuple[int, str]], progress: Progress
) -> tuple[dict[str, tuple[Box, ...]], str]:
    """The boxes of each picture in fractions, and the unit in which they were given."""
    with_boxes = {name: row.boxes for name, row in rows.items() if row.boxes}
    if all(max(box) <= 1 for boxes in with_boxes.values() for _, box in boxes):
        found = {name: tuple(Box(*box) for _, box in boxes) for name, boxes in with_boxes.items()}
        return found, "fractions of width and height"
    found = {}
    with progress.task("Reading sizes", len(with_boxes), "pictures") as task:
        for name, boxes in with_boxes.items():
            size = upright_size(root / name)
            if size is not None:
                found[name] = tuple(_in_fractions(line, box, size, problems) for line, box in boxes)
            # Else it is no picture: it is left out with its boxes, and told when it is cleaned.
            task.advance()
    return found, "pixels"


def _in_fractions(
    line: int,
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    problems: list[tuple[int, str]],
) -> Box:
    (x0, y0, x1, y1), (height, width) = box, size
    if x1 > width or y1 > height:
        what = f"box to {x1:g},{y1:g} in a picture of {width} x {height} pixels"
        problems.append((line, what))
    return Box(x0 / width, y0 / height, x1 / width, y1 / height)
