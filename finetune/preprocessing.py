"""How a picture becomes the net's input: one description for training, evaluation, prediction, export.

The kinds are a table of modules with two functions on TensorFlow tensors:

    training(encoded, preprocessing, seed, augment, boxes) -> [size, size, channels] float32
    evaluation(image, preprocessing) -> [size, size, channels] float32

A kind that distorts nothing has no `training`: its pictures are those of evaluation. Each has
VALUE_RANGE, the lowest and highest value that either gives; where these depend on the size,
a function value_range(preprocessing) in its place. A kind that gives another number of channels
than 3 says it as CHANNELS. The formulas stand in docs/preprocessing.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import UnsupportedError, UsageError, near_names

KINDS: dict[str, str] = {
    "inception": "finetune.pixels.inception",
    "vgg": "finetune.pixels.vgg",
    "lenet": "finetune.pixels.lenet",
    "cifar": "finetune.pixels.cifar",
    "grey": "finetune.pixels.grey",
    "none": "finetune.pixels.none",
    "unit": "finetune.pixels.unit",
}
"""Kind -> the module that does it, loaded on use."""

AUGMENTS = ("full", "fast", "none")

MAX_SIZE = 4096
"""More pixels a side are refused: one picture of so many takes 201 MB as float32."""

_STORED = ("name", "image_size", "central_fraction")


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before the net sees it.

    Attributes:
      name: a kind: inception, vgg, lenet, cifar, grey, none or unit.
      image_size: height and width of the net's input, in pixels.
      central_fraction: share of height and width that evaluation by `inception` looks at.
    """

    name: str
    image_size: int
    central_fraction: float = 0.875

    def __post_init__(self) -> None:
        """Raises UsageError for a kind that does not exist or a size no net can have."""
        if self.name not in KINDS:
            near = near_names(self.name, list(KINDS))
            raise UsageError(
                f"There is no preprocessing {self.name!r}.",
                expected=f"one of {', '.join(KINDS)}",
                received=self.name,
                next_step=f"Did you mean {near[0]}?" if near else None,
            )
        if not 1 <= self.image_size <= MAX_SIZE or not 0 < self.central_fraction <= 1:
            raise UsageError(
                "The preprocessing's numbers are out of range.",
                expected=f"image_size from 1 to {MAX_SIZE} pixels, central_fraction above 0 and up to 1",
                received=f"image_size {self.image_size}, central_fraction {self.central_fraction}",
            )

    @property
    def channels(self) -> int:
        """Channels of the net's input: 3, RGB; of `grey` 1."""
        return int(getattr(self._kind(), "CHANNELS", 3))

    @property
    def value_range(self) -> tuple[float, float]:
        """The lowest and the highest value of the net's input."""
        kind = self._kind()
        lowest, highest = (
            kind.value_range(self) if hasattr(kind, "value_range") else kind.VALUE_RANGE
        )
        return float(lowest), float(highest)

    @property
    def shown_range(self) -> tuple[float, float]:
        """The values that are drawn black and white where a picture is shown."""
        lowest, highest = getattr(self._kind(), "SHOWN_RANGE", self.value_range)
        return float(lowest), float(highest)

    def training(self, encoded: Any, seed: Any, augment: str = "full", boxes: Any = None) -> Any:
        """A distorted view of one encoded picture; TensorFlow operations.

        Args:
          encoded: scalar string tensor, the bytes of a JPEG or PNG.
          seed: [2] int64 tensor; the same seed gives the same view.
          augment: "full", "fast" (cheaper: of `inception` one resize method, no hue, no
            contrast) or "none" (as evaluation). `lenet`, `grey`, `none` and `unit` distort nothing.
          boxes: [n, 4] float32 tensor of ymin, xmin, ymax, xmax in fractions that a crop has to
            show a part of, or None: the whole picture.

        Returns:
          [image_size, image_size, channels] float32 tensor, RGB or grey, in value_range.
        """
        if augment not in AUGMENTS:
            raise UsageError(
                f"There is no augmentation {augment!r}.",
                expected=f"one of {', '.join(AUGMENTS)}",
                received=augment,
            )
        kind = self._kind()
        if augment == "none" or not hasattr(kind, "training"):
            return self.evaluation(encoded)
        return kind.training(encoded, self, seed, augment, boxes)

    def evaluation(self, encoded: Any) -> Any:
        """What evaluation, prediction and export feed the net; TensorFlow operations.

        Args:
          encoded: scalar string tensor, the bytes of a JPEG or PNG.

        Returns:
          [image_size, image_size, channels] float32 tensor, RGB or grey, in value_range.
        """
        from finetune.pixels.decode import decode

        return self.evaluation_of_image(decode(encoded))

    def evaluation_of_image(self, image: Any) -> Any:
        """As `evaluation`, of a decoded picture.

        Args:
          image: [height, width, 3] tensor, RGB: uint8, or float32 in [0, 1].

        Returns:
          [image_size, image_size, channels] float32 tensor, RGB or grey, in value_range.
        """
        return self._kind().evaluation(image, self)

    def as_json(self) -> dict[str, Any]:
        """What is stored with a model; `range` and `channels` are there for other readers."""
        value: dict[str, Any] = {name: getattr(self, name) for name in _STORED}
        channels = "RGB" if self.channels == 3 else "grey"
        return {**value, "range": list(self.value_range), "channels": channels}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Preprocessing:
        """The description that `as_json` gave.

        Raises:
          UnsupportedError: it holds what this version does not know.
        """
        unknown = set(value) - {*_STORED, "range", "channels"}
        try:
            if unknown:
                raise KeyError(", ".join(sorted(unknown)))
            return Preprocessing(
                str(value["name"]),
                int(value["image_size"]),
                float(value.get("central_fraction", 0.875)),
            )
        except (KeyError, TypeError, ValueError, OverflowError, UsageError) as err:
            raise UnsupportedError(
                "The model's preprocessing is described in a way this version does not know.",
                expected=f"{', '.join(_STORED)}",
                received=dict(value),
                next_step="Install the slimtune that wrote the model, or a newer one.",
            ) from err

    def _kind(self) -> Any:
        return importlib.import_module(KINDS[self.name])
