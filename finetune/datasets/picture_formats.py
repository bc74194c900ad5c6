"""What a picture file is, from its bytes alone: heads, ends and codecs of the formats."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

from checkpoints.errors import DataError

PICTURE_SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".gif",
        ".bmp",
        ".dib",
        ".webp",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
        ".avif",
        ".mpo",
    ]
)
"""File names that promise a picture, in lower case; a file that has another is looked into."""

_PICTURE_HEADS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_OTHER_HEADS = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"8BPS", "a Photoshop file"),
    (b"\x00\x00\x01\x00", "an icon"),
)

# In a JPEG's coded data 0xFF is followed by 0x00 or a restart marker; anything else ends the scan.
_SCAN_END = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_HUFFMAN_FRAMES = (0xC0, 0xC1, 0xC2)


class PictureError(DataError):
    """A picture that cannot be used.

    Attributes:
      name: the file's path, or how else the picture is called.
      kind: empty, not-a-picture, truncated, damaged, too-large or unsupported.
      detail: the reason, without the file's name.
    """

    def __init__(self, name: str, kind: str, detail: str) -> None:
        """Says of the picture what is wrong with it."""
        super().__init__(
            f"{name}: {detail}.",
            expected="a picture that decodes to its end",
            next_step="Replace or remove the file.",
        )
        self.name = name
        self.kind = kind
        self.detail = detail


def begins_like_picture(head: bytes) -> bool:
    """Whether a file's first 16 bytes are those of a picture format."""
    return head.startswith(_PICTURE_HEADS) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def is_decoded_by_tensorflow(data: bytes) -> bool:
    """Whether a record's picture is of a format that tf.io.decode_image reads."""
    return begins_like_picture(data[:16]) and not data.startswith((b"II*\0", b"MM\0*"))


def describe(data: bytes) -> str:
    """What bytes that are no picture look like, for a message: "text, not a picture" ..."""
    if not data:
        return "empty (0 bytes)"
    for head, description in _OTHER_HEADS:
        if data.startswith(head):
            return f"{description}, not a picture"
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"mif1", b"heif"):
        return "a HEIC picture, which is not read"
    if begins_like_picture(data[:16]):
        return "a picture whose header is damaged"
    start = data[:512].lstrip()
    if start[:5].lower() in (b"<?xml", b"<svg ", b"<html", b"<!doc"):
        return "a page of HTML or XML, not a picture"
    try:
        text = start[:200].decode("utf-8", errors="strict" if len(start) <= 200 else "ignore")
    except UnicodeDecodeError:
        return "no picture of a known format"
    if text and all(character.isprintable() or character in "\r\n\t" for character in text):
        return "text, not a picture"
    return "no picture of a known format"


@dataclass(frozen=True)
class JpegMarkers:
    """What a JPEG's markers say.

    Attributes:
      end: the offset behind the end marker of the first picture.
      is_plain: Huffman-coded (baseline, extended or progressive), 8 bits a sample, one or
        three components: what every decoder reads.
    """

    end: int
    is_plain: bool


def read_jpeg_markers(name: str, data: bytes) -> JpegMarkers:
    """Walks the markers to the end of the first picture.

    Raises:
      PictureError: there is no end marker.

    Source:
      ITU-T T.81, annex B.
    """
    position = 2
    is_plain = False
    while True:
        while data[position : position + 2] == b"\xff\xff":
            position += 1
        if position + 2 > len(data) or data[position] != 0xFF:
            raise PictureError(name, "truncated", "is cut short: the JPEG has no end marker")
        marker = data[position + 1]
        if marker == 0xD9:
            return JpegMarkers(position + 2, is_plain)
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            position += 2
            continue
        (length,) = struct.unpack_from(">H", data.ljust(position + 4, b"\0"), position + 2)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            frame = data[position + 4 : position + 10]
            is_plain = (
                marker in _HUFFMAN_FRAMES
                and len(frame) == 6
                and frame[0] == 8
                and frame[5] in (1, 3)
            )
        position += 2 + length
        if marker == 0xDA:
            found = _SCAN_END.search(data, position)
            position = found.start() if found else len(data)


def find_png_end(name: str, data: bytes) -> int:
    """Where the PNG ends; the checksums of its critical chunks are compared on the way.

    Raises:
      PictureError: a checksum is wrong, or there is no end chunk.

    Source:
      W3C Portable Network Graphics specification, section 5.
    """
    position = 8
    while position + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        is_critical = not kind[0] & 0x20
        checksum = zlib.crc32(memoryview(data)[position + 4 : end - 4])
        if is_critical and checksum != int.from_bytes(data[end - 4 : end], "big"):
            chunk = kind.decode("ascii", "replace")
            raise PictureError(
                name, "damaged", f"cannot be decoded (the PNG's {chunk} has a wrong checksum)"
            )
        if kind == b"IEND":
            return end
        position = end
    raise PictureError(name, "truncated", "is cut short: the PNG has no end chunk")


def webp_codec(data: bytes) -> bytes:
    """The kind of the first coded picture: b"VP8L" (lossless), b"VP8 ", or b"" for none.

    Source:
      RFC 9649, section 2.
    """
    position = 12
    while position + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, position)
        if kind in (b"VP8L", b"VP8 "):
            return bytes(kind)
        # A frame of an animation has 16 bytes of its own before the chunks inside it.
        position += 24 if kind == b"ANMF" else 8 + length + length % 2
    return b""
