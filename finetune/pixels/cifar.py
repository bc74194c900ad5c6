"""The CIFAR preprocessing: a crop, each picture brought to mean 0 and standard deviation 1.

Source:
  Krizhevsky and Hinton 2009 (the pictures); margin and amounts are TF-Slim's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.runtime import load_tensorflow
from finetune.pixels.decode import decode
from finetune.pixels.frame import crop_or_pad, pad_to, to_bytes_range

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

MARGIN = 4
"""Pixels of black around the picture that a crop may show."""

MAX_BRIGHTNESS = 63.0
CONTRAST = (0.2, 1.8)

SHOWN_RANGE = (-2.5, 2.5)
"""Values that a sheet draws black and white; few pixels lie beyond."""


def value_range(preprocessing: Preprocessing) -> tuple[float, float]:
    """What one value of n can be when their mean is 0 and their standard deviation 1."""
    furthest = (3.0 * preprocessing.image_size**2 - 1.0) ** 0.5
    return -furthest, furthest


def training(
    encoded: Any, preprocessing: Preprocessing, seed: Any, augment: str, boxes: Any
) -> Any:
    """A drawn crop, flipped half the time, with drawn brightness and contrast, standardised.

    Args:
      encoded: scalar string tensor, a JPEG or PNG.
      preprocessing: the size.
      seed: [2] int64 tensor.
      augment: "full", or "fast": brightness and contrast stay, which standardising would all
        but undo.
      boxes: not used by this preprocessing.

    Returns:
      [size, size, 3] float32 tensor, RGB, mean 0, standard deviation 1.
    """
    tf = load_tensorflow()
    size = preprocessing.image_size
    draws = tf.random.stateless_uniform([5], tf.cast(seed, tf.int64))
    image = pad_to(to_bytes_range(decode(encoded)), size)
    image = tf.pad(image, [[MARGIN, MARGIN], [MARGIN, MARGIN], [0, 0]])
    room = tf.cast(tf.shape(image)[:2] - size + 1, tf.float32)
    corner = tf.cast(draws[:2] * room, tf.int32)
    image = tf.slice(image, tf.concat([corner, [0]], 0), [size, size, 3])
    image = tf.cond(draws[2] < 0.5, lambda: tf.reverse(image, [1]), lambda: image)
    if augment == "full":
        image = image + (2.0 * draws[3] - 1.0) * MAX_BRIGHTNESS
        low, high = CONTRAST
        image = tf.image.adjust_contrast(image, low + draws[4] * (high - low))
    return tf.ensure_shape(tf.image.per_image_standardization(image), [size, size, 3])


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The middle of the picture, padded with black where it is smaller, standardised.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: the size.

    Returns:
      [size, size, 3] float32 tensor, RGB, mean 0, standard deviation 1 (0 for one colour).
    """
    tf = load_tensorflow()
    image = crop_or_pad(to_bytes_range(image), preprocessing.image_size)
    return tf.image.per_image_standardization(image)
