"""The files of the small base that ships with slimtune: checkpoint, class names, how it was made."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import checkpoints
from checkpoints.files import atomic_directory, write_json, write_text
from finetune.sample import shapes
from finetune.sample.pretrain import DEPTH_MULTIPLIER, IMAGE_SIZE, Pretrained, Recipe

BASE_DIR = Path(__file__).parent / "base"
PREFIX = "model.ckpt"
_AVERAGES = ("moving_mean", "moving_variance")


def is_average(name: str) -> bool:
    """Whether a variable is one of batch norm's moving averages, by its name."""
    return name.rsplit("/", 1)[-1] in _AVERAGES


def as_shipped(name: str, values: NDArray[np.float32]) -> NDArray[np.generic]:
    """Weights as float16; the averages of batch norm, whose range is wider, as float32."""
    if is_average(name):
        return values.astype(np.float32)
    return values.astype(np.float16)


def write_base(out_dir: Path, made: Pretrained, recipe: Recipe, *, overwrite: bool = False) -> None:
    """Writes a pretrained base.

    Args:
      out_dir: the directory to make: model.ckpt.index, model.ckpt.data-00000-of-00001,
        labels.txt (a kind a line, in the order of the logits) and base.json.
      made: the variables and their score.
      recipe: how they were made.
      overwrite: whether an `out_dir` that is already there may be replaced.

    Raises:
      OutputExistsError: `out_dir` is there and `overwrite` is off.
    """
    packages = ("tensorflow", "tf-slim", "tf-keras", "numpy", "pillow")
    parameters = sum(v.size for name, v in made.variables.items() if not is_average(name))
    with atomic_directory(out_dir, overwrite) as folder:
        shipped = {name: as_shipped(name, values) for name, values in made.variables.items()}
        checkpoints.write(folder / PREFIX, shipped)
        write_text(folder / "labels.txt", "".join(f"{kind}\n" for kind in shapes.KINDS))
        write_json(
            folder / "base.json",
            {
                "net": "inception_v3_sample",
                "image_size": IMAGE_SIZE,
                "depth_multiplier": DEPTH_MULTIPLIER,
                "parameters": parameters,
                "classes": len(shapes.KINDS),
                "pictures": recipe.per_kind * len(shapes.KINDS),
                "steps": recipe.steps,
                "held_out_pictures": recipe.held_out * len(shapes.KINDS),
                "held_out_accuracy": round(made.accuracy, 4),
                "seconds": round(made.seconds),
                "recipe": dataclasses.asdict(recipe),
                "versions": {
                    "python": platform.python_version(),
                    **{name: importlib.metadata.version(name) for name in packages},
                },
            },
        )
