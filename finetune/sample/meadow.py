"""What stands round a drawn flower: backgrounds, stems, leaves; and the camera that takes it.

Pictures are RGB. Backgrounds are drawn small and enlarged, which blurs them as a lens would.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from finetune.sample.blossoms import COLOURS, Floats, Pose, Random, fill, mix
from finetune.sample.seeds import pick

COARSE = 4
"""A background is drawn with one pixel for so many of the canvas in each direction."""

_NOISE = np.random.RandomState(20).standard_normal((640, 640, 3)).astype(np.float32)
"""Noise of unit deviation; each picture takes another window of it."""


def green(random: Random) -> Floats:
    """A colour of leaves, from olive to blue-green."""
    base = mix(np.array([92.0, 140.0, 48.0]), np.array([46.0, 112.0, 78.0]), random.uniform())
    return base * random.uniform(0.6, 1.25) + random.normal(0, 7, 3)


def background(size: tuple[int, int], random: Random) -> Image.Image:
    """A picture of `size` (width, height): foliage, grass, sky, soil, a wall or plain light."""
    style = pick(
        random, {"foliage": 3, "grass": 3, "sky": 2, "soil": 2, "wall": 1, "plain": 2, "bed": 2}
    )
    picture = _clouds(size, _tones(style, random), random)
    drawing = ImageDraw.Draw(picture)
    {
        "foliage": _foliage,
        "grass": _grass,
        "sky": _hills,
        "soil": _pebbles,
        "wall": _boards,
        "plain": _nothing,
        "bed": _bed,
    }[style](drawing, size, random)
    return picture


def _tones(style: str, random: Random) -> tuple[Floats, Floats]:
    """The two colours between which a background varies."""
    if style == "sky":
        blue = mix(
            np.array([110.0, 165.0, 225.0]), np.array([205.0, 200.0, 205.0]), random.uniform()
        )
        return blue, mix(blue, np.array([240.0, 240.0, 240.0]), 0.7)
    if style == "soil":
        brown = mix(np.array([120.0, 88.0, 60.0]), np.array([82.0, 74.0, 70.0]), random.uniform())
        return brown * random.uniform(0.6, 1.2), brown * random.uniform(0.6, 1.3)
    if style in ("wall", "plain"):
        first = np.array(COLOURS[pick(random, dict.fromkeys(COLOURS, 1.0))], np.float64)
        grey = np.full(3, random.uniform(20, 235))
        return mix(first, grey, random.uniform(0.45, 0.95)), grey * random.uniform(0.6, 1.1)
    return green(random) * random.uniform(0.45, 1.0), green(random)


def _clouds(size: tuple[int, int], tones: tuple[Floats, Floats], random: Random) -> Image.Image:
    """A smooth random mixture of two colours."""
    share = random.uniform(0, 1, (random.randint(2, 7), random.randint(2, 7), 1))
    mixed = tones[0] * (1 - share) + tones[1] * share
    small = np.clip(mixed, 0, 255).astype(np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def _leaf(centre: Floats, length: float, width: float, angle: float, bend: float) -> Floats:
    """The outline of a leaf that starts at `centre`, [18, 2], pixels."""
    along = np.linspace(0, 1, 9)
    half = width / 2 * np.sin(along**0.8 * math.pi)
    x, curve = along * length, bend * length * along**2
    sides = [np.stack([x, curve + half], -1), np.stack([x, curve - half], -1)[::-1]]
    cos, sin = math.cos(angle), math.sin(angle)
    leaf: Floats = np.concatenate(sides) @ np.array([[cos, sin], [-sin, cos]]) + centre
    return leaf


def _foliage(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    for _ in range(random.randint(12, 36)):
        length = random.uniform(0.15, 0.5) * size[1]
        leaf = _leaf(
            random.uniform(0, 1, 2) * size,
            length,
            length * random.uniform(0.25, 0.6),
            random.uniform(0, 2 * math.pi),
            random.normal(0, 0.15),
        )
        drawing.polygon(leaf.ravel().tolist(), fill=fill(green(random) * random.uniform(0.5, 1.2)))


def _grass(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    for _ in range(random.randint(25, 70)):
        foot = np.array([random.uniform(-0.1, 1.1) * size[0], size[1] * random.uniform(0.7, 1.2)])
        blade = _leaf(
            foot,
            random.uniform(0.4, 1.1) * size[1],
            random.uniform(0.015, 0.05) * size[0],
            random.normal(-math.pi / 2, 0.25),
            random.normal(0, 0.2),
        )
        drawing.polygon(
            blade.ravel().tolist(), fill=fill(green(random) * random.uniform(0.6, 1.35))
        )


def _hills(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    x = np.linspace(0, size[0], 12)
    for level in (random.uniform(0.45, 0.8), random.uniform(0.75, 1.0)):
        wave = np.sin(x / size[0] * random.uniform(2, 7) + random.uniform(0, 6)) * 0.08
        line = np.stack([x, (level + wave) * size[1]], -1).ravel().tolist()
        drawing.polygon([*line, size[0], size[1] + 1, 0, size[1] + 1], fill=fill(green(random)))


def _pebbles(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    for _ in range(random.randint(30, 90)):
        x, y = random.uniform(0, 1, 2) * size
        wide, high = random.uniform(0.01, 0.06, 2) * size[0]
        tone = np.full(3, random.uniform(50, 190)) + random.normal(0, 12, 3)
        drawing.ellipse((x - wide, y - high, x + wide, y + high), fill=fill(tone))


def _boards(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    step = random.uniform(0.12, 0.3) * size[0]
    tone = np.full(3, random.uniform(40, 190)) + random.normal(0, 14, 3)
    across = random.uniform() < 0.5
    for place in np.arange(random.uniform(0, 1) * step, max(size), step).tolist():
        ends = (0, place, size[0], place) if across else (place, 0, place, size[1])
        drawing.line(ends, fill=fill(tone), width=int(random.randint(1, 4)))


def _bed(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    """Blots of petal colours among the green: a bed of flowers out of focus."""
    _foliage(drawing, size, random)
    names = [pick(random, dict.fromkeys(COLOURS, 1.0)) for _ in range(2)]
    for _ in range(random.randint(8, 30)):
        x, y = random.uniform(0, 1, 2) * size
        half = random.uniform(0.03, 0.1) * size[0]
        tone = np.array(COLOURS[names[random.randint(2)]]) * random.uniform(0.6, 1.0)
        drawing.ellipse((x - half, y - half, x + half, y + half), fill=fill(tone))


def _nothing(drawing: ImageDraw.ImageDraw, size: tuple[int, int], random: Random) -> None:
    pass


def shadows(picture: Image.Image, poses: list[Pose], random: Random) -> None:
    """Darkens a background softly behind blossoms, away from their light."""
    mask = Image.new("L", picture.size)
    drawing = ImageDraw.Draw(mask)
    for pose in poses:
        x = pose.centre[0] - math.cos(pose.light) * pose.radius * 0.2
        y = pose.centre[1] - math.sin(pose.light) * pose.radius * 0.2
        half = pose.radius * 0.85
        drawing.ellipse((x - half, y - half, x + half, y + half), fill=int(random.randint(70, 170)))
    blur = sum(pose.radius for pose in poses) / len(poses) * 0.3
    mask = mask.filter(ImageFilter.GaussianBlur(blur))
    picture.paste((16, 22, 12), (0, 0), mask)


def stem(
    drawing: ImageDraw.ImageDraw, top: tuple[float, float], size: tuple[int, int], random: Random
) -> None:
    """A stem from `top` to below the lower edge, with up to three leaves."""
    length = size[1] * 1.1 - top[1]
    if length <= 0:
        return
    along = np.linspace(0, 1, 10)
    lean, bend = random.normal(0, 0.25), random.normal(0, 0.12)
    x = top[0] + length * (lean * along + bend * np.sin(along * math.pi))
    points = np.stack([x, top[1] + along * length], -1)
    tone = green(random)
    width = max(2, round(size[1] * random.uniform(0.012, 0.03)))
    drawing.line(points.ravel().tolist(), fill=fill(tone), width=width, joint="curve")
    slim = random.uniform(0.1, 0.45)
    for _ in range(random.randint(0, 4)):
        foot = points[random.randint(3, 10)]
        side = 1 if random.uniform() < 0.5 else -1
        reach = random.uniform(0.25, 0.7) * size[1]
        angle = -math.pi / 2 + side * random.uniform(0.3, 1.2)
        leaf(drawing, foot, reach, reach * slim, angle, random)


def leaf(
    drawing: ImageDraw.ImageDraw,
    foot: Floats,
    length: float,
    width: float,
    angle: float,
    random: Random,
) -> None:
    """A leaf in focus: one half lit, a vein along its middle."""
    outline = _leaf(foot, length, width, angle, random.normal(0, 0.2))
    tone = green(random)
    middle = (outline[:9] + outline[:8:-1]) / 2
    drawing.polygon(outline.ravel().tolist(), fill=fill(tone), outline=fill(tone * 0.7))
    lit = np.concatenate([outline[:9], middle[::-1]]).ravel().tolist()
    drawing.polygon(lit, fill=fill(tone * 1.15))
    vein = max(1, round(width / 30))
    drawing.line(middle.ravel().tolist(), fill=fill(tone * 1.35), width=vein)


def take(picture: Image.Image, random: Random) -> Image.Image:
    """The camera: uneven light, exposure, a cast of colour, focus, grain."""
    sharp = random.uniform()
    if sharp > 0.5:
        picture = picture.filter(ImageFilter.GaussianBlur((sharp - 0.5) * 2.6))
    width, height = picture.size
    light = random.uniform(0.7, 1.25, (3, 3)).astype(np.float32)
    field = np.asarray(Image.fromarray(light).resize((width, height), Image.Resampling.BICUBIC))
    gain = random.uniform(0.75, 1.2) * (1 + random.normal(0, 0.06, 3))
    haze = random.uniform(0, 30) * (random.uniform() < 0.5)
    top, left = random.randint(0, 640 - height), random.randint(0, 640 - width)
    grain = _NOISE[top : top + height, left : left + width] * np.float32(random.uniform(1, 9))
    values: NDArray[np.float32] = np.asarray(picture, np.float32) * gain.astype(np.float32)
    values = values * field[..., None] * np.float32(1 - haze / 255) + np.float32(haze) + grain
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
