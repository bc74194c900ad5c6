"""Closed forms that the base is pretrained on: polygons, wheels, things.

A function takes random numbers and returns parts: outlines in the unit square about (0, 0),
[points, 2], x to the right and y downwards. Nothing here is shared with the flowers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Random = np.random.RandomState


@dataclass(frozen=True)
class Part:
    """A closed outline and what is done with it.

    Attributes:
      points: [points, 2].
      tone: 0 or 1, which of the form's two colours fills it; -1 cuts a hole into what is there.
    """

    points: Points
    tone: int = 0


def around(radii: Points | float, angles: Points) -> Points:
    """Points at polar coordinates, radians, [points, 2]."""
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)


def circle(radius: float = 1.0, x: float = 0.0, y: float = 0.0, steps: int = 36) -> Points:
    """A circle."""
    rim = around(radius, np.linspace(0, 2 * math.pi, steps, endpoint=False))
    return rim + np.array([x, y])


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """A rectangle."""
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])


def turned(points: Points, angle: float) -> Points:
    """Turned about (0, 0), radians."""
    cos, sin = math.cos(angle), math.sin(angle)
    rotated: Points = points @ np.array([[cos, sin], [-sin, cos]])
    return rotated


def _regular(corners: int) -> Callable[[Random], list[Part]]:
    def form(random: Random) -> list[Part]:
        angles = np.linspace(0, 2 * math.pi, corners, endpoint=False)
        return [Part(around(1 + random.normal(0, 0.05, corners), angles))]

    return form


def _rectangle(random: Random) -> list[Part]:
    half = random.uniform(0.35, 1.0)
    return [Part(box(-1, -half, 1, half))]


def _disc(random: Random) -> list[Part]:
    return [Part(circle() * [1, random.uniform(0.55, 1)])]


def _ring(random: Random) -> list[Part]:
    return [Part(circle()), Part(circle(random.uniform(0.4, 0.8)), -1)]


def _half_disc(random: Random) -> list[Part]:
    return [Part(around(1.0, np.linspace(0, math.pi * random.uniform(0.85, 1.1), 24)) - [0, 0.4])]


def _crescent(random: Random) -> list[Part]:
    shift = random.uniform(0.3, 0.6)
    return [Part(circle()), Part(circle(random.uniform(0.8, 0.95), shift), -1)]


def _pie(random: Random) -> list[Part]:
    rim = around(1.0, np.linspace(0, 2 * math.pi - random.uniform(0.7, 1.9), 30))
    return [Part(np.concatenate([rim, [[0.0, 0.0]]]))]


def _star(random: Random) -> list[Part]:
    points = int(random.randint(4, 9))
    radii = np.where(np.arange(2 * points) % 2 == 0, 1.0, random.uniform(0.35, 0.6))
    return [Part(around(radii, np.arange(2 * points) * math.pi / points))]


def _sun(random: Random) -> list[Part]:
    """A disc with loose rays, each a triangle."""
    count = int(random.randint(8, 18))
    inner = random.uniform(0.4, 0.6)
    ray = np.array([[inner + 0.1, -0.5], [1.0, 0.0], [inner + 0.1, 0.5]])
    ray = ray * [1, random.uniform(0.8, 1.4) * 2 * math.pi * 0.6 / count]
    rays = [Part(turned(ray, 2 * math.pi * index / count), 1) for index in range(count)]
    return [Part(circle(inner)), *rays]


def _toothed(radii: list[float], low: int, high: int) -> Callable[[Random], list[Part]]:
    """A wheel whose rim goes through `radii` once a tooth; a hole or a hub in the middle."""

    def form(random: Random) -> list[Part]:
        teeth = int(random.randint(low, high))
        depth = random.uniform(0.7, 1.3)
        profile = 1 - (1 - np.array(radii)) * depth
        angles = np.linspace(0, 2 * math.pi, teeth * len(radii), endpoint=False)
        hub = Part(circle(random.uniform(0.15, 0.6)), -1 if random.uniform() < 0.6 else 1)
        return [Part(around(np.tile(profile, teeth), angles)), hub]

    return form


def _seal(random: Random) -> list[Part]:
    """A wheel with a scalloped rim."""
    lobes = int(random.randint(12, 24))
    angles = np.linspace(0, 2 * math.pi, lobes * 9, endpoint=False)
    rim = 1 - random.uniform(0.08, 0.16) * (1 - np.abs(np.sin(angles * lobes / 2)))
    return [Part(around(rim, angles)), Part(circle(random.uniform(0.3, 0.65)), 1)]


def _spokes(random: Random) -> list[Part]:
    """A wheel: rim, hub and spokes."""
    count = int(random.randint(5, 13))
    thin = random.uniform(0.03, 0.08)
    spokes = [
        Part(turned(box(0, -thin, 0.9, thin), 2 * math.pi * index / count), 1)
        for index in range(count)
    ]
    rim = random.uniform(0.75, 0.9)
    return [Part(circle()), Part(circle(rim), -1), *spokes, Part(circle(random.uniform(0.1, 0.25)))]


def _propeller(random: Random) -> list[Part]:
    """Bent blades round a small hub."""
    count = int(random.randint(3, 7))
    along = np.linspace(0, 1, 10)
    bend = random.uniform(0.3, 0.8)
    width = random.uniform(0.6, 1.1) / count
    edge = np.stack([along, bend * along**2 * 0.6], -1)
    blade = np.concatenate([edge, (edge + np.stack([0 * along, width * along], -1))[::-1]])
    blades = [Part(turned(blade, 2 * math.pi * index / count), index % 2) for index in range(count)]
    return [*blades, Part(circle(0.12))]


def _umbrella(random: Random) -> list[Part]:
    """A canopy in sectors, a straight stick."""
    count = int(random.randint(4, 8))
    edges = np.linspace(math.pi, 2 * math.pi, count + 1)
    sectors = [
        Part(
            np.concatenate([[[0.0, -0.95]], around(1.0, np.linspace(a, b, 6)) * [1, 0.75]]),
            index % 2,
        )
        for index, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    thin = random.uniform(0.03, 0.06)
    return [Part(box(-thin, -0.1, thin, 1), 1), *sectors]


def _target(random: Random) -> list[Part]:
    """Discs one in the other."""
    count = int(random.randint(3, 7))
    return [Part(circle(1 - index / count), index % 2) for index in range(count)]


def _stack(random: Random) -> list[Part]:
    """The same polygon, smaller and turned, one on the other."""
    corners, count = int(random.randint(3, 7)), int(random.randint(4, 8))
    turn = random.uniform(0.15, 0.5)
    angles = np.linspace(0, 2 * math.pi, corners, endpoint=False)
    return [
        Part(around(1 - index / count * 0.85, angles + index * turn), index % 2)
        for index in range(count)
    ]


def _cross(random: Random) -> list[Part]:
    half = random.uniform(0.15, 0.38)
    return [Part(box(-1, -half, 1, half)), Part(box(-half, -1, half, 1))]


def _arrow(random: Random) -> list[Part]:
    thin, neck = random.uniform(0.12, 0.3), random.uniform(-0.1, 0.4)
    head = np.array([[neck, -0.75], [1.0, 0.0], [neck, 0.75]])
    return [Part(box(-1, -thin, neck + 0.02, thin)), Part(head)]


def _heart(random: Random) -> list[Part]:
    t = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [Part(np.stack([x, -y], -1) / 17 * [1, random.uniform(0.8, 1.2)])]


def _blob(random: Random) -> list[Part]:
    angles = np.linspace(0, 2 * math.pi, 60, endpoint=False)
    rim = np.full(60, 0.7)
    for wave in range(2, 6):
        rim += random.normal(0, 0.25 / wave) * np.sin(wave * angles + random.uniform(0, 6.3))
    return [Part(around(np.clip(rim, 0.2, 1.1), angles))]


def _lightning(random: Random) -> list[Part]:
    steps = int(random.randint(4, 8))
    y = np.linspace(-1, 1, steps)
    x = np.where(np.arange(steps) % 2 == 0, -0.3, 0.3) * random.uniform(0.7, 1.4)
    width = random.uniform(0.2, 0.4)
    return [Part(np.concatenate([np.stack([x, y], -1), np.stack([x + width, y], -1)[::-1]]))]


def _house(random: Random) -> list[Part]:
    roof = random.uniform(-0.3, 0.1)
    door = random.uniform(-0.5, 0.2)
    return [
        Part(box(-0.75, roof, 0.75, 1)),
        Part(np.array([[-1.0, roof], [0.0, -1.0], [1.0, roof]]), 1),
        Part(box(door, 0.4, door + 0.35, 1), 1),
    ]


def _fish(random: Random) -> list[Part]:
    tail = random.uniform(0.35, 0.6)
    return [
        Part(np.array([[0.45, 0.0], [1.0, -tail], [0.85, 0.0], [1.0, tail]]), 1),
        Part(circle() * [0.75, random.uniform(0.35, 0.55)] - [0.25, 0]),
        Part(circle(0.07, -0.65, -0.1), 1),
    ]


def _mirrored(profile: list[tuple[float, float]], random: Random) -> Points:
    """A vessel from half its outline (half width, height), jittered."""
    half = np.array(profile) * [random.uniform(0.75, 1.25), 1]
    half[:, 0] *= 1 + random.normal(0, 0.06, len(half))
    return np.concatenate([half, (half * [-1, 1])[::-1]])


def _goblet(random: Random) -> list[Part]:
    profile = [(0.6, -1.0), (0.55, -0.4), (0.1, 0.05), (0.08, 0.8), (0.45, 1.0)]
    return [Part(_mirrored(profile, random))]


def _bottle(random: Random) -> list[Part]:
    neck = random.uniform(-0.5, 0.0)
    profile = [(0.16, -1.0), (0.16, neck), (0.45, neck + 0.3), (0.45, 1.0)]
    return [Part(_mirrored(profile, random)), Part(box(-0.35, 0.45, 0.35, 0.8), 1)]


def _hourglass(random: Random) -> list[Part]:
    profile = [(0.65, -1.0), (random.uniform(0.06, 0.2), 0.0), (0.65, 1.0)]
    return [Part(_mirrored(profile, random)), Part(box(-0.75, 0.85, 0.75, 1.0), 1)]


def _crown(random: Random) -> list[Part]:
    points = int(random.randint(3, 6))
    x = np.linspace(-1, 1, 2 * points - 1)
    y = np.where(np.arange(2 * points - 1) % 2 == 0, -0.8, random.uniform(-0.2, 0.2))
    teeth = np.stack([x, y], -1)
    return [
        Part(np.concatenate([teeth, [[0.9, 0.8], [-0.9, 0.8]]])),
        Part(box(-0.9, 0.55, 0.9, 0.8), 1),
    ]


def _boat(random: Random) -> list[Part]:
    hull = np.array([[-1.0, 0.35], [1.0, 0.35], [0.6, 0.9], [-0.7, 0.9]])
    mast = random.uniform(-0.2, 0.2)
    sail = np.array(
        [[mast + 0.06, -1.0], [mast + random.uniform(0.5, 0.8), 0.2], [mast + 0.06, 0.2]]
    )
    return [Part(hull), Part(box(mast - 0.03, -1, mast + 0.03, 0.4)), Part(sail, 1)]


def _key(random: Random) -> list[Part]:
    bow = random.uniform(0.28, 0.4)
    teeth = [
        Part(box(x, 0, x + 0.12, random.uniform(0.25, 0.45)))
        for x in np.linspace(0.45, 0.88, int(random.randint(2, 4))).tolist()
    ]
    shaft = Part(box(-0.4, -0.07, 1, 0.07))
    return [Part(circle(bow, -0.6)), Part(circle(bow * 0.55, -0.6), -1), shaft, *teeth]


OUTLINES: dict[str, Callable[[Random], list[Part]]] = {
    "arrow": _arrow,
    "blob": _blob,
    "boat": _boat,
    "bottle": _bottle,
    "crescent": _crescent,
    "cross": _cross,
    "crown": _crown,
    "disc": _disc,
    "fish": _fish,
    "gear": _toothed([1.0, 1.0, 0.8, 0.8], 8, 20),
    "goblet": _goblet,
    "half-disc": _half_disc,
    "heart": _heart,
    "hourglass": _hourglass,
    "house": _house,
    "key": _key,
    "lightning": _lightning,
    "octagon": _regular(8),
    "pentagon": _regular(5),
    "pie": _pie,
    "propeller": _propeller,
    "rectangle": _rectangle,
    "ring": _ring,
    "saw": _toothed([1.0, 0.75], 12, 24),
    "seal": _seal,
    "stack": _stack,
    "star": _star,
    "sun": _sun,
    "target": _target,
    "triangle": _regular(3),
    "umbrella": _umbrella,
    "wheel": _spokes,
}
