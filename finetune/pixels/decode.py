"""Encoded bytes to pixels, whole or cropped, and TensorFlow 1's resize kernels."""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow

RESIZE_METHODS = ("bilinear", "nearest", "bicubic", "area")
"""In the order in which they are numbered: 0 bilinear, 1 nearest, 2 bicubic, 3 area."""

WHOLE_PICTURE = (0.0, 0.0, 1.0, 1.0)
"""The box of a picture that has none: ymin, xmin, ymax, xmax."""


def decode(encoded: Any) -> Any:
    """A JPEG's, PNG's, GIF's (first frame) or BMP's pixels.

    Args:
      encoded: scalar string tensor.

    Returns:
      [height, width, 3] uint8 tensor, RGB; a grey picture has three equal channels.
    """
    tf = load_tensorflow()
    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    return tf.ensure_shape(image, [None, None, 3])


def decode_crop(encoded: Any, seed: Any, boxes: Any = None) -> Any:
    """A random part of a picture; of a JPEG nothing else is decoded.

    The part covers at least a tenth of a box, has an aspect ratio (width / height) of 0.75 to
    1.33 and 5 % to 100 % of the picture's area.

    Args:
      encoded: scalar string tensor.
      seed: [2] int64 tensor.
      boxes: [n, 4] float32 tensor, ymin, xmin, ymax, xmax in fractions; None: the whole picture.

    Returns:
      [height, width, 3] uint8 tensor, RGB.

    Source:
      Szegedy et al. 2014, section 6 (the sampling of patches); the numbers are TF-Slim's.
    """
    tf = load_tensorflow()

    def of_jpeg() -> Any:
        shape = tf.io.extract_jpeg_shape(encoded)
        begin, size = sample_crop(shape, seed, boxes)
        # The colours of a crop's outer columns want the columns beside them: one more is
        # decoded on either side, so that the crop has the pixels it has in the whole picture.
        left = tf.maximum(begin[1] - 1, 0)
        right = tf.minimum(begin[1] + size[1] + 1, shape[1])
        window = tf.stack([begin[0], left, size[0], right - left])
        wider = tf.io.decode_and_crop_jpeg(encoded, window, channels=3)
        return tf.slice(wider, [0, begin[1] - left, 0], [-1, size[1], -1])

    def of_other() -> Any:
        image = decode(encoded)
        begin, size = sample_crop(tf.shape(image), seed, boxes)
        return tf.slice(image, begin, size)

    image = tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_other)
    return tf.ensure_shape(image, [None, None, 3])


def sample_crop(shape: Any, seed: Any, boxes: Any = None) -> tuple[Any, Any]:
    """Where the random part lies.

    Args:
      shape: [3] int32 tensor: height, width, channels.
      seed: as for `decode_crop`.
      boxes: as for `decode_crop`.

    Returns:
      begin [y, x, 0] and size [height, width, -1], [3] int32 tensors as tf.slice takes them.
    """
    tf = load_tensorflow()
    if boxes is None:
        boxes = tf.constant([WHOLE_PICTURE], tf.float32)
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        boxes[tf.newaxis],
        seed=seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return begin, size


def resize(image: Any, size: int, method: str = "bilinear") -> Any:
    """Resizes by the kernels TensorFlow 1 had: no half-pixel centres, no antialiasing.

    Published weights were trained behind these; today's tf.image.resize gives other pixels.

    Args:
      image: [height, width, 3] float32 tensor.
      size: of both sides, in pixels.
      method: one of RESIZE_METHODS.

    Returns:
      [size, size, 3] float32 tensor; bicubic may leave the range of the input.
    """
    return resize_to(image, [size, size], method)


def resize_to(image: Any, size: Any, method: str = "bilinear") -> Any:
    """As `resize`, to [height, width], which may be a tensor."""
    tf = load_tensorflow()
    batch = image[tf.newaxis]
    if method == "area":
        resized = tf.raw_ops.ResizeArea(images=batch, size=size, align_corners=False)
    else:
        kernel = {
            "bilinear": tf.raw_ops.ResizeBilinear,
            "nearest": tf.raw_ops.ResizeNearestNeighbor,
            "bicubic": tf.raw_ops.ResizeBicubic,
        }[method]
        resized = kernel(images=batch, size=size, align_corners=False, half_pixel_centers=False)
    return resized[0]
