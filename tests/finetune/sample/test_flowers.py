"""Drawn flowers: the same for the same seed, five kinds, and things to be wrong about."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import NotFoundError, OutputExistsError, UsageError
from finetune.sample import write_flowers
from finetune.sample.flowers import KINDS, draw


def _sums(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.jpg"))
    }


def test_a_set_of_flowers(tmp_path):
    drawn = write_flowers(tmp_path / "flowers", per_class=3, seed=4)
    assert (drawn.classes, drawn.count) == (KINDS, 15)
    assert sorted(path.name for path in drawn.out_dir.iterdir()) == list(KINDS)
    for kind in KINDS:
        files = sorted((drawn.out_dir / kind).iterdir())
        assert [file.name for file in files] == [f"{kind}_000{number}.jpg" for number in range(3)]
        for file in files:
            with Image.open(file) as picture:
                assert (picture.format, picture.mode) == ("JPEG", "RGB")
                assert 210 <= min(picture.size) <= max(picture.size) <= 320


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    first = _sums(write_flowers(tmp_path / "a", per_class=2, seed=1).out_dir)
    again = _sums(write_flowers(tmp_path / "b", per_class=2, seed=1).out_dir)
    other = _sums(write_flowers(tmp_path / "c", per_class=2, seed=2).out_dir)
    assert first == again
    assert not set(first.values()) & set(other.values())
    assert len(set(first.values())) == 10


def test_more_pictures_of_a_class_leave_the_first_ones_as_they_are(tmp_path):
    few = _sums(write_flowers(tmp_path / "few", per_class=1).out_dir)
    many = _sums(write_flowers(tmp_path / "many", per_class=2).out_dir)
    assert few.items() <= many.items()


def test_colour_does_not_tell_the_kinds_apart():
    """The mean colours of two kinds overlap: no threshold on a channel parts many of them."""
    means = {
        kind: np.array([np.asarray(draw(kind, seed)).mean((0, 1)) for seed in range(12)])
        for kind in KINDS
    }
    for first in KINDS:
        for second in KINDS:
            apart = np.abs(means[first].mean(0) - means[second].mean(0))
            spread = (means[first].std(0) + means[second].std(0)) / 2
            assert (apart < 2.5 * spread).all(), (first, second)


def test_pictures_of_a_kind_differ():
    pictures = [np.asarray(draw("rose", seed).resize((32, 32)), np.float32) for seed in range(6)]
    for index, first in enumerate(pictures):
        for second in pictures[:index]:
            assert np.abs(first - second).mean() > 8


def test_an_unknown_flower_is_named_with_a_near_one():
    with pytest.raises(NotFoundError, match="No flower is called 'dasy'") as caught:
        draw("dasy", 0)
    assert caught.value.next_step == "Write daisy."


def test_an_existing_directory_is_kept_unless_overwrite(tmp_path):
    write_flowers(tmp_path / "flowers", per_class=1)
    before = _sums(tmp_path / "flowers")
    with pytest.raises(OutputExistsError, match="already there"):
        write_flowers(tmp_path / "flowers", per_class=1, seed=9)
    assert _sums(tmp_path / "flowers") == before
    write_flowers(tmp_path / "flowers", per_class=1, seed=9, overwrite=True)
    assert _sums(tmp_path / "flowers") != before


def test_no_pictures_are_no_set(tmp_path):
    with pytest.raises(UsageError, match="Too few pictures"):
        write_flowers(tmp_path / "flowers", per_class=0)
    assert not (tmp_path / "flowers").exists()
