"""Grey values from 0 to 1 in one channel, as small nets for digits take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.runtime import load_tensorflow
from finetune.pixels.decode import resize
from finetune.pixels.frame import to_bytes_range

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

CHANNELS = 1
VALUE_RANGE = (0.0, 1.0)

_RED, _BLUE = 0.299, 0.114


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The luma of the whole picture; bilinear to the size, which leaves one of that size alone.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: the size.

    Returns:
      [size, size, 1] float32 tensor, 0 black to 1 white.

    Source:
      ITU-R BT.601 (0.299 red, 0.587 green, 0.114 blue).
    """
    tf = load_tensorflow()
    red, green, blue = tf.unstack(to_bytes_range(image), axis=-1)
    # Written with differences, so that equal channels give their own value to the last bit.
    grey = green + _RED * (red - green) + _BLUE * (blue - green)
    return resize(grey[..., tf.newaxis], preprocessing.image_size) * (1.0 / 255.0)
