"""Records and datasets that were made to do harm, each with the error it must raise."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune.datasets.dataset import read_dataset
from finetune.datasets.labels import read_labels_file
from finetune.datasets.pictures import upright_size
from finetune.datasets.records import make_example, parse_example
from finetune.datasets.sources.names import natural_order
from finetune.datasets.sources.record_layouts import read_layout


@pytest.mark.parametrize("size", [float("nan"), float("inf"), 2.0])
def test_shapes_that_are_no_whole_numbers(size):
    record = make_example({"image": bytes(4), "label": b"red", "shape": [2.5, size, 1.0]})
    with pytest.raises(DataError, match="as shape; whole numbers are read"):
        read_layout(parse_example(record))


MANY_DIGITS = "9" * 5000


def test_numbers_of_more_digits_than_python_converts(tmp_path):
    (tmp_path / "labels.txt").write_text(f"{MANY_DIGITS}:red\n")
    assert read_labels_file(tmp_path / "labels.txt") == (f"{MANY_DIGITS}:red",)
    names = [MANY_DIGITS, "10", "2", f"1{MANY_DIGITS}", "02", "a"]
    assert natural_order(names) == ["02", "2", "10", MANY_DIGITS, f"1{MANY_DIGITS}", "a"]


def dataset(**changes):
    shard = {"file": "d_train_00000-of-00001.tfrecord", "count": 1}
    split = {"count": 1, "counts": {"red": 1}, "shards": [{**shard, **changes}]}
    return json.dumps(
        {"format": 1, "name": "d", "classes": ["red"], "splits": {"train": split}, "hash": ""}
    )


DATASETS = {
    "a count without end": (dataset(count=float("inf")), "is not what data build writes"),
    "a count that is no number": (dataset(count=float("nan")), "is not what data build writes"),
    "a file's name that no file has": (dataset(file="x" * 300), "lacks shards"),
    "a file's name with a zero": (dataset(file="\0"), "lacks shards"),
    "lists without end": ("[" * 100_000, "is no JSON"),
    "a number of 5,000 digits": ("9" * 5000, "is no JSON"),
}


@pytest.mark.parametrize("what", DATASETS)
def test_dataset_json(tmp_path, what):
    text, message = DATASETS[what]
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_dataset(tmp_path)


def test_a_png_whose_part_says_to_be_larger_than_it_is(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 3)).save(path)
    data = path.read_bytes()
    place = data.index(b"IDAT")
    path.write_bytes(data[: place - 4] + b"\x7f\xff\xff\xff" + data[place:])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), limits[1]))
    try:
        assert upright_size(path) in (None, (3, 4))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
