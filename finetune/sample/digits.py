"""Draws digits as by hand and writes them as the four IDX files that MNIST comes in.

The format is that of LeCun's MNIST page: big-endian, pictures of 28 x 28, white on black.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from checkpoints.errors import UsageError
from checkpoints.files import atomic_directory, refuse_foreign_files
from checkpoints.progress import SILENT, Progress
from finetune.sample.drawn import Drawn, refuse_count
from finetune.sample.seeds import generator

CLASSES = tuple(str(digit) for digit in range(10))
SIDE = 28
TEST_SHARE = 6
"""One picture in so many goes to the test files, as in MNIST."""

_BODY = 20
"""MNIST's digits fill 20 x 20 pixels, their centre of mass in the middle of 28 x 28."""
_FINE = 6
_Points = list[tuple[float, float]]

_LOOP: _Points = [
    (0.5, 0.0),
    (0.08, 0.2),
    (0.0, 0.55),
    (0.3, 1.0),
    (0.7, 1.0),
    (1.0, 0.55),
    (0.92, 0.2),
    (0.5, 0.0),
]

_FORMS: dict[int, list[list[_Points]]] = {
    0: [[_LOOP]],
    1: [
        [[(0.5, 0.0), (0.5, 1.0)]],
        [[(0.2, 0.25), (0.55, 0.0), (0.55, 1.0)]],
        [[(0.2, 0.25), (0.5, 0.0), (0.5, 1.0)], [(0.15, 1.0), (0.85, 1.0)]],
    ],
    2: [
        [
            [(0.05, 0.25), (0.45, 0.0), (0.9, 0.25), (0.6, 0.6), (0.05, 1.0)],
            [(0.05, 1.0), (1.0, 0.97)],
        ],
        [
            [
                (0.05, 0.2),
                (0.5, 0.0),
                (0.85, 0.25),
                (0.5, 0.7),
                (0.1, 0.95),
                (0.15, 0.75),
                (0.5, 0.9),
                (1.0, 1.0),
            ]
        ],
    ],
    3: [
        [
            [(0.05, 0.1), (0.5, 0.0), (0.9, 0.22), (0.4, 0.47)],
            [(0.4, 0.47), (1.0, 0.72), (0.5, 1.0), (0.0, 0.88)],
        ],
        [
            [(0.05, 0.0), (0.9, 0.0)],
            [(0.9, 0.0), (0.4, 0.4)],
            [(0.4, 0.4), (1.0, 0.7), (0.5, 1.0), (0.0, 0.9)],
        ],
    ],
    4: [
        [[(0.6, 0.0), (0.0, 0.65)], [(0.0, 0.65), (1.0, 0.65)], [(0.72, 0.25), (0.7, 1.0)]],
        [[(0.1, 0.0), (0.05, 0.5)], [(0.05, 0.5), (0.9, 0.5)], [(0.85, 0.0), (0.8, 1.0)]],
    ],
    5: [
        [
            [(0.9, 0.0), (0.15, 0.02)],
            [(0.15, 0.02), (0.1, 0.45)],
            [(0.1, 0.45), (0.6, 0.38), (0.95, 0.7), (0.5, 1.0), (0.0, 0.92)],
        ],
    ],
    6: [
        [
            [
                (0.75, 0.0),
                (0.25, 0.35),
                (0.05, 0.75),
                (0.4, 1.0),
                (0.85, 0.8),
                (0.55, 0.52),
                (0.1, 0.7),
            ]
        ],
    ],
    7: [
        [[(0.0, 0.03), (1.0, 0.0)], [(1.0, 0.0), (0.6, 0.5), (0.35, 1.0)]],
        [[(0.0, 0.03), (1.0, 0.0)], [(1.0, 0.0), (0.35, 1.0)], [(0.3, 0.5), (0.9, 0.48)]],
    ],
    8: [
        [
            [
                (0.85, 0.12),
                (0.45, 0.0),
                (0.12, 0.22),
                (0.5, 0.48),
                (0.95, 0.78),
                (0.5, 1.0),
                (0.05, 0.78),
                (0.5, 0.48),
                (0.9, 0.22),
                (0.85, 0.12),
            ],
        ],
    ],
    9: [
        [
            [(0.9, 0.25), (0.5, 0.0), (0.08, 0.25), (0.4, 0.5), (0.88, 0.28)],
            [(0.9, 0.2), (0.85, 0.6), (0.7, 1.0)],
        ],
        [
            [
                (0.85, 0.25),
                (0.45, 0.0),
                (0.08, 0.27),
                (0.45, 0.52),
                (0.87, 0.25),
                (0.8, 0.75),
                (0.4, 1.0),
                (0.1, 0.9),
            ]
        ],
    ],
}
"""Ways to write each digit: strokes through points, x to the right and y downwards, 0 to 1."""


def draw_digit(digit: int, seed: int) -> NDArray[np.uint8]:
    """Draws one digit, [28, 28], 0 black to 255 white.

    Args:
      digit: 0 to 9.
      seed: any number; the same number draws the same picture.
    """
    if digit not in _FORMS:
        raise UsageError("No such digit.", expected="0 to 9", received=digit)
    random = generator("digit", digit, seed)
    forms = _FORMS[digit]
    strokes = [_curve(points, random) for points in forms[random.randint(len(forms))]]
    width = random.uniform(1.6, 3.6)
    ends = _placed(strokes, _BODY - width, random)
    side = SIDE * _FINE
    picture = Image.new("L", (side, side))
    drawing = ImageDraw.Draw(picture)
    half = width * _FINE / 2
    for stroke in ends:
        drawing.line(stroke.ravel().tolist(), fill=255, width=round(2 * half), joint="curve")
        for x, y in (stroke[0], stroke[-1]):
            drawing.ellipse((x - half, y - half, x + half, y + half), fill=255)
    small = np.asarray(picture.reduce(_FINE), np.float64)
    bright = np.clip(small * random.uniform(0.9, 1.3), 0, 255)
    return _centred(bright.astype(np.uint8))


def _curve(points: _Points, random: np.random.RandomState) -> NDArray[np.float64]:
    """A smooth curve (Catmull-Rom) through points moved a little, [steps, 2]."""
    knots = np.array(points) + random.normal(0, 0.035, (len(points), 2))
    if points[0] == points[-1] and len(points) > 2:
        knots[-1] = knots[0] + random.normal(0, 0.03, 2)
    padded = np.concatenate([knots[:1], knots, knots[-1:]])
    share = np.linspace(0, 1, 8)[:, None]
    pieces = []
    for before, start, end, after in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        pieces.append(
            0.5
            * (
                2 * start
                + (end - before) * share
                + (2 * before - 5 * start + 4 * end - after) * share**2
                + (3 * start - before - 3 * end + after) * share**3
            )
        )
    return np.concatenate(pieces)


def _placed(
    strokes: list[NDArray[np.float64]], reach: float, random: np.random.RandomState
) -> list[NDArray[np.float64]]:
    """Strokes slanted, turned and fitted into `reach` pixels, in pixels of the fine picture."""
    angle, slant = random.normal(0, 0.13), random.normal(0.12, 0.2)
    matrix = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    matrix = matrix @ np.array([[random.uniform(0.45, 0.85), -slant], [0, 1]])
    placed = [(stroke - 0.5) @ matrix.T for stroke in strokes]
    everything = np.concatenate(placed)
    low, high = everything.min(0), everything.max(0)
    scale = reach * _FINE / max(high - low) * random.uniform(0.85, 1.0)
    return [(stroke - (low + high) / 2) * scale + SIDE * _FINE / 2 for stroke in placed]


def _centred(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Shifted by whole pixels until the centre of mass is in the middle, or ink meets the edge."""
    shifts = []
    for axis in (0, 1):
        ink = picture.sum(axis=1 - axis, dtype=np.float64)
        inked = np.flatnonzero(ink)
        wanted = round((SIDE - 1) / 2 - float(ink @ np.arange(SIDE)) / float(ink.sum()))
        shifts.append(int(np.clip(wanted, -inked[0], SIDE - 1 - inked[-1])))
    return np.roll(picture, shifts, axis=(0, 1))


def write_digits(
    out_dir: Path,
    *,
    per_class: int = 600,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Drawn:
    """Draws `per_class` pictures of every digit as four IDX files, mixed.

    Args:
      out_dir: the directory to make: train-images-idx3-ubyte, train-labels-idx1-ubyte and the
        two t10k files, which get one picture in six.
      per_class: pictures of a digit, two or more.
      seed: pictures of another seed are other pictures; the same seed gives the same bytes.
      overwrite: whether an `out_dir` that is already there may be replaced.
      progress: told of every picture.

    Raises:
      UsageError: too few pictures for both training and test.
      OutputExistsError: `out_dir` is there and `overwrite` is off, or it holds other files.
    """
    refuse_count(per_class, at_least=2)
    refuse_foreign_files(out_dir, r"(train|t10k)-(images-idx3|labels-idx1)-ubyte", "drawn digits")
    test = max(1, per_class // TEST_SHARE)
    splits = {"train": range(per_class - test), "t10k": range(per_class - test, per_class)}
    with (
        atomic_directory(out_dir, overwrite) as folder,
        progress.task("Drawing digits", per_class * len(CLASSES), "pictures") as task,
    ):
        for split, numbers in splits.items():
            labels = np.tile(np.arange(len(CLASSES), dtype=np.uint8), len(numbers))
            pictures = np.empty((len(labels), SIDE, SIDE), np.uint8)
            for index, number in enumerate(np.repeat(numbers, len(CLASSES)).tolist()):
                pictures[index] = draw_digit(int(labels[index]), seed * 1_000_003 + number)
                task.advance()
            order = generator("mixed", split, seed).permutation(len(labels))
            _write_idx(folder / f"{split}-images-idx3-ubyte", pictures[order])
            _write_idx(folder / f"{split}-labels-idx1-ubyte", labels[order])
    return Drawn(out_dir, CLASSES, per_class * len(CLASSES))


def _write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """An IDX file: two zero bytes, 8 for uint8, the number of dimensions, each as big-endian."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())
