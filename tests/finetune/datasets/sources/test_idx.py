"""IDX directories, as MNIST comes."""

from __future__ import annotations

import gzip
import io
import struct
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.sources import find_source
from finetune.datasets.sources.idx import read_idx
from finetune.training_data import find_dataset

HEIGHT, WIDTH = 6, 5


def idx(array, kind=8):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + (
        array.tobytes()
    )


def pictures(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, HEIGHT, WIDTH), np.uint8)


def write(directory, train=24, test=6, names="{part}-{what}-ubyte", pack=False):
    """A directory of digits 0 to 2 in turn; gives the pictures by (part, number)."""
    directory.mkdir(parents=True)
    all_pictures = {}
    for seed, (part, count) in enumerate({"train": train, "t10k": test}.items()):
        values = {
            "images-idx3": pictures(count, seed),
            "labels-idx1": np.arange(count, dtype=np.uint8) % 3,
        }
        for what, array in values.items():
            path = directory / names.format(part=part, what=what)
            data = idx(array)
            path.write_bytes(gzip.compress(data, mtime=0) if pack else data)
        all_pictures[part] = values["images-idx3"]
    return all_pictures


@pytest.mark.parametrize(
    ("names", "pack"),
    [
        ("{part}-{what}-ubyte", False),
        ("{part}-{what}-ubyte.gz", True),
    ],
)
def test_every_picture_is_stored_without_loss(tmp_path, examples, names, pack):
    given = write(tmp_path / "digits", names=names, pack=pack)
    result = build(tmp_path / "digits", tmp_path / "out", processes=2)
    assert result.classes == ("0", "1", "2")
    assert result.counts == {"train": (7, 7, 8), "val": (1, 1, 0), "test": (2, 2, 2)}
    assert result.changes == {"plain pixels to PNG": 30}
    found = examples(tmp_path / "out")
    for name, features in found.items():
        file, _, number = name.partition(":")
        part = file.partition("-")[0]
        assert (tmp_path / "digits" / file).is_file()
        with Image.open(io.BytesIO(features["image/encoded"][0])) as image:
            assert (image.format, image.mode) == ("PNG", "L")
            np.testing.assert_array_equal(np.asarray(image), given[part][int(number)])
        assert features["image/class/label"] == [int(number) % 3]
        assert (features["image/height"], features["image/width"]) == ([HEIGHT], [WIDTH])
        assert features["image/format"] == [b"png"]
        # The first twelfth of the training pictures validates.
        wanted = "test" if part == "t10k" else "val" if int(number) < 2 else "train"
        assert features["split"] == wanted
    assert len(found) == 30


def test_the_dots_of_other_mirrors(tmp_path):
    write(tmp_path / "digits", names="{part}-{what}-ubyte")
    for path in (tmp_path / "digits").iterdir():
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert len(find_source(tmp_path / "digits").items) == 30


def test_mnist_keeps_its_splits(shared):
    source = find_source(shared / "data/mnist")
    assert Counter(item.split for item in source.items) == {
        "train": 55000, "val": 5000, "test": 10000
    }  # fmt: skip
    assert source.classes == tuple("0123456789")
    assert {item.path for item in source.items if item.split == "val"} == {
        f"train-images-idx3-ubyte.gz:{number}" for number in range(5000)
    }
    labels = read_idx(shared / "data/mnist/t10k-labels-idx1-ubyte.gz")
    assert labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert read_idx(shared / "data/mnist/t10k-images-idx3-ubyte.gz").shape == (10000, 28, 28)


def test_names_from_labels_txt(tmp_path):
    write(tmp_path / "clothes")
    (tmp_path / "clothes/labels.txt").write_text("shirt\ntrousers\nbag\n")
    assert find_source(tmp_path / "clothes").classes == ("shirt", "trousers", "bag")
    (tmp_path / "clothes/labels.txt").write_text("shirt\ntrousers\n")
    with pytest.raises(DataError, match="names 2 classes; the labels go up to 2"):
        find_source(tmp_path / "clothes")


def test_test_files_alone(tmp_path):
    write(tmp_path / "digits")
    for path in (tmp_path / "digits").glob("train*"):
        path.unlink()
    result = build(tmp_path / "digits", tmp_path / "out")
    assert result.counts["test"] == (2, 2, 2)
    assert result.num_pictures == 6


def test_the_data_of_train_and_evaluate(tmp_path, heard):
    write(tmp_path / "digits", names="{part}-{what}-ubyte.gz", pack=True)
    dataset = find_dataset(tmp_path / "digits", tmp_path / "run-data", progress=heard)
    assert {name: split.count for name, split in dataset.splits.items()} == {
        "train": 22, "val": 2, "test": 6
    }  # fmt: skip
    assert any("(IDX files)" in line for line in heard.said)


def broken(tmp_path, name, data):
    write(tmp_path / "digits")
    (tmp_path / "digits" / name).write_bytes(data)
    with pytest.raises(DataError) as caught:
        build(tmp_path / "digits", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert check(tmp_path / "digits").problems[0].kind == "layout"
    return caught.value


IMAGES = idx(pictures(24))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no IDX file of bytes"),
        (b"\xff\xd8\xff\xe0 a JPEG", "is no IDX file of bytes"),
        (idx(pictures(24), kind=13), "is no IDX file of bytes"),
        (IMAGES[:10], "is cut"),
        (IMAGES[:-1], "has another length"),
        (IMAGES + b"x", "has another length"),
        (IMAGES[:4] + b"\xff\xff\xff\xff" * 3, "is cut"),
        (IMAGES[:4] + b"\0\0\x10\0" * 3, "is cut"),
        (idx(pictures(23)), "do not fit together"),
    ],
)
def test_files_that_are_no_pictures(tmp_path, data, said):
    assert said in broken(tmp_path, "train-images-idx3-ubyte", data).message


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(IMAGES)[:-9],
        gzip.compress(IMAGES[:4] + b"\0\0\x08\0" * 3),
        b"\x1f\x8b\x08 nothing",
        b"plain",
    ],
    ids=["cut", "no pictures", "no gzip after its first bytes", "plain"],
)
def test_files_that_are_no_gzip(tmp_path, data):
    write(tmp_path / "digits")
    (tmp_path / "digits/train-images-idx3-ubyte").unlink()
    (tmp_path / "digits/train-images-idx3-ubyte.gz").write_bytes(data)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is cut"):
        find_source(tmp_path / "digits")


def test_pictures_without_labels(tmp_path):
    write(tmp_path / "digits")
    (tmp_path / "digits/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="lacks t10k-labels-idx1-ubyte"):
        find_source(tmp_path / "digits")


def test_labels_that_are_all_equal_are_a_finding(tmp_path):
    write(tmp_path / "digits")
    labels = idx(np.zeros(24, np.uint8))
    (tmp_path / "digits/train-labels-idx1-ubyte").write_bytes(labels)
    (tmp_path / "digits/t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(6, np.uint8)))
    problems = check(tmp_path / "digits").problems
    assert [(problem.kind, problem.detail) for problem in problems] == [
        ("one-label", "all 30 pictures have the label 0")
    ]


@pytest.mark.tensorflow
def test_tensorflow_sees_the_same_pixels(tmp_path):
    from finetune.data import load

    given = write(tmp_path / "digits")
    build(tmp_path / "digits", tmp_path / "out", shards=1)
    index = {picture.tobytes(): number for number, picture in enumerate(given["t10k"])}
    seen = set()
    for image, label in load(tmp_path / "out", "test"):
        pixels = image.numpy()
        assert pixels.shape == (HEIGHT, WIDTH, 3)
        assert (pixels == pixels[:, :, :1]).all()
        number = index[pixels[:, :, 0].tobytes()]
        assert int(label) == number % 3
        seen.add(number)
    assert seen == set(range(6))


def test_a_dataset_of_digits_is_sound(tmp_path):
    write(tmp_path / "digits")
    build(tmp_path / "digits", tmp_path / "out")
    result = check(tmp_path / "digits")
    assert (result.problems, result.notes, result.num_pictures) == ([], [], 30)
    assert check(tmp_path / "out").problems == []
    assert read_dataset(tmp_path / "out").name == "digits"


def test_pictures_and_labels_under_each_others_names(tmp_path):
    write(tmp_path / "digits")
    images, labels = (
        tmp_path / "digits" / f"train-{what}-ubyte" for what in ("images-idx3", "labels-idx1")
    )
    data = images.read_bytes()
    images.write_bytes(labels.read_bytes())
    with pytest.raises(DataError) as caught:
        find_source(tmp_path / "digits")
    assert caught.value.message == f"{images} does not hold pictures."
    assert (caught.value.expected, caught.value.received) == ("3 dimensions", "1: 24")
    images.write_bytes(data)
    labels.write_bytes(data)
    with pytest.raises(DataError, match="does not hold labels"):
        find_source(tmp_path / "digits")


def test_a_directory_is_no_idx_file(tmp_path):
    with pytest.raises(DataError, match="is a directory"):
        read_idx(tmp_path)
