"""One picture file, cleaned: what is copied, what is changed and how, what is refused."""

from __future__ import annotations

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from finetune.datasets.picture_formats import PictureError
from finetune.datasets.pictures import MAX_PIXELS, clean


def pixels(height=21, width=30, seed=0):
    """Smooth colours with some noise, [height, width, 3] uint8."""
    rows, columns = np.mgrid[0:height, 0:width]
    smooth = np.stack([rows * 8, columns * 6, (rows + columns) * 4], -1) % 256
    noise = np.random.default_rng(seed).integers(-9, 10, smooth.shape)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(picture):
    return np.asarray(Image.open(io.BytesIO(picture.encoded)))


RGB = Image.fromarray(pixels())


@pytest.mark.parametrize(
    "data",
    [
        encode(RGB, "JPEG"),
        encode(RGB.convert("L"), "JPEG"),
        encode(RGB, "JPEG", progressive=True),
        encode(RGB, "JPEG", subsampling="4:4:4", restart_marker_blocks=2),
        encode(RGB, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"),
    ],
    ids=["rgb", "grey", "progressive", "restarts", "empty-exif"],
)
def test_a_sound_jpeg_is_copied_byte_for_byte(data):
    picture = clean(data)
    assert picture.encoded == data
    assert (picture.format, picture.height, picture.width) == ("jpeg", 21, 30)
    assert picture.changes == ()


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_plain_png_is_copied_byte_for_byte(mode):
    data = encode(RGB.convert(mode), "PNG")
    picture = clean(data)
    assert (picture.encoded, picture.format, picture.changes) == (data, "png", ())


def test_a_path_and_bytes_give_the_same(tmp_path):
    data = encode(RGB.convert("P"), "PNG")
    path = tmp_path / "a[1] 花.png"
    path.write_bytes(data)
    assert clean(path) == clean(str(path)) == clean(data)


JPEG = encode(RGB.resize((120, 90)), "JPEG")


@pytest.mark.parametrize(
    ("data", "kind", "detail"),
    [
        (JPEG[: len(JPEG) * 2 // 3], "truncated", "cut short: the JPEG has no end marker"),
        (b"", "empty", "is empty (0 bytes)"),
        (b"not a picture\n" * 9, "not-a-picture", "is text, not a picture"),
        ("花是花".encode() * 99, "not-a-picture", "is text, not a picture"),
        (b"<html><body>404</body>", "not-a-picture", "is a page of HTML or XML, not a picture"),
        (b"%PDF-1.7 ...", "not-a-picture", "is a PDF document, not a picture"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "not-a-picture", "is a HEIC picture, which is not read"),
        (bytes(range(128, 256)), "not-a-picture", "is no picture of a known format"),
        (encode(RGB, "PNG")[:-30], "truncated", "is cut short: the PNG has no end chunk"),
        (encode(RGB, "BMP")[:-30], "truncated", "is cut short: it ends early"),
        (encode(RGB, "GIF")[:-60], "truncated", "is cut short: it ends early"),
        (encode(RGB, "WEBP")[:90], "damaged", "cannot be decoded"),
        (encode(Image.fromarray(pixels()[..., 0].astype(np.float32)), "TIFF"), "unsupported",
         "has samples of 32 bits, whose range is unknown"),
        (encode(Image.fromarray(pixels()[..., 0].astype(np.int32) * 70000), "TIFF"), "unsupported",
         "has samples of 32 bits, whose range is unknown"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path, data, kind, detail):
    path = tmp_path / "rose.jpg"
    path.write_bytes(data)
    with pytest.raises(PictureError) as caught:
        clean(path)
    assert caught.value.kind == kind
    assert detail in caught.value.detail
    assert caught.value.message == f"{path}: {caught.value.detail}."


def test_a_png_with_a_flipped_byte_is_refused():
    data = bytearray(encode(RGB, "PNG"))
    data[data.index(b"IDAT") + 20] ^= 1
    with pytest.raises(PictureError, match="the PNG's IDAT has a wrong checksum"):
        clean(bytes(data))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PictureError, match=r"gone\.jpg: is not there"):
        clean(tmp_path / "gone.jpg")


def test_garbage_behind_a_jpeg_is_cut_off():
    picture = clean(JPEG + b"\0\0garbage\xff\xd9")
    assert picture.encoded == JPEG
    assert picture.changes == ("bytes after the end of the JPEG cut off",)


def test_an_end_marker_inside_a_thumbnail_does_not_end_the_jpeg():
    exif = b"Exif\0\0" + encode(RGB.resize((8, 8)), "JPEG")
    data = encode(RGB, "JPEG", exif=exif)
    assert data.count(b"\xff\xd9") == 2
    assert clean(data).encoded == data


def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    for width in (13_378, 60_000):
        header = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
        data = b"\x89PNG\r\n\x1a\n" + b"".join(
            [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b"")]
        )
        assert width * width > MAX_PIXELS
        with pytest.raises(PictureError) as caught:
            clean(data)
        assert caught.value.kind == "too-large"
        assert str(MAX_PIXELS) in caught.value.detail


LOSSLESS = [("PNG", {}), ("GIF", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})]


@pytest.mark.parametrize(("kind", "options"), LOSSLESS, ids=[kind for kind, _ in LOSSLESS])
def test_other_lossless_formats_named_jpg_become_png_pixel_for_pixel(tmp_path, kind, options):
    path = tmp_path / "flower.jpg"
    path.write_bytes(encode(RGB, kind, **options))
    source = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB"))
    picture = clean(path)
    assert picture.format == "png"
    assert picture.encoded.startswith(b"\x89PNG")
    assert np.array_equal(decoded(picture), source)
    assert f"{kind} named .jpg" in picture.changes


@pytest.mark.parametrize(
    ("kind", "options"), [("WEBP", {"quality": 90}), ("TIFF", {"compression": "jpeg"})]
)
def test_other_lossy_formats_become_jpeg(tmp_path, kind, options):
    path = tmp_path / "flower.jpg"
    path.write_bytes(encode(RGB, kind, **options))
    source = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB")).astype(int)
    picture = clean(path)
    assert picture.format == "jpeg"
    assert picture.encoded.startswith(b"\xff\xd8\xff")
    assert np.abs(decoded(picture).astype(int) - source).mean() < 2
    assert picture.changes == (f"{kind} named .jpg", f"{kind} to JPEG")


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_of_several_pictures_the_first_counts(kind):
    frames = [Image.new("RGB", (9, 7), colour) for colour in ("red", "green", "blue")]
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:])
    picture = clean(data)
    assert f"first of several pictures in a {kind}" in picture.changes
    assert np.abs(decoded(picture).astype(int) - (255, 0, 0)).max() < 3


def test_cmyk_becomes_rgb():
    data = encode(RGB.convert("CMYK"), "JPEG", quality=100)
    picture = clean(data)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert picture.format == "jpeg"
    assert picture.changes == ("CMYK to RGB",)
    assert np.abs(decoded(picture).astype(int) - expected).mean() < 4


def with_alpha(mode):
    """Left half opaque, right half transparent."""
    image = RGB.convert("L" if mode == "LA" else "RGB").convert(mode)
    alpha = np.zeros((21, 30), np.uint8)
    alpha[:, :15] = 255
    image.putalpha(Image.fromarray(alpha))
    return image


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_laid_on_white(mode):
    picture = clean(encode(with_alpha(mode), "PNG"))
    found = decoded(picture)
    assert found.shape == (21, 30, 3)
    assert (found[:, 15:] == 255).all()
    source = np.asarray(RGB.convert("L").convert("RGB") if mode == "LA" else RGB)
    assert np.array_equal(found[:, :15], source[:, :15])
    assert picture.changes == ("alpha laid on white",)


def test_half_transparent_pixels_are_mixed_with_white():
    picture = clean(encode(Image.new("RGBA", (3, 2), (100, 0, 200, 51)), "PNG"))
    # 255 + 51 / 255 * (100 - 255) and so on
    assert (decoded(picture) == (224, 204, 244)).all()


def test_a_transparent_palette_entry_or_colour_is_laid_on_white():
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putpixel((0, 0), 0)
    found = decoded(clean(encode(palette, "PNG", transparency=0)))
    assert tuple(found[0, 0]) == (255, 255, 255)
    assert tuple(found[1, 1]) == (200, 100, 50)
    colour = Image.new("RGB", (4, 4), (1, 2, 3))
    found = decoded(clean(encode(colour, "PNG", transparency=(1, 2, 3))))
    assert (found == 255).all()


def test_a_palette_becomes_its_colours():
    source = RGB.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
    picture = clean(encode(source, "PNG"))
    assert np.array_equal(decoded(picture), np.asarray(source.convert("RGB")))
    assert picture.changes == ("palette to RGB",)


def test_16_bits_keep_their_high_byte():
    samples = (np.arange(600).reshape(20, 30) * 109).astype(np.uint16)
    for kind in ("PNG", "TIFF"):
        picture = clean(encode(Image.fromarray(samples), kind))
        assert np.array_equal(decoded(picture)[..., 0], samples >> 8)
        assert decoded(picture).shape == (20, 30, 3)
        assert "16-bit to 8-bit" in picture.changes


def test_one_bit_becomes_black_and_white():
    source = RGB.convert("1")
    picture = clean(encode(source, "PNG"))
    assert np.array_equal(decoded(picture), np.asarray(source.convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_orientation_is_applied_to_the_pixels(kind, orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(RGB, kind, exif=exif)
    picture = clean(data)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert np.array_equal(decoded(picture), np.asarray(upright))
    assert (picture.height, picture.width) == upright.size[::-1]
    # Nobody turns it a second time.
    assert Image.open(io.BytesIO(picture.encoded)).getexif().get(0x0112, 1) == 1


def test_a_jpeg_of_8_by_12_with_orientation_6_is_stored_as_12_by_8():
    halves = np.zeros((8, 12, 3), np.uint8)
    halves[:, :6] = 250
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = clean(encode(Image.fromarray(halves), "JPEG", quality=95, exif=exif))
    assert (picture.height, picture.width) == (12, 8)
    # Orientation 6: the stored left side is the top.
    assert decoded(picture)[:4].min() > 200
    assert decoded(picture)[8:].max() < 50
    assert picture.changes == ("EXIF orientation 6 applied",)


def test_damaged_exif_is_no_reason_to_refuse():
    data = encode(RGB, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f" + b"\xff" * 20)
    assert clean(data).encoded == data


def test_larger_pictures_are_shrunk_smaller_ones_are_not():
    picture = clean(JPEG, max_side=40)
    assert (picture.height, picture.width) == (30, 40)
    assert picture.format == "jpeg"
    assert picture.changes == ("shrunk",)
    assert clean(JPEG, max_side=120).encoded == JPEG
    narrow = clean(encode(Image.new("RGB", (1000, 2)), "PNG"), max_side=50)
    assert (narrow.height, narrow.width, narrow.format) == (1, 50, "png")


def broken_variants(seed, count):
    """Sources of every format with bytes changed, cut or put in."""
    chance = random.Random(seed)
    sources = [
        encode(RGB, "JPEG"),
        encode(RGB, "JPEG", progressive=True),
        encode(RGB.convert("L"), "JPEG"),
        encode(RGB, "PNG"),
        encode(RGB.convert("P"), "PNG"),
        encode(RGB, "GIF"),
        encode(RGB, "BMP"),
        encode(RGB, "TIFF"),
        encode(RGB, "WEBP"),
        encode(RGB, "WEBP", lossless=True),
    ]
    for _ in range(count):
        data = bytearray(chance.choice(sources))
        for _ in range(chance.choice((1, 2, 5))):
            place = chance.randrange(len(data))
            if chance.random() < 0.8:
                data[place] = chance.randrange(256)
            else:
                del data[max(place, 2) :]
        yield bytes(data)


@pytest.mark.tensorflow
def test_tensorflow_decodes_whatever_is_stored():
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    stored = 0
    for data in broken_variants(seed=3, count=400):
        try:
            picture = clean(data)
        except PictureError:
            continue
        decode = tf.io.decode_jpeg if picture.format == "jpeg" else tf.io.decode_png
        assert decode(picture.encoded, channels=3).shape == (picture.height, picture.width, 3)
        stored += 1
    assert stored > 50


@pytest.mark.tensorflow
def test_tensorflow_sees_the_pixels_pillow_sees():
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    for data in (encode(RGB, "PNG"), encode(RGB.convert("L"), "PNG"), encode(RGB, "BMP")):
        picture = clean(data)
        seen = tf.io.decode_png(picture.encoded, channels=3).numpy()
        assert np.array_equal(seen, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
