"""Pictures as people have them, and Beam's jobs done inside this process."""

import os

import numpy as np
import pytest
from PIL import Image

IN_MEMORY = "--direct_running_mode=in_memory"
"""Beam's jobs in threads of this process: starting others takes seconds."""

CLASSES = ("2 roses", "10 roses", "花", "Тюльпаны", "été")


@pytest.fixture(scope="session")
def in_memory():
    return IN_MEMORY


@pytest.fixture(scope="session")
def write_pictures():
    """Class folders of small pictures, most kept as they are, some encoded again, some broken."""

    def write(root, count):
        random = np.random.default_rng(7)
        for number in range(count):
            folder = root / CLASSES[number % len(CLASSES)]
            folder.mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8))
            kind = number % 40
            if kind == 1:
                image.convert("RGBA").save(folder / f"{number}.png")
            elif kind == 2:
                image.convert("CMYK").save(folder / f"{number}.jpg")
            elif kind == 3:
                image.convert("P").save(folder / f"{number}.gif")
            elif kind == 4:
                exif = Image.Exif()
                exif[0x0112] = 6
                image.save(folder / f"{number}.jpg", exif=exif)
            elif kind == 5:
                image.save(folder / f"{number} ohne Endung", format="JPEG")
            else:
                image.save(folder / f"{number}.jpg")
        first, second = root / CLASSES[0], root / CLASSES[1]
        whole = (first / "0.jpg").read_bytes()
        (first / "cut.jpg").write_bytes(whole[:-40])
        (first / "empty.jpg").write_bytes(b"")
        (first / "text.jpg").write_text("no picture")
        (first / "again.jpg").write_bytes(whole)
        (second / "in another class.jpg").write_bytes(whole)
        (second / "note.txt").write_text("not a picture by its name either")
        (root / os.fsdecode(b"caf\xc3\xa9")).mkdir()
        (root / os.fsdecode(b"caf\xc3\xa9") / os.fsdecode(b"latin \xe9.jpg")).write_bytes(
            whole[:-2]
        )
        Image.new("RGB", (40, 30), "red").save(root / os.fsdecode(b"caf\xc3\xa9") / "large.png")
        return root

    return write


@pytest.fixture(scope="session")
def pictures(write_pictures, tmp_path_factory):
    """120 of them."""
    return write_pictures(tmp_path_factory.mktemp("beam") / "pictures", 120)
