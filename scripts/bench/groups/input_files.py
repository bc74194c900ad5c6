"""Draws the pictures of the group `input`. Run as a program: DIRECTORY NUMBER WIDTH HEIGHT."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from finetune.sample.flowers import KINDS, draw

_DRAWN_PER_KIND = 3
_GRAIN = 6.0
"""Standard deviation of a camera's noise, in grey levels; a drawn picture has none of its own,
and without it the JPEGs would be a third of a photograph's size."""

_QUALITY = 90


def write_pictures(directory: Path, count: int, size: tuple[int, int]) -> None:
    """Writes `count` JPEGs of `size` (width, height) into DIRECTORY/KIND/, all different.

    Each is a part of a drawn flower, enlarged and with grain; the same call gives the same bytes.
    """
    width, height = size
    large = [
        draw(kind, number).resize((width * 5 // 4, height * 5 // 4), Image.Resampling.BICUBIC)
        for kind in KINDS
        for number in range(_DRAWN_PER_KIND)
    ]
    random = np.random.default_rng(0)
    grain = random.normal(0, _GRAIN, (2 * height, 2 * width, 3)).astype(np.float32)
    for name in KINDS:
        (directory / name).mkdir(parents=True)
    for number in range(count):
        kind = number % len(KINDS)
        picture = large[kind * _DRAWN_PER_KIND + number // len(KINDS) % _DRAWN_PER_KIND]
        left, top = (int(random.integers(0, room // 4 + 1)) for room in size)
        part = np.asarray(picture.crop((left, top, left + width, top + height)), np.float32)
        down, across = random.integers(0, height), random.integers(0, width)
        part = part + grain[down : down + height, across : across + width]
        stream = io.BytesIO()
        Image.fromarray(np.clip(part, 0, 255).astype(np.uint8)).save(
            stream, "JPEG", quality=_QUALITY
        )
        path = directory / KINDS[kind] / f"{KINDS[kind]}_{number:05d}.jpg"
        path.write_bytes(stream.getvalue())


def main() -> None:
    """Draws them, and builds the dataset that the pipelines read of them in DIRECTORY/dataset."""
    from finetune.datasets.build import build

    directory = Path(sys.argv[1])
    count, width, height = map(int, sys.argv[2:])
    write_pictures(directory / "pictures", count, (width, height))
    build(directory / "pictures", directory / "dataset", val=0)


if __name__ == "__main__":
    main()
