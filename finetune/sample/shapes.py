"""Draws the shapes and textures that the sample base is pretrained on; none of them a flower."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from checkpoints.errors import NotFoundError, near_names
from finetune.sample.outlines import OUTLINES, Points, Random
from finetune.sample.seeds import generator
from finetune.sample.strokes import STROKES
from finetune.sample.textures import TEXTURES

KINDS = tuple(sorted([*OUTLINES, *STROKES, *TEXTURES]))
SIDE = 168
"""Pixels of a side; training crops smaller pictures out of it."""

_FINE = 2
_COARSE = 42
_GRAIN = np.random.RandomState(7).standard_normal((512, 512, 3)).astype(np.float32)
_NATURAL = np.array(
    [[96, 134, 60], [60, 100, 60], [120, 90, 62], [150, 190, 230], [236, 232, 220], [60, 60, 66]],
    np.float64,
)
"""Colours of leaves, soil, sky and stone, which real backgrounds have more often than others."""


def draw(kind: str, seed: int, clutter: float = 0.5) -> Image.Image:
    """Draws one shape or texture.

    Args:
      kind: one of KINDS.
      seed: any number; the same number draws the same picture.
      clutter: 0 for a plain picture; up to 1 for a busy background, things in front, colours
        close to each other, uneven light, blur and grain.

    Returns:
      An RGB picture of SIDE x SIDE pixels.

    Raises:
      NotFoundError: nothing of this name is drawn.
    """
    if kind not in KINDS:
        near = near_names(kind, KINDS)
        raise NotFoundError(
            f"No shape is called {kind!r}.",
            expected=f"one of {', '.join(KINDS)}",
            received=kind,
            next_step=f"Write {near[0]}." if near else None,
        )
    random = generator("shape", kind, seed)
    make = _textured if kind in TEXTURES else _scene
    return _take(make(kind, clutter, random), clutter, random)


def _colour(random: Random) -> Points:
    """Any colour, RGB 0-255; a third of them as in nature."""
    if random.uniform() < 0.35:
        return _NATURAL[random.randint(len(_NATURAL))] + random.normal(0, 18, 3)
    hue = random.uniform(0, 6) + np.array([0.0, 4.0, 2.0])
    pure = np.clip(np.abs(hue % 6 - 3) - 1, 0, 1)
    grey = 1 - random.uniform(0, 1) ** 0.6
    return (pure * (1 - grey) + grey) * random.uniform(60, 255)


def _apart(colours: list[Points], clutter: float, random: Random) -> Points:
    """A colour that can be told from all of `colours`; with much clutter barely."""
    candidates = [_colour(random) for _ in range(2 + round(6 * (1 - clutter)))]
    return max(candidates, key=lambda candidate: min(np.abs(candidate - c).sum() for c in colours))


def _affine(random: Random) -> Points:
    """Turn, flatten along any direction, mirror or not: a 2 x 2 matrix."""
    turn, axis = random.uniform(0, 2 * math.pi, 2)
    if random.uniform() < 0.5:
        turn = random.normal(0, 0.3)
    flat = np.diag([random.uniform(0.5, 1.0), 1.0])
    matrix: Points = _rotation(axis) @ flat @ _rotation(-axis) @ _rotation(turn)
    return matrix * [1, 1 if random.uniform() < 0.5 else -1] if random.uniform() < 0.5 else matrix


def _rotation(angle: float) -> Points:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def _field(kind: str, side: int, repeat: float, random: Random) -> Image.Image:
    """A texture as a mask of side x side; `repeat` pixels a repetition."""
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) - side / 2
    matrix = (_affine(random) / repeat).astype(np.float32)
    # Perspective: repetitions grow towards one edge.
    depth = 1 + (rows * random.uniform(-0.8, 0.8) / side).astype(np.float32)
    shift_x, shift_y = random.uniform(0, 30, 2)
    x = (matrix[0, 0] * columns + matrix[0, 1] * rows) / depth + np.float32(shift_x)
    y = (matrix[1, 0] * columns + matrix[1, 1] * rows) / depth + np.float32(shift_y)
    share = TEXTURES[kind](random, x, y)
    return Image.fromarray((share * 255).astype(np.uint8))


def _two_tone(mask: Image.Image, first: Points, second: Points, size: int) -> Image.Image:
    """`second` where the mask is white, `first` where it is black."""
    mask = mask.resize((size, size), Image.Resampling.BILINEAR) if mask.width != size else mask
    return Image.composite(
        Image.new("RGB", (size, size), _fill(second)),
        Image.new("RGB", (size, size), _fill(first)),
        mask,
    )


def _fill(colour: Points) -> tuple[int, int, int]:
    red, green, blue = np.clip(colour, 0, 255).astype(int).tolist()
    return red, green, blue


def _textured(kind: str, clutter: float, random: Random) -> Image.Image:
    """A texture over the whole picture, or in a large form before a background."""
    first = _colour(random)
    picture = _two_tone(
        _field(kind, SIDE, random.uniform(14, 44), random),
        first,
        _apart([first], clutter, random),
        SIDE,
    )
    if random.uniform() < 0.55:
        return picture
    mask = Image.new("L", (SIDE * _FINE, SIDE * _FINE))
    corners = int(random.choice([4, 5, 6, 40]))
    angles = np.linspace(0, 2 * math.pi, corners, endpoint=False)
    rim = np.stack([np.cos(angles), np.sin(angles)], -1) @ _affine(random).T
    centre = SIDE * _FINE * random.uniform(0.4, 0.6, 2)
    polygon = rim * SIDE * _FINE * random.uniform(0.33, 0.55) + centre
    ImageDraw.Draw(mask).polygon(polygon.ravel().tolist(), fill=255)
    return Image.composite(picture, _background(SIDE, first, clutter, random), mask.reduce(_FINE))


def _background(side: int, first: Points, clutter: float, random: Random) -> Image.Image:
    """About one colour: smooth, or with a faint texture, polygons or bars; blurred."""
    second = first * random.uniform(0.6, 1.3)
    if random.uniform() < clutter:
        second = _colour(random)
    share = random.uniform(0, 255, (random.randint(2, 7), random.randint(2, 7))).astype(np.uint8)
    mask = Image.fromarray(share).resize((_COARSE, _COARSE), Image.Resampling.BICUBIC)
    picture = _two_tone(mask, first, second, _COARSE)
    drawing = ImageDraw.Draw(picture)
    style = int(random.randint(5)) if random.uniform() < clutter * 1.3 else 4
    if style == 0:
        kind = list(TEXTURES)[random.randint(len(TEXTURES))]
        mask = _field(kind, _COARSE, random.uniform(4, 12), random)
        tone = first + random.uniform(-50, 50)
        picture.paste(_fill(tone), (0, 0), mask)
    elif style in (1, 2):
        tones = [first * random.uniform(0.5, 1.4), second, _colour(random)]
        for _ in range(random.randint(8, 60)):
            centre = random.uniform(-0.1, 1.1, 2) * _COARSE
            angles = np.sort(random.uniform(0, 2 * math.pi, random.randint(3, 8)))
            reach = random.uniform(0.03, 0.25, (len(angles), 1)) * _COARSE
            corners = np.stack([np.cos(angles), np.sin(angles)], -1) * reach + centre
            tone = tones[random.randint(3)] * random.uniform(0.7, 1.2)
            drawing.polygon(corners.ravel().tolist(), fill=_fill(tone))
    elif style == 3:
        lean = random.normal(0, 8)
        for place in random.uniform(-5, _COARSE + 5, random.randint(5, 40)).tolist():
            tone = second * random.uniform(0.6, 1.3)
            ends = (place, _COARSE, place + lean + random.normal(0, 3), random.uniform(-9, 20))
            drawing.line(ends, fill=_fill(tone), width=int(random.randint(1, 3)))
    for _ in range(round(random.uniform(0, 4) * clutter)):
        kind = list(OUTLINES)[random.randint(len(OUTLINES))]
        where = random.uniform(0, _COARSE, 2)
        _paint(picture, kind, where, random.uniform(0.06, 0.2) * _COARSE, first, 1.0, random)
    picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.2)))
    return picture.resize((side, side), Image.Resampling.BICUBIC)


def _scene(kind: str, clutter: float, random: Random) -> Image.Image:
    """One to three forms of the same kind before a background, some of them partly hidden."""
    side = SIDE * _FINE
    behind = _colour(random)
    picture = _background(side, behind, clutter, random)
    count = int(random.choice([1, 1, 1, 1, 2, 3]))
    for index in range(count):
        near = index == count - 1
        reach = random.uniform(0.26, 0.52) if near else random.uniform(0.15, 0.28)
        spread = 0.14 if near else 0.34
        where = (0.5 + random.uniform(-spread, spread, 2)) * side
        _paint(picture, kind, where, reach * side, behind, clutter, random)
    drawing = ImageDraw.Draw(picture)
    for _ in range(round(random.uniform(0, 4) * clutter)):
        start = random.uniform(0, 1, 2) * side
        end = start + random.normal(0, 0.4, 2) * side
        across = np.array([start[1] - end[1], end[0] - start[0]])
        across = across / (np.linalg.norm(across) + 1) * random.uniform(2, 14)
        sliver = np.stack([start, (start + end) / 2 + across, end, (start + end) / 2 - across])
        drawing.polygon(sliver.ravel().tolist(), fill=_fill(_colour(random)))
    return picture.reduce(_FINE)


def _paint(
    picture: Image.Image,
    kind: str,
    where: Points,
    reach: float,
    behind: Points,
    clutter: float,
    random: Random,
) -> None:
    """One form before the colour `behind`. A map of its parts is drawn; then each gets its colour."""
    matrix = _affine(random) * reach
    parts = Image.new("P", picture.size)
    drawing = ImageDraw.Draw(parts)
    tones: list[int] = []
    outlines: list[list[float]] = []
    if kind in OUTLINES:
        for part in OUTLINES[kind](random):
            corners = (part.points @ matrix.T + where).ravel().tolist()
            outlines.append(corners)
            if part.tone >= 0:
                tones.append(part.tone)
            drawing.polygon(corners, fill=len(tones) if part.tone >= 0 else 0)
    else:
        width = max(1, round(reach * random.uniform(0.03, 0.11)))
        for line in STROKES[kind](random):
            tones.append(len(tones) % 2)
            ends = (line @ matrix.T + where).ravel().tolist()
            drawing.line(ends, fill=len(tones) % 255, width=width, joint="curve")
    first = _apart([behind], clutter, random)
    second = _apart([behind, first], clutter, random)
    if kind in STROKES and random.uniform() < 0.75:
        second = first
    colours = _part_colours(tones, np.stack([first, second]), random)
    mask = parts.point([0] + [255] * 255, "L")
    parts.putpalette(np.clip(colours, 0, 255).astype(np.uint8).tobytes())
    filled = parts.convert("RGB")
    if kind in OUTLINES and random.uniform() < 0.4 * clutter:
        texture = list(TEXTURES)[random.randint(len(TEXTURES))]
        weave = _field(texture, SIDE, random.uniform(8, 30), random).resize(picture.size)
        tint = Image.new("RGB", picture.size, _fill(_colour(random)))
        filled = Image.composite(tint, filled, weave.point([value // 2 for value in range(256)]))
    picture.paste(filled, (0, 0), mask)
    if outlines and random.uniform() < 0.5:
        rim = ImageDraw.Draw(picture)
        dark = _fill(colours[1] * random.uniform(0.4, 0.9))
        for corners in outlines:
            rim.line([*corners, *corners[:2]], fill=dark, width=max(1, round(reach / 60)))


def _part_colours(tones: list[int], pair: Points, random: Random) -> NDArray[np.float64]:
    """A colour for each number of a part, [256, 3]; parts of a tone differ a little in light."""
    colours = np.zeros((256, 3))
    for number, tone in enumerate(tones[:255], start=1):
        colours[number] = pair[tone] * random.normal(1, 0.07)
    return colours


def _take(picture: Image.Image, clutter: float, random: Random) -> Image.Image:
    """Uneven light, exposure, blur and grain."""
    blur = random.uniform(-1, 1.5) * clutter
    if blur > 0:
        picture = picture.filter(ImageFilter.GaussianBlur(blur))
    low, high = 1 - 0.4 * clutter, 1 + 0.3 * clutter
    light = Image.fromarray(random.uniform(low, high, (3, 3)).astype(np.float32))
    shade = np.asarray(light.resize(picture.size, Image.Resampling.BICUBIC))[..., None]
    gain = (random.uniform(0.8, 1.2) * (1 + random.normal(0, 0.05, 3))).astype(np.float32)
    top, left = random.randint(0, 512 - SIDE, 2)
    strength = np.float32(random.uniform(0, 14) * clutter)
    grain = _GRAIN[top : top + SIDE, left : left + SIDE] * strength
    values = np.asarray(picture, np.float32) * shade * gain + grain
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
