"""The Inception preprocessing: distorted crops and colours for training, the centre for evaluation.

Source:
  Szegedy et al. 2014, section 6, and Howard 2013; orders and numbers are TF-Slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from exporters.runtime import load_tensorflow
from finetune.pixels.decode import RESIZE_METHODS, decode_crop, resize

if TYPE_CHECKING:
    from finetune.preprocessing import Preprocessing

VALUE_RANGE = (-1.0, 1.0)

MAX_BRIGHTNESS = 32.0 / 255.0
SATURATION = (0.5, 1.5)
MAX_HUE = 0.2
CONTRAST = (0.5, 1.5)

COLOUR_ORDERS = (
    ("brightness", "saturation", "hue", "contrast"),
    ("saturation", "brightness", "contrast", "hue"),
    ("contrast", "hue", "brightness", "saturation"),
    ("hue", "saturation", "contrast", "brightness"),
)
"""One is drawn for each picture."""

FAST_COLOUR_ORDERS = (("brightness", "saturation"), ("saturation", "brightness"))

_DRAWS = 7
# The crop and the other choices are drawn from two keys: pipelines number records by even keys.
_CHOICES = (0, 1)


def training(
    encoded: Any, preprocessing: Preprocessing, seed: Any, augment: str, boxes: Any
) -> Any:
    """A distorted view: crop, resize by a drawn method, flip, colours in a drawn order.

    Args:
      encoded: scalar string tensor, a JPEG or PNG.
      preprocessing: the size.
      seed: [2] int64 tensor.
      augment: "full" or "fast" (bilinear alone, no hue, no contrast).
      boxes: [n, 4] float32 tensor or None.

    Returns:
      [size, size, 3] float32 tensor, RGB, in [-1, 1].
    """
    tf = load_tensorflow()
    seed = tf.cast(seed, tf.int64)
    size = preprocessing.image_size
    draws = tf.unstack(
        tf.random.stateless_uniform([_DRAWS], seed + tf.constant(_CHOICES, tf.int64))
    )
    crop = tf.image.convert_image_dtype(decode_crop(encoded, seed, boxes), tf.float32)
    methods = RESIZE_METHODS if augment == "full" else RESIZE_METHODS[:1]
    image = _choose(draws[0], [partial(resize, crop, size, method) for method in methods])
    image = tf.cond(draws[1] < 0.5, lambda: tf.reverse(image, [1]), lambda: image)
    orders = COLOUR_ORDERS if augment == "full" else FAST_COLOUR_ORDERS
    image = _choose(
        draws[2], [partial(distort_colours, image, order, draws[3:]) for order in orders]
    )
    return tf.ensure_shape(to_range(tf.clip_by_value(image, 0.0, 1.0)), [size, size, 3])


def _choose(draw: Any, branches: Sequence[Callable[[], Any]]) -> Any:
    """Runs one of the branches; `draw` is a scalar tensor, uniform in [0, 1)."""
    if len(branches) == 1:
        return branches[0]()
    tf = load_tensorflow()
    return tf.switch_case(tf.cast(draw * len(branches), tf.int32), list(branches))


def distort_colours(image: Any, order: Sequence[str], draws: Sequence[Any]) -> Any:
    """Changes brightness, saturation, hue and contrast in the order given.

    Args:
      image: [height, width, 3] float32 tensor, RGB, in [0, 1].
      order: names of the changes.
      draws: four scalar tensors, uniform in [0, 1): for brightness, saturation, hue, contrast.

    Returns:
      [height, width, 3] float32 tensor; may leave [0, 1].
    """
    tf = load_tensorflow()
    brightness, saturation, hue, contrast = draws
    changes: dict[str, Callable[[Any], Any]] = {
        "brightness": lambda image: tf.image.adjust_brightness(
            image, _between(brightness, -MAX_BRIGHTNESS, MAX_BRIGHTNESS)
        ),
        "saturation": lambda image: tf.image.adjust_saturation(
            image, _between(saturation, *SATURATION)
        ),
        "hue": lambda image: tf.image.adjust_hue(image, _between(hue, -MAX_HUE, MAX_HUE)),
        "contrast": lambda image: tf.image.adjust_contrast(image, _between(contrast, *CONTRAST)),
    }
    for name in order:
        image = changes[name](image)
    return image


def _between(draw: Any, low: float, high: float) -> Any:
    return low + draw * (high - low)


def evaluation(image: Any, preprocessing: Preprocessing) -> Any:
    """The centre of the picture, resized.

    Args:
      image: [height, width, 3] tensor, RGB, uint8 or float32 in [0, 1].
      preprocessing: size and central fraction.

    Returns:
      [size, size, 3] float32 tensor, RGB, in [-1, 1].
    """
    tf = load_tensorflow()
    size = preprocessing.image_size
    # The crop comes first: fewer pixels to convert, and the same values.
    image = tf.image.central_crop(image, preprocessing.central_fraction)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.ensure_shape(to_range(resize(image, size)), [size, size, 3])


def to_range(image: Any) -> Any:
    """[0, 1] to [-1, 1]."""
    tf = load_tensorflow()
    return tf.multiply(tf.subtract(image, 0.5), 2.0)
