"""Five kinds of blossoms: layers of petals round a centre, or a cup seen from the side.

Every function draws onto a picture of any size through a Pose. Colours are RGB, 0-255, float.
No colour belongs to one kind: what tells the kinds apart is form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from finetune.sample.seeds import pick

Floats = NDArray[np.float64]
Random = np.random.RandomState

COLOURS: dict[str, tuple[int, int, int]] = {
    "white": (246, 244, 236),
    "cream": (250, 234, 176),
    "yellow": (248, 214, 36),
    "gold": (244, 172, 24),
    "orange": (238, 122, 34),
    "red": (206, 34, 42),
    "crimson": (150, 20, 48),
    "pink": (240, 154, 184),
    "magenta": (214, 56, 134),
    "lilac": (192, 154, 222),
    "violet": (122, 74, 182),
}

FAVOURITES: dict[str, tuple[str, ...]] = {
    "daisy": ("white", "cream", "pink", "yellow", "lilac"),
    "dandelion": ("yellow", "gold", "cream", "white", "orange"),
    "rose": ("red", "pink", "cream", "crimson", "yellow", "white"),
    "sunflower": ("yellow", "gold", "orange", "crimson", "cream"),
    "tulip": ("red", "yellow", "magenta", "violet", "pink", "orange"),
}
"""The colours a kind has twice as often as the others."""

CENTRES: tuple[tuple[int, int, int], ...] = (
    (236, 186, 40),
    (204, 130, 30),
    (122, 78, 36),
    (70, 44, 28),
    (120, 132, 52),
    (58, 40, 52),
)


@dataclass(frozen=True)
class Pose:
    """Where a blossom stands in the picture and from where it is seen.

    Attributes:
      centre: x and y in pixels.
      radius: pixels from the centre to the tips of the longest petals.
      tilt: 1 seen from straight ahead, towards 0 from the side; flattens along `axis`.
      axis: radians, the direction in which it is flattened.
      turn: radians, rotation of the blossom in its own plane.
      light: radians, the direction the light comes from.
    """

    centre: tuple[float, float]
    radius: float
    tilt: float = 1.0
    axis: float = 0.0
    turn: float = 0.0
    light: float = -2.0

    def place(self, points: Floats) -> Floats:
        """Points of the blossom's plane (unit radius), [..., 2], as pixels of the picture."""
        cos, sin = math.cos(self.axis), math.sin(self.axis)
        back = np.array([[cos, -sin], [sin, cos]])
        turned = self.axis + self.turn
        forth = np.array(
            [[math.cos(turned), -math.sin(turned)], [math.sin(turned), math.cos(turned)]]
        )
        matrix = back @ np.diag([self.tilt, 1.0]) @ np.linalg.inv(back) @ forth
        placed: Floats = points @ matrix.T * self.radius + np.array(self.centre)
        return placed

    def shade(self, angles: Floats) -> Floats:
        """How bright petals that point to `angles` are, about 0.85 to 1.1."""
        lit: Floats = 0.97 + 0.12 * np.cos(angles + self.axis + self.turn - self.light)
        return lit


def petal_colour(random: Random, kind: str) -> Floats:
    """A colour for the petals of `kind`, RGB."""
    weights = {name: 2.0 if name in FAVOURITES[kind] else 1.0 for name in COLOURS}
    return np.array(COLOURS[pick(random, weights)]) + random.normal(0, 9, 3)


def mix(first: Floats, second: Floats, share: float) -> Floats:
    """`share` of the second colour, the rest of the first."""
    return first * (1 - share) + second * share


def fill(colour: Floats) -> tuple[int, int, int]:
    """A colour as Pillow takes it."""
    # Called for every petal: plain numbers are ten times as fast here as numpy's clip.
    red, green, blue = (min(255, max(0, int(value))) for value in colour.tolist())
    return red, green, blue


def _outline(base: float, tip: float, steps: int) -> Floats:
    """A petal from (0, 0) to (1, 0), half a unit wide to each side, [2 * steps, 2].

    Width goes as t^base (1 - t)^tip: a small `tip` is a blunt end, 1 and more a pointed one.
    """
    along = (1 - np.cos(np.linspace(0, math.pi, steps))) / 2
    width = along**base * (1 - along) ** tip
    width = width / width.max() / 2
    upper = np.stack([along, width], axis=-1)
    return np.concatenate([upper, (upper * [1, -1])[::-1]])


def _ring(
    random: Random,
    count: int,
    *,
    length: float,
    width: float,
    base: float,
    tip: float,
    start: float = 0.0,
    wild: float = 0.1,
    steps: int = 9,
) -> tuple[Floats, Floats]:
    """`count` petals round the centre: outlines [count, points, 2] and their angles [count]."""
    angles = np.arange(count) * (2 * math.pi / count) + random.uniform(0, 2 * math.pi)
    angles = angles + random.normal(0, wild, count) * (2 * math.pi / count)
    lengths = length * (1 + random.normal(0, wild * 0.6, count)) - start
    widths = width * (1 + random.normal(0, wild, count))
    outline = _outline(base, tip, steps)
    x = outline[:, 0] * lengths[:, None]
    y = outline[:, 1] * widths[:, None] + random.normal(0, wild, count)[:, None] * x**2
    x = x + start
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1), angles


def _inner(outlines: Floats, share: float, start: float) -> Floats:
    """The same petals, shrunk towards the point of each at radius `start`."""
    roots = outlines[:, :1]
    roots = roots / np.maximum(np.linalg.norm(roots, axis=-1, keepdims=True), 1e-6) * start
    shrunk: Floats = roots + (outlines - roots) * share
    return shrunk


def _paint_ring(
    drawing: ImageDraw.ImageDraw,
    pose: Pose,
    outlines: Floats,
    angles: Floats,
    colours: list[Floats],
    random: Random,
    edge: float = 0.78,
) -> None:
    """Petals one over the other, each shaded from its tip (first colour) to its base (last)."""
    shares = np.linspace(1, 0.35, len(colours))
    layers = [pose.place(_inner(outlines, share, 0.05)) for share in shares]
    shades = pose.shade(angles) * (1 + random.normal(0, 0.04, len(angles)))
    for index in random.permutation(len(angles)):
        for layer, colour in zip(layers, colours, strict=True):
            lit = colour * shades[index]
            rim = fill(lit * edge) if layer is layers[0] else None
            drawing.polygon(layer[index].ravel().tolist(), fill=fill(lit), outline=rim)


def _paint_disc(
    drawing: ImageDraw.ImageDraw, pose: Pose, size: float, colour: Floats, dots: int, random: Random
) -> None:
    """A domed centre of radius `size`, dotted in a golden spiral."""
    circle = np.linspace(0, 2 * math.pi, 28, endpoint=False)
    rim = np.stack([np.cos(circle), np.sin(circle)], axis=-1)
    for share, light in ((1.0, 0.62), (0.9, 0.86), (0.6, 1.0)):
        polygon = pose.place(rim * size * share).ravel().tolist()
        drawing.polygon(polygon, fill=fill(colour * light))
    order = np.arange(1, dots + 1)
    radii = size * 0.95 * np.sqrt(order / dots)
    turns = order * 2.39996
    seeds = pose.place(np.stack([radii * np.cos(turns), radii * np.sin(turns)], axis=-1))
    half = max(0.6, pose.radius * size * 0.8 / math.sqrt(dots) / 2)
    bright = random.uniform(1.15, 1.5)
    lights = np.where(order % 2 == 0, bright, 0.6)
    for (x, y), light in zip(seeds.tolist(), lights.tolist(), strict=True):
        drawing.ellipse((x - half, y - half, x + half, y + half), fill=fill(colour * light))


def _tip_to_base(random: Random, colour: Floats, kind: str) -> list[Floats]:
    """Shades of a petal: plain, paler or darker towards the base, or of a second colour."""
    style = pick(random, {"plain": 3, "pale": 2, "dark": 2, "second": 1})
    inner = {
        "plain": colour * 0.92,
        "pale": mix(colour, np.array([255.0, 250.0, 225.0]), 0.55),
        "dark": colour * 0.62,
        "second": petal_colour(random, kind),
    }[style]
    return [colour, mix(colour, inner, 0.45), mix(colour, inner, 0.9)]


def paint_daisy(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """One or two rings of long blunt petals, the centre a fifth to a third wide."""
    colours = _tip_to_base(random, petal_colour(random, "daisy"), "daisy")
    count = int(random.randint(11, 24))
    width = random.uniform(0.85, 1.35) * 2 * math.pi * 0.75 / count
    tip = random.uniform(0.22, 0.42)
    for layer in range(int(random.randint(1, 3))):
        outlines, angles = _ring(
            random,
            count,
            length=1 - 0.12 * layer,
            width=width,
            base=random.uniform(0.6, 0.9),
            tip=tip,
            wild=random.uniform(0.05, 0.16),
        )
        _paint_ring(drawing, pose, outlines, angles, colours, random)
    centre = np.array(CENTRES[random.randint(len(CENTRES))]) + random.normal(0, 9, 3)
    _paint_disc(
        drawing, pose, random.uniform(0.2, 0.36), centre, int(random.randint(20, 50)), random
    )


def paint_sunflower(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """Two or three rings of pointed petals, the centre two fifths to two thirds wide."""
    colours = _tip_to_base(random, petal_colour(random, "sunflower"), "sunflower")
    count = int(random.randint(14, 26))
    width = random.uniform(0.9, 1.4) * 2 * math.pi * 0.75 / count
    tip = random.uniform(0.8, 1.2)
    for layer in range(int(random.randint(2, 4))):
        outlines, angles = _ring(
            random,
            count,
            length=1 - 0.08 * layer,
            width=width,
            base=random.uniform(0.5, 0.8),
            tip=tip,
            start=0.2,
            wild=random.uniform(0.08, 0.18),
        )
        _paint_ring(
            drawing, pose, outlines, angles, [c * (0.85 + 0.075 * layer) for c in colours], random
        )
    centre = np.array(CENTRES[random.randint(len(CENTRES))]) + random.normal(0, 9, 3)
    _paint_disc(
        drawing, pose, random.uniform(0.42, 0.64), centre, int(random.randint(50, 110)), random
    )


def paint_dandelion(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """Many layers of narrow florets without a centre, or (one in four) the globe of seeds."""
    if random.uniform() < 0.25:
        _paint_globe(drawing, pose, random)
        return
    colour = petal_colour(random, "dandelion")
    layers = int(random.randint(4, 7))
    for layer in range(layers):
        share = 1 - 0.85 * layer / layers
        outlines, angles = _ring(
            random,
            int(random.randint(20, 34) * (0.45 + 0.55 * share)),
            length=share,
            width=random.uniform(0.09, 0.15),
            base=0.5,
            tip=random.uniform(0.15, 0.6),
            start=share * 0.2,
            wild=random.uniform(0.15, 0.3),
            steps=5,
        )
        tone = colour * (0.84 + 0.22 * layer / layers)
        _paint_ring(drawing, pose, outlines, angles, [tone, tone * 0.93], random, edge=0.72)


def _paint_globe(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """Thin stalks that end in tufts."""
    white = mix(
        np.array([238.0, 236.0, 228.0]), petal_colour(random, "dandelion"), random.uniform(0, 0.4)
    )
    count = int(random.randint(50, 90))
    order = np.arange(count) + 0.5
    radii = 0.95 * np.sqrt(order / count)
    turns = order * 2.39996 + random.normal(0, 0.1, count)
    heads = np.stack([radii * np.cos(turns), radii * np.sin(turns)], axis=-1)
    tuft = random.uniform(0.1, 0.17)
    spread = np.linspace(0, 2 * math.pi, 7, endpoint=False)
    rays = np.stack([np.cos(spread), np.sin(spread)], axis=-1) * tuft
    stalks = pose.place(heads)
    tips = pose.place(heads[:, None] + rays)
    x, y = pose.centre
    shades = pose.shade(turns) * random.uniform(0.8, 1.02, count)
    thick = max(1, round(pose.radius / 70))
    for stalk, tip, shade in zip(stalks.tolist(), tips.tolist(), shades.tolist(), strict=True):
        tone = fill(white * shade)
        drawing.line((x, y, *stalk), fill=fill(white * shade * 0.78), width=thick)
        for ray in tip:
            drawing.line((*stalk, *ray), fill=tone, width=thick)
    half = pose.radius * random.uniform(0.08, 0.14)
    drawing.ellipse(
        (x - half, y - half, x + half, y + half), fill=fill(np.array([112.0, 96.0, 58.0]))
    )


def paint_rose(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """Broad petals in layers that wind inwards to a tight bud."""
    colour = petal_colour(random, "rose")
    layers = int(random.randint(4, 7))
    count = int(random.randint(4, 7))
    dark = random.uniform(0.55, 0.8)
    for layer in range(layers):
        share = (1 - layer / layers) ** random.uniform(0.8, 1.0)
        outlines, angles = _ring(
            random,
            max(3, count - layer // 2),
            length=share,
            width=share * random.uniform(1.0, 1.4),
            base=random.uniform(0.45, 0.7),
            tip=random.uniform(0.2, 0.34),
            wild=random.uniform(0.06, 0.14),
        )
        tone = colour * (0.8 + 0.26 * layer / layers)
        shades = [mix(tone, np.array([255.0, 250.0, 240.0]), 0.12), tone, tone * (1 + dark) / 2]
        _paint_ring(drawing, pose, outlines, angles, shades, random, edge=dark)
    turns = np.linspace(0, random.uniform(3.5, 6.5) * math.pi, 40)
    radii = 0.02 + 0.24 * turns / turns[-1]
    spiral = pose.place(np.stack([radii * np.cos(turns), radii * np.sin(turns)], axis=-1))
    drawing.line(
        spiral.ravel().tolist(),
        fill=fill(colour * dark * 0.85),
        width=max(1, round(pose.radius / 28)),
        joint="curve",
    )


def paint_tulip(drawing: ImageDraw.ImageDraw, pose: Pose, random: Random) -> None:
    """A cup of overlapping pointed petals seen from the side, or (one in four) from above."""
    colours = _tip_to_base(random, petal_colour(random, "tulip"), "tulip")
    if random.uniform() < 0.25:
        _paint_open_tulip(drawing, pose, colours, random)
        return
    # The cup stands on (0, 1) and opens upwards; side views are not flattened further.
    upright = Pose(pose.centre, pose.radius, 1.0, 0.0, random.normal(0, 0.3), pose.light)
    spread = random.uniform(0.1, 0.55)
    broad = random.uniform(0.6, 0.95)
    tip = random.uniform(0.45, 0.9)
    back = [-0.75, 0.75, 0.0] if random.uniform() < 0.5 else [-0.6, 0.6]
    front = [-1.0, 1.0, 0.0] if random.uniform() < 0.6 else [-0.5, 0.5]
    for angles, light in ((back, 0.72), (front, 1.0)):
        for place in angles:
            lean = place * spread + random.normal(0, 0.05)
            height = 1.75 * (1 - 0.08 * abs(place)) * (1 + random.normal(0, 0.05))
            outline = _outline(random.uniform(0.32, 0.45), tip, 12) * [height, broad * 1.25]
            outline[:, 1] += place * 0.3 * np.sin(outline[:, 0] / height * math.pi)
            cos, sin = math.cos(lean - math.pi / 2), math.sin(lean - math.pi / 2)
            matrix = np.array([[cos, sin], [-sin, cos]])
            shade = light * (1 + 0.1 * place * math.cos(pose.light)) * (1 + random.normal(0, 0.03))
            for share, colour in zip((1.0, 0.8, 0.5), colours, strict=True):
                points = (outline * [share, share]) @ matrix + [0, 0.9]
                polygon = upright.place(points).ravel().tolist()
                rim = fill(colour * shade * 0.72) if share == 1.0 else None
                drawing.polygon(polygon, fill=fill(colour * shade), outline=rim)


def _paint_open_tulip(
    drawing: ImageDraw.ImageDraw, pose: Pose, colours: list[Floats], random: Random
) -> None:
    """Six broad petals, a dark star at their base, six stamens."""
    outlines, angles = _ring(
        random,
        6,
        length=1.0,
        width=random.uniform(0.8, 1.05),
        base=random.uniform(0.5, 0.7),
        tip=random.uniform(0.4, 0.7),
        wild=0.05,
    )
    for three in (slice(0, None, 2), slice(1, None, 2)):
        _paint_ring(drawing, pose, outlines[three], angles[three], colours, random)
    star, angles = _ring(random, 6, length=0.42, width=0.2, base=0.5, tip=1.0, wild=0.05)
    dark = np.array([52.0, 36.0, 48.0]) + random.normal(0, 10, 3)
    _paint_ring(drawing, pose, star, angles, [dark], random)
    ends = pose.place(np.stack([np.cos(angles), np.sin(angles)], axis=-1) * 0.26).tolist()
    half = max(1.0, pose.radius * 0.045)
    for x, y in ends:
        drawing.line((*pose.centre, x, y), fill=(210, 200, 120), width=max(1, round(half / 2)))
        drawing.ellipse((x - half, y - half, x + half, y + half), fill=(226, 186, 60))
