"""Drawn digits: IDX files byte by byte, and digits that a nearest neighbour can read."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from checkpoints.errors import UsageError
from finetune.sample import write_digits
from finetune.sample.digits import draw_digit

FILES = [
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
]


def _read(folder, split):
    pictures = (folder / f"{split}-images-idx3-ubyte").read_bytes()
    labels = (folder / f"{split}-labels-idx1-ubyte").read_bytes()
    magic, count, rows, columns = struct.unpack(">IIII", pictures[:16])
    assert (magic, rows, columns) == (0x803, 28, 28)
    assert struct.unpack(">II", labels[:8]) == (0x801, count)
    values = np.frombuffer(pictures, np.uint8, offset=16).reshape(count, 28, 28)
    return values, np.frombuffer(labels, np.uint8, offset=8)


def test_the_four_files(tmp_path):
    drawn = write_digits(tmp_path / "digits", per_class=12)
    assert (drawn.count, drawn.classes[3]) == (120, "3")
    assert sorted(path.name for path in drawn.out_dir.iterdir()) == FILES
    for split, each in (("train", 10), ("t10k", 2)):
        pictures, labels = _read(drawn.out_dir, split)
        assert np.bincount(labels).tolist() == [each] * 10
        assert len(np.unique(pictures.reshape(len(labels), -1), axis=0)) == len(labels)
        assert (labels[:10] != np.arange(10)).any()  # mixed, so that batches in order hold all


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    first = write_digits(tmp_path / "a", per_class=3, seed=1).out_dir
    again = write_digits(tmp_path / "b", per_class=3, seed=1).out_dir
    other = write_digits(tmp_path / "c", per_class=3, seed=2).out_dir
    for name in FILES:
        assert (first / name).read_bytes() == (again / name).read_bytes()
    assert (first / FILES[2]).read_bytes() != (other / FILES[2]).read_bytes()


@pytest.mark.parametrize("digit", range(10))
def test_a_digit_is_white_on_black_and_centred(digit):
    rows, columns = np.mgrid[0:28, 0:28]
    for seed in range(10):
        picture = draw_digit(digit, seed).astype(np.float64)
        assert picture.max() > 200
        assert (picture == 0).mean() > 0.6
        for axis in (rows, columns):
            assert abs((axis * picture).sum() / picture.sum() - 13.5) <= 0.75
            inked = axis[picture > 0]
            assert inked.max() - inked.min() < 22


def test_digits_can_be_told_apart():
    train = np.array([draw_digit(d, seed) for d in range(10) for seed in range(30)], np.float32)
    test = np.array(
        [draw_digit(d, 1000 + seed) for d in range(10) for seed in range(5)], np.float32
    )
    far = ((test[:, None] - train) ** 2).sum((2, 3))
    right = far.argmin(1) // 30 == np.repeat(np.arange(10), 5)
    assert right.mean() >= 0.8


def test_one_picture_cannot_be_both_training_and_test(tmp_path):
    with pytest.raises(UsageError, match="Too few pictures"):
        write_digits(tmp_path / "digits", per_class=1)
    with pytest.raises(UsageError, match="No such digit"):
        draw_digit(10, 0)
