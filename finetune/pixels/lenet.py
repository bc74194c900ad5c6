"""The LeNet preprocessing: the picture in a frame of the net's size, values around zero.

Source:
  TF-Slim's, for MNIST; it distorts nothing in training either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from finetune.pixels.frame import crop_or_pad, to_bytes_range

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

_HALF = 128.0
VALUE_RANGE = (-1.0, 127.0 / _HALF)


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The middle of the picture, padded with black where it is smaller; (value - 128) / 128.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: the size.

    Returns:
      [size, size, 3] float32 tensor, RGB, in [-1, 127/128].
    """
    image = crop_or_pad(to_bytes_range(image), preprocessing.image_size)
    return (image - _HALF) / _HALF
