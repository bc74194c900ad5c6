"""What records of pictures look like: the layouts that are read, a function each.

All are tf.train.Examples. Pixels without a format of their own become a PGM or PPM file.
Layouts: docs/formats/records.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from checkpoints.errors import DataError
from finetune.datasets.sources import Box

Features = Mapping[str, Sequence[bytes] | Sequence[int] | Sequence[float]]


class RecordedPicture(NamedTuple):
    """What a record says.

    Attributes:
      encoded: the bytes of a picture file.
      label: as it is stored: a number, or bytes that are a name or a number.
      text: the class's name, "" where the record has none.
      name: the picture's file, "" where the record does not say.
      boxes: where the thing is.
    """

    encoded: bytes
    label: int | bytes
    text: str = ""
    name: str = ""
    boxes: tuple[Box, ...] = ()


def read_layout(features: Features) -> RecordedPicture:
    """Reads a record by the layout its features have.

    Raises:
      DataError: they are of no layout, or do not fit together.
    """
    for required, read in LAYOUTS:
        if all(features.get(name) for name in required):
            return read(features)
    layouts = "; ".join(", ".join(required) for required, _ in LAYOUTS)
    raise DataError(
        f"has none of the layouts that are read ({layouts}); it has "
        f"{', '.join(sorted(features)) or 'nothing'}",
        next_step="Build the dataset from the pictures with slimtune data build.",
    )


def _encoded(features: Features) -> RecordedPicture:
    """TF-Slim's: a JPEG or PNG as it is."""
    sides = [features.get(f"image/object/bbox/{side}", ()) for side in Box._fields]
    if len({len(values) for values in sides}) != 1:
        raise DataError("has image/object/bbox of different lengths")
    if any(isinstance(value, bytes) for values in sides for value in values):
        raise DataError("has bytes as image/object/bbox; numbers are read")
    return RecordedPicture(
        _bytes(features, "image/encoded"),
        _whole(features, "image/class/label"),
        _text(features, "image/class/text"),
        _text(features, "image/filename"),
        tuple(Box(*(float(value) for value in box)) for box in zip(*sides, strict=True)),
    )


def _raw_image(features: Features) -> RecordedPicture:
    """MNIST of the notes: rows of bytes, and how many there are; or height, width and depth."""
    pixels = _bytes(features, "image_raw")
    if all(name in features for name in ("height", "width")):
        depth = _whole(features, "depth") if "depth" in features else 1
        shape = (_whole(features, "height"), _whole(features, "width"), depth)
    else:
        said = features.get("pixels", ())
        count = said[0] if len(said) == 1 else len(said)
        if said and count != len(pixels):
            raise DataError(f"has {len(pixels)} bytes in image_raw and {count!r} as pixels")
        side = math.isqrt(len(pixels))
        if side * side != len(pixels):
            raise DataError(
                f"has {len(pixels)} bytes in image_raw, which are no square, and no height and width"
            )
        shape = (side, side, 1)
    return RecordedPicture(_as_file(pixels, shape), _label(features))


def _shaped_image(features: Features) -> RecordedPicture:
    """The notes' second: the bytes of an array, and its shape as three int32."""
    shape = features["shape"]
    if isinstance(shape[0], bytes):
        if len(shape[0]) % 4:
            raise DataError(f"has {len(shape[0])} bytes as shape, which are no int32 values")
        shape = struct.unpack(f"<{len(shape[0]) // 4}i", shape[0])
    numbers = [value for value in shape if isinstance(value, int)]
    if len(numbers) < len(shape):
        raise DataError(f"has {list(shape)[:10]} as shape; whole numbers are read")
    return RecordedPicture(_as_file(_bytes(features, "image"), numbers), _label(features))


LAYOUTS: tuple[tuple[tuple[str, ...], Callable[[Features], RecordedPicture]], ...] = (
    (("image/encoded", "image/class/label"), _encoded),
    (("image_raw", "label"), _raw_image),
    (("image", "shape", "label"), _shaped_image),
)
"""The features that a record must have -> what reads it then."""


def class_numbers(labels: Sequence[bytes]) -> list[int] | None:
    """Labels stored as bytes, as numbers; None where all of them are text, and so names.

    Numbers are little-endian, of 1, 4 or 8 bytes.

    Raises:
      DataError: one is neither.
    """
    if all(_is_text(label) for label in labels):
        return None
    wrong = next((label for label in labels if len(label) not in (1, 4, 8)), None)
    if wrong is not None:
        raise DataError(
            f"has a label of {len(wrong)} bytes ({wrong[:8].hex(' ')})",
            expected="a class name in UTF-8, or a number of 1, 4 or 8 bytes",
        )
    return [int.from_bytes(label, "little", signed=len(label) > 1) for label in labels]


def _is_text(label: bytes) -> bool:
    try:
        text = label.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return bool(text) and text.isprintable()


def _as_file(pixels: bytes, shape: Sequence[int]) -> bytes:
    """Rows of uint8 values as a PGM (one channel) or PPM file (three)."""
    height, width, depth = (*shape, 1) if len(shape) == 2 else (*shape, 0, 0, 0)[:3]
    if len(shape) > 3 or min(height, width) < 1 or depth not in (1, 3):
        raise DataError(f"has a picture of the shape {list(shape)}; height, width, 1 or 3 are read")
    if height * width * depth != len(pixels):
        raise DataError(f"has {len(pixels)} bytes for a picture of the shape {list(shape)}")
    return b"P%d %d %d 255\n" % (6 if depth == 3 else 5, width, height) + pixels


def _label(features: Features) -> int | bytes:
    label = features["label"][0]
    if len(features["label"]) > 1 or isinstance(label, float):
        raise DataError(f"has {list(features['label'])[:10]} as label; one whole number is read")
    return label


def _bytes(features: Features, name: str) -> bytes:
    value = features[name][0]
    if not isinstance(value, bytes):
        raise DataError(f"has numbers as {name}; bytes are read")
    return value


def _whole(features: Features, name: str) -> int:
    value = features[name][0] if features[name] else None
    if not isinstance(value, int) or len(features[name]) > 1:
        raise DataError(f"has {list(features[name])[:10]} as {name}; one whole number is read")
    return value


def _text(features: Features, name: str) -> str:
    values = features.get(name) or (b"",)
    first = values[0]
    return first.decode("utf-8", "surrogateescape") if isinstance(first, bytes) else ""
