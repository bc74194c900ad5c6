"""A contact sheet: a row of pictures for each class, as they are or as the net sees them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import DataError, UsageError
from checkpoints.files import atomic_file
from finetune.datasets.dataset import is_dataset_directory
from finetune.datasets.fonts import SheetFont
from finetune.datasets.sheet_pictures import Shown, from_dataset, from_folders
from finetune.pixels.decode import WHOLE_PICTURE
from finetune.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw as Drawing

CELL = 144
"""Height and width of a picture's place, in pixels."""

MAX_CLASSES = 24
MAX_PER_CLASS = 32
_GAP = 8
_LEAD_GAP = 24
_MARGIN = 20
_NAME_HEIGHT = 26
_TITLE_HEIGHT = 54
_VIEWS = 5
_BACKGROUND = (250, 250, 248)
_MAT = (232, 232, 228)
_INK = (34, 34, 34)
_FAINT = (110, 110, 106)
_GIVEN = (255, 255, 255)
_BOX_COLOURS = ((230, 57, 70), (29, 120, 190), (42, 157, 80), (240, 160, 20), (140, 80, 180))

Mode = Literal["plain", "augment", "boxes"]


@dataclass(frozen=True)
class SheetResult:
    """What was drawn.

    Attributes:
      path: the PNG.
      classes: the classes that have a row.
      left_out: how many more classes there are.
      num_pictures: different pictures on the sheet.
      missing_characters: characters that no font here has; they stand as U+XXXX.
    """

    path: Path
    classes: tuple[str, ...]
    left_out: int
    num_pictures: int
    missing_characters: str

    def as_json(self) -> dict[str, Any]:
        """The object `data show --json` prints."""
        return {
            "path": str(self.path),
            "classes": list(self.classes),
            "left_out": self.left_out,
            "pictures": self.num_pictures,
            "missing_characters": self.missing_characters,
        }


def draw_sheet(
    path: Path | str,
    out: Path | str,
    *,
    mode: Mode = "plain",
    per_class: int = 8,
    split: str | None = None,
    preprocessing: Preprocessing | None = None,
    augment: str = "full",
    seed: int = 0,
    depth: int = 1,
    overwrite: bool = False,
) -> SheetResult:
    """Draws the sheet as a PNG.

    Args:
      path: folder of class folders, or a dataset directory.
      out: the PNG.
      mode: "plain" shows `per_class` pictures of each class as they are; "augment" shows one
        picture of each class as evaluation sees it and then as training sees it, five times;
        "boxes" draws five sampled crops into each picture, and the boxes that it came with.
      per_class: pictures of each class in "plain" and "boxes".
      split: of a dataset, or of pictures that come in splits; None: train, or what there is (all
        pictures of a source).
      preprocessing: for "augment"; None: inception at 299.
      augment: "full" or "fast", for "augment".
      seed: of the views and boxes.
      depth: how many levels of folders make a class's name.
      overwrite: replace `out`.

    Raises:
      UsageError: a value is out of range, or `out` lies inside `path`.
      OutputExistsError: `out` is there and may not be replaced.
      DataError: there is no usable picture.
    """
    from checkpoints.files import refuse_existing

    path, out = Path(path), Path(out)
    _check_options(mode, augment, per_class, out)
    refuse_existing(out, overwrite)
    if out.resolve().is_relative_to(path.resolve()) and not is_dataset_directory(path):
        raise UsageError(
            f"{out} lies inside {path}: it could replace a picture, and would be taken for one.",
            next_step="Name a file beside it.",
        )
    wanted = 1 if mode == "augment" else per_class
    name, classes, rows = (
        from_dataset(path, split, wanted)
        if path.is_file() or is_dataset_directory(path)
        else from_folders(path, split, wanted, depth)
    )
    shown = {label: rows[label] for label in sorted(rows)[:MAX_CLASSES]}
    if not shown:
        raise DataError(f"{path} has no usable picture to show.")
    drawn: Mapping[int, Sequence[Image]]
    if mode == "plain":
        drawn = {label: [_open(one.encoded) for one in row] for label, row in shown.items()}
        caption = "as they are"
    elif mode == "boxes":
        drawn = _with_boxes(shown, seed)
        is_given = any(len(one.boxes) for row in shown.values() for one in row)
        caption = "five sampled crops each" + (", given boxes in white" if is_given else "")
    else:
        preprocessing = preprocessing or Preprocessing("inception", 299)
        drawn = _views(shown, preprocessing, augment, seed)
        caption = (
            f"{preprocessing.name} {preprocessing.image_size}: evaluation first, then training "
            f"({augment})"
        )
    font = SheetFont()
    left_out = len(rows) - len(shown)
    more = f", {left_out} more classes not shown" if left_out else ""
    sheet = _lay_out(
        f"{name}: {caption}{more}",
        [(classes[label], drawn[label]) for label in drawn],
        font,
        _LEAD_GAP if mode == "augment" else _GAP,
    )
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    with atomic_file(out, overwrite=overwrite) as file:
        file.write(buffer.getvalue())
    return SheetResult(
        path=out,
        classes=tuple(classes[label] for label in shown),
        left_out=left_out,
        num_pictures=sum(len(row) for row in shown.values()),
        missing_characters="".join(sorted(font.missing)),
    )


def _check_options(mode: str, augment: str, per_class: int, out: Path) -> None:
    for name, value, known in (
        ("mode", mode, ("plain", "augment", "boxes")),
        ("augment", augment, ("full", "fast")),
    ):
        if value not in known:
            raise UsageError(
                f"There is no {name} {value!r}.", expected=f"one of {', '.join(known)}"
            )
    if not isinstance(per_class, int) or not 1 <= per_class <= MAX_PER_CLASS:
        raise UsageError(
            "per_class is out of range.",
            expected=f"a whole number from 1 to {MAX_PER_CLASS}",
            received=repr(per_class),
        )
    if out.suffix.lower() not in ("", ".png"):
        raise UsageError(
            f"{out} does not end in .png: the sheet is a PNG.",
            expected="a name that ends in .png",
            received=out.suffix,
            next_step=f"Name it {out.with_suffix('.png')}.",
        )


def _open(encoded: bytes) -> Image:
    from PIL import Image as ImageModule

    with warnings.catch_warnings():
        # Pillow warns of odd metadata and of large pictures; neither matters here.
        warnings.simplefilter("ignore")
        with ImageModule.open(io.BytesIO(encoded)) as image:
            return image.convert("RGB")


def _keys(seed: int, row: int, count: int) -> Iterator[tuple[int, int]]:
    """Keys as the input pipeline makes them: of record `row` in the epochs 0, 1, 2 ..."""
    for epoch in range(count):
        yield seed, (epoch << 33) | (row << 1)


def _views(
    rows: Mapping[int, Sequence[Shown]], preprocessing: Preprocessing, augment: str, seed: int
) -> dict[int, list[Image]]:
    from PIL import Image as ImageModule

    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    low, high = preprocessing.shown_range
    drawn: dict[int, list[Image]] = {}
    for label, row in rows.items():
        encoded, boxes = tf.constant(row[0].encoded), _or_whole(row[0].boxes)
        views = [preprocessing.evaluation(encoded)]
        views.extend(
            preprocessing.training(encoded, tf.constant(key, tf.int64), augment, boxes)
            for key in _keys(seed, label, _VIEWS)
        )
        drawn[label] = []
        for view in views:
            pixels = (np.asarray(view) - low) / (high - low) * 255.0
            pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
            drawn[label].append(
                ImageModule.fromarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
            )
    return drawn


def _or_whole(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The boxes a crop has to show a part of: the whole picture where there are none."""
    return boxes if len(boxes) else np.array([WHOLE_PICTURE], np.float32)


def _with_boxes(rows: Mapping[int, Sequence[Shown]], seed: int) -> dict[int, list[Image]]:
    from PIL import ImageDraw

    from exporters.runtime import load_tensorflow
    from finetune.pixels.decode import sample_crop

    tf = load_tensorflow()
    drawn: dict[int, list[Image]] = {}
    number = 0
    for label, row in rows.items():
        drawn[label] = []
        for one in row:
            image = _open(one.encoded)
            draw = ImageDraw.Draw(image)
            stroke = max(2, round(max(image.size) / CELL * 2))
            for colour, key in zip(_BOX_COLOURS, _keys(seed, number, _VIEWS), strict=True):
                begin, size = sample_crop(
                    tf.constant([image.height, image.width, 3]),
                    tf.constant(key, tf.int64),
                    tf.constant(_or_whole(one.boxes)),
                )
                top, left = int(begin[0]), int(begin[1])
                bottom, right = top + int(size[0]) - 1, left + int(size[1]) - 1
                draw.rectangle((left, top, right, bottom), outline=colour, width=stroke)
            for box in one.boxes:
                _draw_given(draw, box, image.size, stroke)
            drawn[label].append(image)
            number += 1
    return drawn


def _draw_given(
    draw: Drawing, box: NDArray[np.float32], size: tuple[int, int], stroke: int
) -> None:
    """A box that the data came with: white between black, seen on any picture."""
    width, height = size
    ymin, xmin, ymax, xmax = (float(side) for side in box)
    edges = [xmin * width, ymin * height, xmax * width - 1, ymax * height - 1]
    for inset, colour in ((-1, _INK), (0, _GIVEN), (1, _INK)):
        grown = [edges[0] + inset * stroke, edges[1] + inset * stroke]
        grown += [edges[2] - inset * stroke, edges[3] - inset * stroke]
        if grown[0] <= grown[2] and grown[1] <= grown[3]:
            draw.rectangle(tuple(grown), outline=colour, width=stroke)


def _lay_out(
    title: str, rows: Sequence[tuple[str, Sequence[Image]]], font: SheetFont, lead_gap: int
) -> Image:
    """Title, then for each class its name and below it its pictures.

    `lead_gap` is the room behind the first picture of a row.
    """
    from PIL import Image as ImageModule
    from PIL import ImageDraw

    columns = max(len(pictures) for _, pictures in rows)
    width = 2 * _MARGIN + columns * (CELL + _GAP) - 2 * _GAP + lead_gap
    width = max(width, 2 * _MARGIN + font.width(title, 20))
    row_height = _NAME_HEIGHT + CELL + 2 * _GAP
    height = _TITLE_HEIGHT + len(rows) * row_height + _MARGIN
    sheet = ImageModule.new("RGB", (width, height), _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    font.draw(draw, (_MARGIN, 14), title, 20, _FAINT, width - 2 * _MARGIN)
    for number, (name, pictures) in enumerate(rows):
        top = _TITLE_HEIGHT + number * row_height
        font.draw(draw, (_MARGIN, top), name, 16, _INK, width - 2 * _MARGIN)
        for place, picture in enumerate(pictures):
            left = _MARGIN + place * (CELL + _GAP) + (lead_gap - _GAP if place else 0)
            _paste(sheet, picture, left, top + _NAME_HEIGHT)
    return sheet


def _paste(sheet: Image, picture: Image, left: int, top: int) -> None:
    """The whole picture, in the middle of its cell; small ones are enlarged."""
    from PIL import Image as ImageModule

    scale = CELL / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    method = ImageModule.Resampling.LANCZOS if scale < 1 else ImageModule.Resampling.NEAREST
    small = picture.resize(size, method)
    sheet.paste(_MAT, (left, top, left + CELL, top + CELL))
    sheet.paste(small, (left + (CELL - size[0]) // 2, top + (CELL - size[1]) // 2))
