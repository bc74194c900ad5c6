"""Draws five kinds of flowers, so that training can be tried without a network or a camera."""

from __future__ import annotations

import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from checkpoints.errors import NotFoundError, near_names
from checkpoints.files import atomic_directory, refuse_foreign_files
from checkpoints.progress import SILENT, Progress
from finetune.sample import blossoms, meadow
from finetune.sample.blossoms import Pose, Random
from finetune.sample.drawn import Drawn, refuse_count
from finetune.sample.seeds import generator, pick

KINDS = ("daisy", "dandelion", "rose", "sunflower", "tulip")

_PAINTERS = {
    "daisy": blossoms.paint_daisy,
    "dandelion": blossoms.paint_dandelion,
    "rose": blossoms.paint_rose,
    "sunflower": blossoms.paint_sunflower,
    "tulip": blossoms.paint_tulip,
}

_SIZES = ((240, 240), (280, 210), (210, 280), (320, 240), (224, 224))
_FINE = 2
"""Drawn so many times larger, then reduced: smooth edges."""


def draw(kind: str, seed: int) -> Image.Image:
    """Draws one flower.

    Args:
      kind: one of KINDS.
      seed: any number; the same number draws the same picture.

    Returns:
      An RGB picture, 210 to 320 pixels a side.

    Raises:
      NotFoundError: no flower of this name.
    """
    if kind not in _PAINTERS:
        near = near_names(kind, KINDS) or list(KINDS)
        raise NotFoundError(
            f"No flower is called {kind!r}.",
            expected=f"one of {', '.join(KINDS)}",
            received=kind,
            next_step=f"Write {near[0]}.",
        )
    random = generator("flower", kind, seed)
    width, height = _SIZES[random.randint(len(_SIZES))]
    size = (width * _FINE, height * _FINE)
    poses = _poses(size, random)
    picture = _behind(size, poses, random)
    drawing = ImageDraw.Draw(picture)
    for pose in poses:
        _paint(drawing, kind, pose, size, random)
    _before(drawing, poses[-1], size, random)
    return meadow.take(picture.reduce(_FINE), random)


def _poses(size: tuple[int, int], random: Random) -> list[Pose]:
    """One to three flowers, the nearest last."""
    count = int(pick(random, {"1": 6, "2": 1, "3": 1}))
    short = min(size)
    poses = []
    for index in range(count):
        near = index == count - 1
        share = random.uniform(0.33, 0.48) if near else random.uniform(0.16, 0.28)
        spread = 0.1 if near else 0.3
        x, y = (0.5 + random.uniform(-spread, spread, 2)) * size
        poses.append(
            Pose(
                centre=(float(x), float(y)),
                radius=share * short,
                tilt=random.uniform(0.65, 1.0),
                axis=random.uniform(0, math.pi),
                turn=random.uniform(0, 2 * math.pi),
                light=random.uniform(0, 2 * math.pi),
            )
        )
    return poses


def _behind(size: tuple[int, int], poses: list[Pose], random: Random) -> Image.Image:
    """The background, out of focus, with other flowers in it now and then."""
    coarse = (size[0] // meadow.COARSE, size[1] // meadow.COARSE)
    picture = meadow.background(coarse, random)
    drawing = ImageDraw.Draw(picture)
    for _ in range(int(pick(random, {"0": 6, "1": 3, "2": 1}))):
        x, y = random.uniform(0, 1, 2) * coarse
        far = Pose((float(x), float(y)), random.uniform(0.05, 0.16) * coarse[1])
        _PAINTERS[KINDS[random.randint(len(KINDS))]](drawing, far, random)
    picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0.3, 1.4)))
    scale = 1 / meadow.COARSE
    small = [
        Pose(
            (pose.centre[0] * scale, pose.centre[1] * scale), pose.radius * scale, light=pose.light
        )
        for pose in poses
    ]
    meadow.shadows(picture, small, random)
    return picture.resize(size, Image.Resampling.BICUBIC)


def _paint(
    drawing: ImageDraw.ImageDraw, kind: str, pose: Pose, size: tuple[int, int], random: Random
) -> None:
    """One flower on its stem; a few leaves behind the blossom."""
    meadow.stem(drawing, pose.centre, size, random)
    for _ in range(random.randint(0, 3)):
        length = pose.radius * random.uniform(0.9, 1.6)
        meadow.leaf(
            drawing,
            np.array(pose.centre),
            length,
            length * random.uniform(0.25, 0.6),
            random.uniform(0, 2 * math.pi),
            random,
        )
    _PAINTERS[kind](drawing, pose, random)


def _before(
    drawing: ImageDraw.ImageDraw, pose: Pose, size: tuple[int, int], random: Random
) -> None:
    """Leaves and blades that hide a part of the blossom."""
    for _ in range(int(pick(random, {"0": 7, "1": 2, "2": 1}))):
        length = random.uniform(0.4, 1.1) * size[1]
        foot = np.array([pose.centre[0] + random.normal(0, 1.2) * pose.radius, size[1] * 1.02])
        angle = random.normal(-math.pi / 2, 0.3)
        width = length * random.uniform(0.03, 0.16)
        meadow.leaf(drawing, foot, length, width, angle, random)


def write_flowers(
    out_dir: Path,
    *,
    per_class: int = 120,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Drawn:
    """Draws `per_class` pictures of every kind as `out_dir`/KIND/KIND_0000.jpg.

    Args:
      out_dir: the directory to make; class folders in it.
      per_class: pictures of a kind.
      seed: pictures of another seed are other pictures; the same seed gives the same bytes.
      overwrite: whether an `out_dir` that is already there may be replaced.
      progress: told of every picture.

    Raises:
      UsageError: no picture is asked for.
      OutputExistsError: `out_dir` is there and `overwrite` is off, or it holds other files.
    """
    refuse_count(per_class, at_least=1)
    own = "|".join(rf"{kind}/{kind}_\d+\.jpg" for kind in KINDS)
    refuse_foreign_files(out_dir, own, "drawn flowers")
    jobs = [(kind, index) for kind in KINDS for index in range(per_class)]

    def one(job: tuple[str, int]) -> bytes:
        kind, index = job
        return encoded(draw(kind, seed * 1_000_003 + index), index)

    with (
        atomic_directory(out_dir, overwrite) as folder,
        progress.task("Drawing flowers", len(jobs), "pictures") as task,
        # Pillow and numpy let go of the interpreter's lock in their longer loops.
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for kind in KINDS:
            (folder / kind).mkdir()
        for (kind, index), data in zip(jobs, pool.map(one, jobs), strict=True):
            (folder / kind / f"{kind}_{index:04d}.jpg").write_bytes(data)
            task.advance()
    return Drawn(out_dir, KINDS, len(jobs))


def encoded(picture: Image.Image, index: int) -> bytes:
    """A JPEG; the quality goes with the picture's number, 72 to 95."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=72 + index * 7 % 24)
    return stream.getvalue()
