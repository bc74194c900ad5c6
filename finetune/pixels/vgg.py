"""The VGG preprocessing: the shorter side resized, a crop, ImageNet's mean colour subtracted.

Source:
  Simonyan and Zisserman 2014, section 3.1; the sides 256 to 512 are TF-Slim's for 224 pixels
  and grow with the size of the net's input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.runtime import load_tensorflow
from finetune.pixels.decode import decode, resize_to
from finetune.pixels.frame import to_bytes_range

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

MEAN_RGB = (123.68, 116.779, 103.939)
VALUE_RANGE = (-123.68, 151.061)

_SHORTEST_SIDE = 256 / 224
_LONGEST_SHORT_SIDE = 512 / 224


def training(
    encoded: Any, preprocessing: Preprocessing, seed: Any, augment: str, boxes: Any
) -> Any:
    """A crop of the picture at a drawn scale, flipped half the time.

    Args:
      encoded: scalar string tensor, a JPEG or PNG.
      preprocessing: the size.
      seed: [2] int64 tensor.
      augment: "full", or "fast" (the scale is not drawn: the shorter side has 256/224 of the size).
      boxes: not used by this preprocessing.

    Returns:
      [size, size, 3] float32 tensor, RGB, 0 to 255 less the mean colour.
    """
    tf = load_tensorflow()
    size = preprocessing.image_size
    draws = tf.random.stateless_uniform([4], tf.cast(seed, tf.int64))
    shortest = round(_SHORTEST_SIDE * size)
    longest = round(_LONGEST_SHORT_SIDE * size) if augment == "full" else shortest
    side = shortest + tf.cast(draws[0] * (longest - shortest + 1), tf.int32)
    image = resize_shorter_side(tf.cast(decode(encoded), tf.float32), side)
    room = tf.cast(tf.shape(image)[:2] - size + 1, tf.float32)
    corner = tf.cast(draws[1:3] * room, tf.int32)
    image = tf.slice(image, tf.concat([corner, [0]], 0), [size, size, 3])
    image = tf.cond(draws[3] < 0.5, lambda: tf.reverse(image, [1]), lambda: image)
    return tf.ensure_shape(image - tf.constant(MEAN_RGB), [size, size, 3])


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The middle of the picture, its shorter side at 256/224 of the size.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: the size.

    Returns:
      [size, size, 3] float32 tensor, RGB, 0 to 255 less the mean colour.
    """
    tf = load_tensorflow()
    size = preprocessing.image_size
    image = resize_shorter_side(to_bytes_range(image), round(_SHORTEST_SIDE * size))
    corner = (tf.shape(image)[:2] - size) // 2
    image = tf.slice(image, tf.concat([corner, [0]], 0), [size, size, 3])
    return tf.ensure_shape(image - tf.constant(MEAN_RGB), [size, size, 3])


def resize_shorter_side(image: Any, side: Any) -> Any:
    """Bilinear; the ratio of height to width stays.

    Args:
      image: [height, width, 3] float32 tensor.
      side: the shorter side after, in pixels; a number or a scalar int32 tensor.
    """
    tf = load_tensorflow()
    shape = tf.cast(tf.shape(image)[:2], tf.float32)
    scale = tf.cast(side, tf.float32) / tf.reduce_min(shape)
    # A long side a hair below its exact value must not come out one pixel short.
    target = tf.maximum(tf.cast(tf.round(shape * scale), tf.int32), side)
    return resize_to(image, target)
