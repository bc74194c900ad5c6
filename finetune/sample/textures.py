"""Textures that the base is pretrained on: stripes, bricks, scales, marble.

A function takes random numbers and coordinates x and y, each [height, width], in units of about
one repetition, and returns the share of the second colour, [height, width], 0 to 1. Nothing here
is shared with the flowers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.floating[Any]]
Random = np.random.RandomState


def _step(values: Field) -> Field:
    """0 below zero, 1 above, softly."""
    clipped: Field = np.clip(values * 8 + 0.5, 0, 1)
    return clipped


def _stripes(random: Random, x: Field, y: Field) -> Field:
    return _step(np.abs(x % 1 - 0.5) - random.uniform(0.15, 0.35))


def _checks(random: Random, x: Field, y: Field) -> Field:
    del random
    return _step(np.sin(x * math.pi) * np.sin(y * math.pi))


def _grid(random: Random, x: Field, y: Field) -> Field:
    thin = random.uniform(0.06, 0.16)
    return np.maximum(_step(thin - np.abs(x % 1 - 0.5)), _step(thin - np.abs(y % 1 - 0.5)))


def _waves(random: Random, x: Field, y: Field) -> Field:
    bent = x + random.uniform(0.25, 0.5) * np.sin(y * random.uniform(1.2, 2.4))
    return _step(np.sin(bent * 2 * math.pi))


def _chevrons(random: Random, x: Field, y: Field) -> Field:
    slope = random.uniform(0.7, 1.6)
    return _step(np.sin((x + slope * np.abs(y % 2 - 1)) * 2 * math.pi))


def _bricks(random: Random, x: Field, y: Field) -> Field:
    row = np.floor(y)
    shifted = x / random.uniform(1.6, 2.4) + (row % 2) / 2
    joint = random.uniform(0.05, 0.12)
    return np.maximum(_step(joint - (y - row)), _step(joint * 0.6 - shifted % 1))


def _dots(random: Random, x: Field, y: Field) -> Field:
    shifted = x + (np.floor(y) % 2) * 0.5
    far = np.hypot(shifted % 1 - 0.5, y % 1 - 0.5)
    return _step(random.uniform(0.2, 0.4) - far)


def _honeycomb(random: Random, x: Field, y: Field) -> Field:
    first, second = _nearest(x, y, *_lattice(x, y, 0.0, random))
    return _step(random.uniform(0.05, 0.12) - (second - first) / 2)


def _cells(random: Random, x: Field, y: Field) -> Field:
    """Cracked earth: borders of the cells of scattered points."""
    first, second = _nearest(x, y, *_lattice(x, y, 0.35, random))
    return _step(random.uniform(0.04, 0.12) - (second - first) / 2)


def _pebbles(random: Random, x: Field, y: Field) -> Field:
    """Cells shaded from their middle outwards."""
    first, _ = _nearest(x, y, *_lattice(x, y, 0.3, random))
    shaded: Field = np.clip(first * random.uniform(1.2, 1.9), 0, 1)
    return shaded


def _lattice(x: Field, y: Field, wild: float, random: Random) -> tuple[Field, Field]:
    """Offsets of the points of a triangular lattice, one for each of 16 x 16 repeated cells."""
    del x, y
    offsets = random.uniform(-wild, wild, (2, 16, 16)).astype(np.float32)
    return offsets[0], offsets[1]


def _nearest(x: Field, y: Field, shift_x: Field, shift_y: Field) -> tuple[Field, Field]:
    """Distances to the nearest and the second nearest point of a jittered triangular lattice."""
    first = np.full(x.shape, 9, np.float32)
    second = np.full(x.shape, 9, np.float32)
    base_row = np.floor(y).astype(int)
    for row_step in (-1, 0, 1):
        row = base_row + row_step
        odd = (row % 2) * np.float32(0.5)
        base_column = np.floor(x - odd).astype(int)
        for column_step in (-1, 0, 1):
            column = base_column + column_step
            along = column + odd + 0.5 + shift_x[row % 16, column % 16]
            down = row + 0.5 + shift_y[row % 16, column % 16]
            far = np.hypot(x - along, y - down)
            second = np.minimum(second, np.maximum(first, far))
            first = np.minimum(first, far)
    return first, second


def _scales(random: Random, x: Field, y: Field) -> Field:
    """Overlapping half-discs, as on a fish; each row lies on the row below."""
    value = np.zeros(x.shape, np.float32)
    done = np.zeros(x.shape, bool)
    edge = random.uniform(0.06, 0.14)
    for step in (0, 1, 2):
        row = np.floor(y * 2) - step
        shifted = x + (row % 2) * np.float32(0.5)
        far = np.hypot(shifted % 1 - 0.5, y - row / 2) / 0.56
        here = (far < 1) & ~done
        value = np.where(here, np.where(far > 1 - 2 * edge, 1.0, far * 0.45), value)
        done |= here
    return value.astype(np.float32)


def _weave(random: Random, x: Field, y: Field) -> Field:
    """Bands over and under each other."""
    thin = random.uniform(0.3, 0.42)
    over = (np.floor(x) + np.floor(y)) % 2 == 0
    across, down = np.abs(y % 1 - 0.5), np.abs(x % 1 - 0.5)
    band = np.where(over, across, down)
    under = np.where(over, down, across)
    return np.where(band < thin, 0.5 + band, np.where(under < thin, 0.1 + under, 1)).astype(
        np.float32
    )


def _triangles(random: Random, x: Field, y: Field) -> Field:
    del random
    slanted = (x - y / 2) % 1 + y % 1
    return _step(slanted - 1)


def _clouds(random: Random, x: Field, y: Field) -> Field:
    return _smooth(x / 2, y / 2, random)


def _smooth(x: Field, y: Field, random: Random) -> Field:
    """Two octaves of interpolated noise, 0 to 1."""
    table = random.uniform(0, 1, (32, 32)).astype(np.float32)
    total = np.zeros(x.shape, np.float32)
    for octave, weight in ((1, 0.65), (2, 0.35)):
        u, v = x * octave, y * octave
        column, row = np.floor(u).astype(int), np.floor(v).astype(int)
        s, t = u - column, v - row
        s, t = s * s * (3 - 2 * s), t * t * (3 - 2 * t)
        near = table[row % 32, column % 32] * (1 - s) + table[row % 32, (column + 1) % 32] * s
        row = row + 1
        far = table[row % 32, column % 32] * (1 - s) + table[row % 32, (column + 1) % 32] * s
        total += weight * (near * (1 - t) + far * t)
    return total


def _marble(random: Random, x: Field, y: Field) -> Field:
    veins = np.sin((x + random.uniform(1.5, 3.5) * _smooth(x / 2, y / 2, random)) * 2 * math.pi)
    share: Field = np.abs(veins) ** random.uniform(0.5, 1.5)
    return share


def _patches(random: Random, x: Field, y: Field) -> Field:
    """Camouflage: the two sides of a level of smooth noise."""
    return _step((_smooth(x / 2, y / 2, random) - 0.5) * 3)


def _speckle(random: Random, x: Field, y: Field) -> Field:
    first, _ = _nearest(x, y, *_lattice(x, y, 0.5, random))
    return _step(random.uniform(0.12, 0.28) - first)


def _arcs(random: Random, x: Field, y: Field) -> Field:
    """Tiles with two quarter circles each, turned at random: a maze of curves."""
    flip = random.randint(0, 2, (32, 32))
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    u, v = x - column, y - row
    u = np.where(flip[row % 32, column % 32] == 1, 1 - u, u)
    near = np.abs(np.hypot(u, v) - 0.5)
    far = np.abs(np.hypot(1 - u, 1 - v) - 0.5)
    return _step(random.uniform(0.1, 0.2) - np.minimum(near, far))


TEXTURES: dict[str, Callable[[Random, Field, Field], Field]] = {
    "arcs": _arcs,
    "bricks": _bricks,
    "cells": _cells,
    "checks": _checks,
    "chevrons": _chevrons,
    "clouds": _clouds,
    "dots": _dots,
    "grid": _grid,
    "honeycomb": _honeycomb,
    "marble": _marble,
    "patches": _patches,
    "pebbles": _pebbles,
    "scales": _scales,
    "speckle": _speckle,
    "stripes": _stripes,
    "tiles": _triangles,
    "waves": _waves,
    "weave": _weave,
}
