"""What several preprocessings share: floats of 0 to 255, and a frame of fixed size."""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow


def to_bytes_range(image: Any) -> Any:
    """float32 in [0, 255].

    Args:
      image: uint8, or float32 in [0, 1].
    """
    tf = load_tensorflow()
    return tf.cast(image, tf.float32) if image.dtype == tf.uint8 else image * 255.0


def crop_or_pad(image: Any, size: int) -> Any:
    """The middle of the picture; where it is smaller, zeros around it.

    Args:
      image: [height, width, 3] float32 tensor.
      size: height and width after.

    Returns:
      [size, size, 3] float32 tensor, as tf.image.resize_with_crop_or_pad gives it.
    """
    tf = load_tensorflow()
    image = pad_to(image, size)
    corner = (tf.shape(image)[:2] - size) // 2
    return tf.slice(image, tf.concat([corner, [0]], 0), [size, size, 3])


def pad_to(image: Any, size: int) -> Any:
    """Zeros around a picture that is smaller than `size` on a side; the odd one below or right."""
    tf = load_tensorflow()
    missing = tf.maximum(size - tf.shape(image)[:2], 0)
    before = missing // 2
    room = tf.stack([before, missing - before], 1)
    return tf.pad(image, tf.concat([room, [[0, 0]]], 0))
