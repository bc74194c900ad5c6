"""TFRecord files of tf.train.Examples, whose checksums are made right again."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from checkpoints.messages import Example
from finetune.datasets.check import check
from finetune.datasets.records import frame, make_example, parse_example, read_records
from finetune.datasets.sources import records
from fuzzing.mutation import mutate_bytes, mutate_message
from fuzzing.reader import Files, Reader
from fuzzing.reading import refusals

_FILE = "flowers_train.tfrecord"


def picture(colour: tuple[int, int, int], form: str = "PNG") -> bytes:
    """A tiny picture's file."""
    file = io.BytesIO()
    Image.new("RGB", (3, 2), colour).save(file, form)
    return file.getvalue()


def example(colour: tuple[int, int, int], label: int, name: str, **more: Any) -> bytes:
    """A record as `slimtune data build` writes it."""
    return make_example(
        {
            "image/encoded": picture(colour),
            "image/format": "png",
            "image/height": 2,
            "image/width": 3,
            "image/class/label": label,
            "image/class/text": name,
            "image/filename": f"{name}.png",
            **more,
        }
    )


def _box() -> dict[str, list[float]]:
    sides = {"ymin": 0.1, "xmin": 0.2, "ymax": 0.8, "xmax": 0.9}
    return {f"image/object/bbox/{side}": [value] for side, value in sides.items()}


def _contents() -> list[list[bytes]]:
    slim = [example((255, 0, 0), 0, "red", **_box()), example((0, 0, 255), 1, "blue")]
    raw = [
        make_example({"image_raw": bytes(range(4)), "label": number, "height": 2, "width": 2})
        for number in (0, 1)
    ]
    shaped = make_example({"image": bytes(12), "label": [b"red"], "shape": [2, 2, 3]})
    several = example((0, 255, 0), 1, "green", **{"image/class/labels": [0, 1]})
    return [slim, raw, [shaped], [several, slim[0]]]


def _seeds() -> list[Files]:
    return [{_FILE: b"".join(map(frame, contents))} for contents in _contents()]


def change_records(data: bytes, random: Random) -> bytes:
    """Changes, repeats or leaves out records; every checksum is right."""
    found, place = [], 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 8], "little")
        found.append(data[place + 12 : place + 12 + length])
        place += length + 16
    position = random.randrange(len(found))
    chance = random.random()
    if chance < 0.6:
        found[position] = mutate_message(Example)(found[position], random)
    elif chance < 0.9:
        found[position] = mutate_bytes(found[position], random)
    else:
        found[position : position + 1] = [found[position]] * random.choice((0, 2, 3))
    return b"".join(map(frame, found))


def _read_source(directory: Path) -> None:
    """As `slimtune data build` does: every picture of the source."""
    with refusals():
        source = records.read_source(directory / _FILE)
        for item in source.items:
            with refusals():
                records.read_item(directory, item.path)


def _read_examples(directory: Path) -> None:
    with refusals():
        for record in read_records(directory / _FILE):
            with refusals():
                parse_example(record)


def _check(directory: Path) -> None:
    """As `slimtune data check` does."""
    with refusals():
        check(directory / _FILE)


READERS = (
    Reader("tfrecord", _seeds, (_read_source, _check, _read_examples), {_FILE: change_records}),
)
