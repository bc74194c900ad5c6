"""Forms made of lines that the base is pretrained on: spirals, trees, chains, scribbles.

A function takes random numbers and returns lines in the unit square about (0, 0), each
[points, 2]. Nothing here is shared with the flowers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from finetune.sample.outlines import Points, Random, around, circle


def _closed(points: Points) -> Points:
    return np.concatenate([points, points[:1]])


def _spiral(random: Random) -> list[Points]:
    angles = np.linspace(0, random.uniform(2, 5) * 2 * math.pi, 120)
    return [around((angles / angles[-1]) ** random.uniform(0.7, 1.2), angles)]


def _burst(random: Random) -> list[Points]:
    """Rays of several lengths from the middle."""
    count = int(random.randint(14, 44))
    angles = np.linspace(0, 2 * math.pi, count, endpoint=False) + random.normal(0, 0.04, count)
    start, ends = random.uniform(0, 0.35), random.uniform(0.7, 1.0, count)
    return [
        around(np.array([start, end]), np.array([angle, angle]))
        for angle, end in zip(angles.tolist(), ends.tolist(), strict=True)
    ]


def _asterisk(random: Random) -> list[Points]:
    count = int(random.randint(3, 6))
    return [
        around(np.array([-1.0, 1.0]), np.full(2, math.pi * index / count)) for index in range(count)
    ]


def _branch(random: Random, foot: Points, angle: float, length: float, depth: int) -> list[Points]:
    end = foot + length * np.array([math.cos(angle), math.sin(angle)])
    lines = [np.stack([foot, end])]
    if depth:
        spread = random.uniform(0.3, 0.65)
        for side in (-spread, spread):
            turn = angle + side + random.normal(0, 0.1)
            lines += _branch(random, end, turn, length * random.uniform(0.6, 0.8), depth - 1)
    return lines


def _tree(random: Random) -> list[Points]:
    return _branch(random, np.array([0.0, 1.0]), -math.pi / 2, random.uniform(0.55, 0.7), 4)


def _snowflake(random: Random) -> list[Points]:
    """Six arms with pairs of twigs."""
    twigs = np.linspace(0.35, 0.8, int(random.randint(2, 5)))
    reach = random.uniform(0.18, 0.35)
    lines = []
    for arm in np.arange(6) * math.pi / 3:
        tip = np.array([math.cos(arm), math.sin(arm)])
        lines.append(np.stack([0 * tip, tip]))
        for place in twigs.tolist():
            for side in (-1, 1):
                twig = around(reach, np.array([arm + side * math.pi / 3]))[0]
                lines.append(np.stack([tip * place, tip * place + twig]))
    return lines


def _scribble(random: Random) -> list[Points]:
    steps = np.cumsum(random.normal(0, 1, (26, 2)), axis=0)
    fine = np.linspace(0, 25, 130)
    walk = np.stack([np.interp(fine, np.arange(26), steps[:, axis]) for axis in (0, 1)], -1)
    walk = walk - walk.mean(0)
    return [walk / np.abs(walk).max()]


def _spirograph(random: Random) -> list[Points]:
    """A hypotrochoid: a point of a small circle that rolls inside a large one."""
    turns = int(random.randint(5, 12))
    step = int(random.choice([n for n in range(2, turns) if math.gcd(n, turns) == 1]))
    t = np.linspace(0, 2 * math.pi * step, 260)
    small = step / turns
    pen = small * random.uniform(0.7, 1.6)
    x = (1 - small) * np.cos(t) + pen * np.cos((1 - small) / small * t)
    y = (1 - small) * np.sin(t) - pen * np.sin((1 - small) / small * t)
    curve = np.stack([x, y], -1)
    return [curve / np.abs(curve).max()]


def _chain(random: Random) -> list[Points]:
    """Links in a row, each through the next."""
    count = int(random.randint(3, 6))
    radius = 1.25 / count
    places = np.linspace(-1 + radius, 1 - radius, count).tolist()
    return [_closed(circle(radius, x) * [1, random.uniform(0.5, 0.8)]) for x in places]


def _ladder(random: Random) -> list[Points]:
    half = random.uniform(0.25, 0.45)
    rails = [np.array([[side, -1.0], [side, 1.0]]) for side in (-half, half)]
    rungs = np.linspace(-0.85, 0.85, int(random.randint(5, 9))).tolist()
    return rails + [np.array([[-half, y], [half, y]]) for y in rungs]


def _comb(random: Random) -> list[Points]:
    teeth = np.linspace(-0.95, 0.95, int(random.randint(6, 14))).tolist()
    length = random.uniform(0.2, 0.7)
    return [np.array([[-1.0, -0.4], [1.0, -0.4]])] + [
        np.array([[x, -0.4], [x, -0.4 + length]]) for x in teeth
    ]


def _bubbles(random: Random) -> list[Points]:
    return [
        _closed(circle(random.uniform(0.1, 0.4), *random.uniform(-0.75, 0.75, 2)))
        for _ in range(random.randint(5, 12))
    ]


def _web(random: Random) -> list[Points]:
    """A spider's web: rays, and polygons between them."""
    count = int(random.randint(6, 11))
    angles = np.linspace(0, 2 * math.pi, count, endpoint=False) + random.normal(0, 0.06, count)
    rays = [around(np.array([0.0, 1.0]), np.full(2, angle)) for angle in angles.tolist()]
    rings = np.linspace(0.25, 0.92, int(random.randint(3, 6))).tolist()
    return rays + [_closed(around(radius, angles)) for radius in rings]


def _wave_line(random: Random) -> list[Points]:
    x = np.linspace(-1, 1, 80)
    waves, height = random.uniform(2, 4.5), random.uniform(0.15, 0.35)
    wave = np.sin(x * math.pi * waves) * height
    return [np.stack([x, wave + shift], -1) for shift in (-0.4, 0.0, 0.4)]


STROKES: dict[str, Callable[[Random], list[Points]]] = {
    "asterisk": _asterisk,
    "bubbles": _bubbles,
    "burst": _burst,
    "chain": _chain,
    "comb": _comb,
    "ladder": _ladder,
    "ripples": _wave_line,
    "scribble": _scribble,
    "snowflake": _snowflake,
    "spiral": _spiral,
    "spirograph": _spirograph,
    "tree": _tree,
    "web": _web,
}
