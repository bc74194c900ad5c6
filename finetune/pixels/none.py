"""No preprocessing but the size: the whole picture, values as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from finetune.pixels.decode import resize
from finetune.pixels.frame import to_bytes_range

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

VALUE_RANGE = (0.0, 255.0)


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The whole picture; bilinear to the size, which leaves a picture of that size alone.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: the size.

    Returns:
      [size, size, 3] float32 tensor, RGB, in [0, 255].
    """
    return resize(to_bytes_range(image), preprocessing.image_size)
