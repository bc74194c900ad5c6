"""One picture file, cleaned: what TensorFlow decodes to three channels the right way up.

A JPEG that is grey or has three channels, needs no turning and decodes to its end is kept
byte for byte; so is an 8-bit grey or RGB PNG. Anything else is decoded by Pillow, brought to
three channels and encoded again: as PNG where the source was lossless, else as JPEG of
quality 95 with full-resolution chroma. The rules:

- EXIF orientation is applied to the pixels.
- Alpha, a transparent palette entry or a transparent colour is laid on white.
- 16-bit samples keep their high byte. 32-bit samples have no known range and are refused.
- CMYK becomes RGB by Pillow's formula; colour profiles are not applied.
- Of an animation or a file of several pages the first picture counts.
- What follows a JPEG's end is cut off.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.errors import NotFoundError
from finetune.cloud.paths import Place
from finetune.datasets.picture_formats import (
    PictureError,
    describe,
    find_png_end,
    read_jpeg_markers,
    webp_codec,
)

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

MAX_PIXELS = 178_956_970
"""Pictures of more pixels are refused: decoded, this many take 537 MB."""

MAX_BYTES = 1 << 30
"""Files of more bytes are refused before they are read."""

JPEG_QUALITY = 95

_SUFFIX_FORMATS = {
    ".jpg": ("JPEG", "MPO"),
    ".jpeg": ("JPEG", "MPO"),
    ".jpe": ("JPEG", "MPO"),
    ".jfif": ("JPEG", "MPO"),
    ".png": ("PNG",),
    ".gif": ("GIF",),
    ".bmp": ("BMP", "DIB"),
    ".webp": ("WEBP",),
    ".tif": ("TIFF",),
    ".tiff": ("TIFF",),
}

_MODE_NAMES = {
    "1": "1-bit to RGB",
    "L": "grey to RGB",
    "P": "palette to RGB",
}

_FORMAT_NAMES = {"PPM": "plain pixels"}
PIXELS_TO_PNG = "plain pixels to PNG"
"""The change of what has no format of its own, such as MNIST's digits."""

_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM", "AVIF")
_LOSSLESS = frozenset({"PNG", "GIF", "BMP", "DIB", "PPM"})

_DECODER_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
)
"""What Pillow's decoders answer broken bytes with."""

_EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True)
class CleanPicture:
    """A picture as it is stored in a record.

    Attributes:
      encoded: the bytes of a JPEG (one or three channels) or PNG (one or three channels, 8 bits).
      format: "jpeg" or "png", true to the bytes.
      height: in pixels, after turning.
      width: in pixels, after turning.
      changes: what was done to the source, in words that can be counted; empty for a copy.
    """

    encoded: bytes
    format: str
    height: int
    width: int
    changes: tuple[str, ...] = ()


def clean(source: bytes | str | Path, max_side: int | None = None) -> CleanPicture:
    """Reads one picture and makes it what a record may hold.

    Args:
      source: the picture's bytes, or the path of its file.
      max_side: a picture whose longer side exceeds this many pixels is shrunk to it
        (Lanczos), or None.

    Returns:
      The picture; TensorFlow's decode_jpeg or decode_png reads it as RGB, uint8.

    Raises:
      PictureError: it cannot be decoded to its end, is too large, or has no known range.
    """
    if isinstance(source, bytes):
        return clean_bytes("The picture", source, max_side)
    return clean_bytes(str(source), read_picture_file(Path(source)), max_side)


def clean_bytes(name: str, data: bytes, max_side: int | None = None) -> CleanPicture:
    """As `clean`, for the bytes of the file called `name`, which stands in messages.

    Raises:
      PictureError: as `clean`.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Pillow warns of odd metadata and of large pictures; the limit here is MAX_PIXELS.
            warnings.simplefilter("ignore")
            return _clean(name, data, max_side)
    except UnidentifiedImageError as err:
        raise PictureError(name, "not-a-picture", f"is {describe(data)}") from err
    except Image.DecompressionBombError as err:
        raise PictureError(name, "too-large", f"has more than {MAX_PIXELS} pixels") from err
    except MemoryError as err:
        raise PictureError(name, "too-large", "does not fit into memory") from err
    except _DECODER_ERRORS as err:
        if "truncated" in str(err).lower() or isinstance(err, EOFError):
            raise PictureError(name, "truncated", "is cut short: it ends early") from err
        raise PictureError(name, "damaged", f"cannot be decoded ({_reason(err)})") from err


def read_picture_file(path: Place) -> bytes:
    """The bytes of a file.

    Raises:
      PictureError: it has more than MAX_BYTES, or cannot be read.
    """
    try:
        if isinstance(path, Path) and path.exists() and not path.is_file():
            raise PictureError(str(path), "unreadable", "is no regular file")
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            data = file.read() if size <= MAX_BYTES else b""
    except FileNotFoundError as err:
        raise PictureError(str(path), "unreadable", "is not there") from err
    except NotFoundError as err:  # in cloud storage
        raise PictureError(str(path), "unreadable", f"cannot be read ({err.received})") from err
    except OSError as err:
        raise PictureError(
            str(path), "unreadable", f"cannot be read ({err.strerror or err})"
        ) from err
    if size > MAX_BYTES:
        raise PictureError(str(path), "too-large", f"has more than {MAX_BYTES} bytes")
    return data


def upright_size(path: Place) -> tuple[int, int] | None:
    """Height and width in pixels as the picture is stored, from the file's head alone.

    None where the head is no picture's; cleaning the file tells why.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with path.open("rb") as file, Image.open(file, formats=_known_formats()) as image:
                width, height = image.size
                return (width, height) if _orientation(image) >= 5 else (height, width)
    except (*_DECODER_ERRORS, Image.DecompressionBombError, NotFoundError, MemoryError):
        # Pillow asks for as much memory for a part of a PNG as the part says to have bytes.
        return None


def _reason(err: Exception) -> str:
    return str(err).strip().rstrip(".") or type(err).__name__


def _clean(name: str, data: bytes, max_side: int | None) -> CleanPicture:
    if not data:
        raise PictureError(name, "empty", "is empty (0 bytes)")
    from PIL import Image

    changes: list[str] = []
    jpeg = png_end = None
    if data.startswith(b"\xff\xd8\xff"):
        jpeg = read_jpeg_markers(name, data)
        data = _without_trailing(data, jpeg.end, "JPEG", changes)
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        png_end = find_png_end(name, data)
        data = _without_trailing(data, png_end, "PNG", changes)
    with Image.open(io.BytesIO(data), formats=_known_formats()) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(
                name,
                "too-large",
                f"has {width * height} pixels ({width} x {height}), more than {MAX_PIXELS}",
            )
        _note_wrong_suffix(name, image, changes)
        orientation = _orientation(image)
        if orientation == 1 and (max_side is None or max(width, height) <= max_side):
            if jpeg is not None and jpeg.is_plain and image.mode in ("L", "RGB"):
                # At an eighth of the size the whole of the coded data is still read.
                image.draft("L", (1, 1))
                image.load()
                return CleanPicture(data, "jpeg", height, width, tuple(changes))
            if png_end is not None and _is_plain_png(data, image):
                image.load()
                return CleanPicture(data, "png", height, width, tuple(changes))
        return _encode_again(name, data, image, orientation, max_side, changes)


def _known_formats() -> list[str]:
    from PIL import Image

    if any(known not in Image.OPEN for known in _FORMATS):
        Image.init()
    return [known for known in _FORMATS if known in Image.OPEN]


def _without_trailing(data: bytes, end: int, kind: str, changes: list[str]) -> bytes:
    if end == len(data):
        return data
    changes.append(f"bytes after the end of the {kind} cut off")
    return data[:end]


def _note_wrong_suffix(name: str, image: Image, changes: list[str]) -> None:
    suffix = Path(name).suffix.lower()
    promised = _SUFFIX_FORMATS.get(suffix)
    if promised is not None and image.format not in promised:
        changes.append(f"{image.format} named {suffix}")


def _is_plain_png(data: bytes, image: Image) -> bool:
    """Eight bits, grey or RGB, nothing transparent."""
    return data[24] == 8 and data[25] in (0, 2) and "transparency" not in image.info


def _orientation(image: Image) -> int:
    """EXIF orientation, 1 to 8; 1 where there is none or it is damaged."""
    if image.format == "TIFF":
        return 1  # Pillow turns the pixels of a TIFF while it decodes them.
    try:
        orientation = image.getexif().get(_EXIF_ORIENTATION, 1)
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, struct.error):
        return 1
    return orientation if orientation in range(1, 9) else 1


def _encode_again(
    name: str,
    data: bytes,
    image: Image,
    orientation: int,
    max_side: int | None,
    changes: list[str],
) -> CleanPicture:
    from PIL import Image as ImageModule

    source_format = "JPEG" if image.format == "MPO" else str(image.format)
    is_lossless = _is_lossless(data, image)
    image.load()
    # Further pictures of a JPEG stood behind its end.
    frames = 1 if source_format == "JPEG" else getattr(image, "n_frames", 1)
    # What a PGM file holds is what a grey PNG can hold.
    keeps_grey = source_format == "PPM" and image.mode == "L"
    pixels = image if keeps_grey else _three_channels(name, data, image, changes)
    if orientation != 1:
        pixels = pixels.transpose(_turn(orientation))
        changes.append(f"EXIF orientation {orientation} applied")
    if max_side is not None and max(pixels.size) > max_side:
        scale = max_side / max(pixels.size)
        size = (max(1, round(pixels.width * scale)), max(1, round(pixels.height * scale)))
        pixels = pixels.resize(size, ImageModule.Resampling.LANCZOS)
        changes.append("shrunk")
    if frames > 1:
        changes.append(f"first of several pictures in a {source_format}")
    target = "PNG" if is_lossless else "JPEG"
    if source_format != target:
        changes.append(f"{_FORMAT_NAMES.get(source_format, source_format)} to {target}")
    elif not changes:
        changes.append(f"{source_format} encoded again")
    # A new picture, so that no metadata (orientation, profile) is written again.
    bare = ImageModule.new(pixels.mode, pixels.size)
    bare.paste(pixels)
    buffer = io.BytesIO()
    if is_lossless:
        bare.save(buffer, "PNG")
    else:
        bare.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling="4:4:4")
    return CleanPicture(buffer.getvalue(), target.lower(), bare.height, bare.width, tuple(changes))


def _turn(orientation: int) -> Transpose:
    """The operation that sets a picture of this EXIF orientation upright."""
    from PIL.Image import Transpose

    return {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }[orientation]


def _three_channels(name: str, data: bytes, image: Image, changes: list[str]) -> Image:
    """The decoded picture as 8-bit RGB."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        if image.format == "PNG" and data[24] == 16:
            changes.append("16-bit to 8-bit")
        return image
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        from PIL import Image as ImageModule

        changes.append("alpha laid on white")
        with_alpha = image.convert("RGBA")
        white = ImageModule.new("RGB", image.size, (255, 255, 255))
        white.paste(with_alpha, mask=with_alpha.getchannel("A"))
        return white
    if mode == "I" or mode.startswith("I;16"):
        changes.append("16-bit to 8-bit")
        return _high_bytes(name, image).convert("RGB")
    if mode == "F":
        raise PictureError(name, "unsupported", "has samples of 32 bits, whose range is unknown")
    changes.append(_MODE_NAMES.get(mode, f"{mode} to RGB"))
    return image.convert("RGB")


def _high_bytes(name: str, image: Image) -> Image:
    """A grey 16-bit picture as 8-bit: the high byte of each sample."""
    import numpy as np
    from PIL import Image as ImageModule

    samples = np.asarray(image)
    if samples.size and (samples.min() < 0 or samples.max() > 0xFFFF):
        raise PictureError(name, "unsupported", "has samples of 32 bits, whose range is unknown")
    return ImageModule.fromarray((samples >> 8).astype(np.uint8))


def _is_lossless(data: bytes, image: Image) -> bool:
    """Whether the source kept every pixel, so that the copy has to."""
    if image.format == "TIFF":
        return "jpeg" not in str(image.info.get("compression", "")) and (
            image.info.get("compression") != "webp"
        )
    if image.format == "WEBP":
        return webp_codec(data) == b"VP8L"
    return image.format in _LOSSLESS
