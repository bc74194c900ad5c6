"""What lies in cloud storage is copied to the disk, said, and copied once."""

import json

import pytest

from checkpoints.errors import DataError, NotFoundError
from finetune.cloud.local_copy import local_copy


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def memory():
    """A folder of TensorFlow's own ram://, and what writes a file into it."""
    from exporters.runtime import load_tensorflow

    gfile = load_tensorflow().io.gfile
    gfile.makedirs("ram://shards/below")

    def write(name, data):
        with gfile.GFile(f"ram://shards/{name}", "wb") as file:
            file.write(data)

    yield write
    gfile.rmtree("ram://shards")


def test_a_path_of_the_disk_stays(tmp_path, heard):
    assert local_copy(str(tmp_path), heard) == tmp_path
    assert heard.said == []


def test_through_beam(bucket, cache, names, heard):
    (bucket / "b/shards/below").mkdir(parents=True)
    (bucket / "b/shards/dataset.json").write_bytes(b"{}")
    (bucket / "b/shards/below/x").write_bytes(b"12345")
    copy = local_copy("fake://b/shards/", heard)
    assert copy.is_relative_to(cache)
    assert names(copy) == [".copy.json", "below/x", "dataset.json"]
    assert (copy / "below/x").read_bytes() == b"12345"
    told = f"fake://b/shards is read from a disk: copying 2 files, 0.0 MB, to {copy}."
    assert (heard.said, heard.total, sum(heard.advanced)) == ([told], 7, 7)
    assert local_copy("fake://b/shards", heard) == copy
    assert heard.said[1:] == [
        f"fake://b/shards: the copy of it in {copy} is what lies there still."
    ]
    (bucket / "b/shards/below/x").write_bytes(b"123456")
    assert local_copy("fake://b/shards", heard) == copy
    assert (copy / "below/x").read_bytes() == b"123456"
    assert sum(heard.advanced) == 7 + 8


@pytest.mark.tensorflow
def test_through_tensorflow(memory, cache, names, heard):
    memory("dataset.json", b"{}")
    memory("below/x", b"12345")
    copy = local_copy("ram://shards", heard)
    assert names(copy) == [".copy.json", "below/x", "dataset.json"]
    assert (copy / "below/x").read_bytes() == b"12345"
    assert json.loads((copy / ".copy.json").read_bytes())["path"] == "ram://shards"
    with pytest.raises(NotFoundError, match="ram://nowhere"):
        local_copy("ram://nowhere", heard)


def test_names_that_lead_out_are_refused(bucket, cache, heard, monkeypatch):
    from finetune.cloud import files

    listed = [files.CloudFile("../../.bashrc", 3, 0.0)]
    monkeypatch.setattr(files, "list_files", lambda place: listed)
    with pytest.raises(DataError, match="leads out of a folder"):
        local_copy("fake://b/shards", heard)
    assert not cache.exists()


def test_an_object_that_is_shorter_than_listed_leaves_no_copy(
    bucket, cache, names, heard, monkeypatch
):
    from finetune.cloud import files

    (bucket / "b").mkdir()
    (bucket / "b/x").write_bytes(b"12")
    monkeypatch.setattr(files, "list_files", lambda place: [files.CloudFile("x", 3, 0.0)])
    with pytest.raises(DataError, match="fake://b/x was cut while it was copied"):
        local_copy("fake://b", heard)
    assert names(cache) == []


def test_check_and_show_take_cloud_paths(bucket, cache, tmp_path, slimtune, colour_pictures):
    from finetune.datasets.build import build

    build(colour_pictures, bucket / "colours")
    code, printed, told = slimtune("data", "check", "fake://colours", "--json")
    assert (code, json.loads(printed)["pictures"]) == (0, 60)
    assert "fake://colours is read from a disk: copying 12 files" in told
    sheet = tmp_path / "sheet.png"
    code, _, told = slimtune("data", "show", "fake://colours", "--out", sheet)
    assert (code, sheet.read_bytes()[:4]) == (0, b"\x89PNG")
    assert "is what lies there still" in told
