"""Twenty faults planted in five hundred pictures: each is found, and nothing else is."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from finetune.datasets.check import check

CLASSES = ("daisy", "rose", "tulip", "花", "C++")
PER_CLASS = 100


def encode(number, kind="JPEG", mode="RGB", **options):
    """A picture of 8 x 8 that no other number has."""
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def path_of(number):
    return f"{CLASSES[number // PER_CLASS]}/{number % PER_CLASS}.jpg"


def plant(root):
    """Spoils twenty things; gives what has to be found: (kind, path)."""

    def read(name):
        return (root / name).read_bytes()

    half_png = encode(900, "PNG")
    flipped = bytearray(encode(901, "PNG"))
    flipped[60] ^= 0xFF
    # A header that promises 30,000 x 30,000 pixels.
    huge = encode(902, "BMP")
    huge = huge[:18] + (30_000).to_bytes(4, "little") * 2 + huge[26:]
    spoiled = {
        path_of(3): ("truncated", read(path_of(3))[: len(read(path_of(3))) * 2 // 3]),
        path_of(17): ("truncated", read(path_of(17))[:-2]),
        path_of(101): ("empty", b""),
        path_of(102): ("not-a-picture", b"see the other folder\n"),
        path_of(103): ("not-a-picture", b"<!DOCTYPE html><html>404</html>"),
        path_of(104): ("not-a-picture", b"PK\x03\x04" + bytes(100)),
        path_of(105): ("not-a-picture", bytes(1000)),
        path_of(201): ("trailing-bytes", read(path_of(201)) + b"garbage"),
        path_of(202): ("wrong-suffix", encode(903, "PNG")),
        path_of(203): ("wrong-suffix", encode(904, "GIF")),
        path_of(204): ("wrong-suffix", encode(905, "BMP")),
        path_of(205): ("wrong-suffix", encode(906, "WEBP")),
        path_of(206): ("wrong-suffix", encode(907, "TIFF")),
        "tulip/half.png": ("truncated", half_png[: len(half_png) // 2]),
        "tulip/flipped.png": ("damaged", bytes(flipped)),
        "tulip/huge.bmp": ("too-large", huge),
    }
    expected = []
    for name, (kind, data) in spoiled.items():
        (root / name).write_bytes(data)
        expected.append((kind, name))
    (root / "花/copy.jpg").write_bytes(read(path_of(30)))
    expected.append(("duplicate", path_of(30)))
    (root / "nothing").mkdir()
    expected.append(("empty-class", "nothing"))
    (root / "Rose").mkdir()
    (root / "Rose/1.jpg").write_bytes(encode(908))
    expected.append(("similar-classes", "Rose"))
    (root / "C++/gone.jpg").symlink_to(root / "nowhere.jpg")
    expected.append(("unreadable", "C++/gone.jpg"))
    return expected


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "flowers"
    for number in range(len(CLASSES) * PER_CLASS):
        path = root / path_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(number))
    return root


def test_all_twenty_are_found_and_nothing_else(pictures):
    assert check(pictures).problems == []
    expected = plant(pictures)
    assert len(expected) == 20
    result = check(pictures)
    found = [(item.kind, item.path.removeprefix(f"{pictures}/")) for item in result.problems]
    assert sorted(found) == sorted(expected)
    assert all(item.detail for item in result.problems)
