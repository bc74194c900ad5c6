"""The compact list of cleaned pictures gives back what was put in."""

from __future__ import annotations

import pytest

from finetune.datasets.cleaned_pictures import CleanedPictures
from finetune.datasets.cleaning import Cleaned


def cleaned(item, digest=b"d", encoding=b"", changes=(), spool=""):
    return Cleaned(
        item,
        digest.ljust(16, b"\0"),
        encoding,
        "png" if item % 2 else "jpeg",
        100 + item,
        70_000,
        1 << 33,
        changes,
        spool,
        (1 << 40) + item,
    )


PICTURES = [
    cleaned(0, b"c"),
    cleaned(2, b"a", b"e" * 16, ("grey to RGB", "shrunk"), "123"),
    cleaned(3, b"c"),
    cleaned(7, b"b", b"f" * 16, ("shrunk",), "123"),
    cleaned(8, b"a"),
    cleaned(9, b"c"),
]


@pytest.fixture
def pictures():
    found = CleanedPictures()
    for picture in PICTURES:
        found.append(picture)
    return found


def test_all_comes_back(pictures):
    assert list(pictures) == PICTURES
    assert len(pictures) == 6
    assert pictures[2] == PICTURES[2]
    assert list(pictures[1:4]) == PICTURES[1:4]
    with pytest.raises(IndexError):
        pictures[6]
    assert not CleanedPictures()


def test_order_and_groups_of_the_same_content(pictures):
    assert list(pictures.by_digest()) == [1, 4, 3, 0, 2, 5]
    assert list(pictures.repeated()) == [[0, 2, 5], [1, 4]]
    assert [pictures.item(place) for place in (0, 3)] == [0, 7]
    assert pictures.digest(3) == b"b".ljust(16, b"\0")


def test_some_of_them(pictures):
    chosen = pictures.picked([5, 1, 3])
    assert list(chosen) == [PICTURES[5], PICTURES[1], PICTURES[3]]
    assert list(chosen[1:]) == [PICTURES[1], PICTURES[3]]
    assert len(chosen[:2]) == 2


def test_a_picture_takes_less_than_eighty_bytes(pictures):
    assert len(pictures._rows) < 80 * len(pictures)
