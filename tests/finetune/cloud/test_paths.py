"""Paths with a scheme, apart from those of the disk."""

from pathlib import Path

import pytest

from finetune.cloud.paths import CloudPath, as_place, is_cloud


@pytest.mark.parametrize(
    ("path", "found"),
    [("gs://bucket/a", True), ("s3://b", True), ("flowers", False), ("a:/b", False), ("", False)],
)
def test_what_is_in_cloud_storage(path, found):
    assert is_cloud(path) is found
    assert isinstance(as_place(path), CloudPath if found else Path)


def test_parts_of_a_path():
    path = CloudPath("gs://bucket/flowers/") / "rote Rosen/1.jpg"
    assert str(path) == "gs://bucket/flowers/rote Rosen/1.jpg"
    assert (path.name, path.scheme) == ("1.jpg", "gs")
    assert str(path.parent) == "gs://bucket/flowers/rote Rosen"
    assert as_place(path) is path
