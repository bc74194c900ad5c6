"""data build from cloud storage and into it, as from a disk and to one."""

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import (
    DataError,
    NotFoundError,
    OutputExistsError,
    UnsupportedError,
    UsageError,
)
from finetune.datasets.build import build

IN_MEMORY = {"runner": "beam", "beam_options": "--direct_running_mode in_memory"}


@pytest.fixture
def flowers(bucket):
    """Two classes, one picture broken, one without a suffix, some files that are no pictures."""
    random = np.random.default_rng(3)
    for number in range(24):
        folder = bucket / "b/flowers" / ("rote Rosen" if number % 2 else "花")
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        path = folder / ("deep" if number % 3 else "") / f"{number}.jpg"
        image = Image.fromarray(random.integers(0, 256, (9, 12, 3), np.uint8))
        image.save(path, format="PNG" if number == 4 else "JPEG")
    (folder / "empty.jpg").write_bytes(b"")
    path.rename(path.with_suffix(""))
    (folder / "notes.txt").write_text("none")
    (folder / ".hidden.jpg").write_bytes(b"none")
    return bucket / "b/flowers"


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_same_bytes_as_from_a_disk_to_a_disk(flowers, bucket, names, tmp_path):
    plain = build(flowers, tmp_path / "plain", test=0.3)
    beam = build("fake://b/flowers", "fake://b/out/shards", test=0.3, **IN_MEMORY)
    assert str(beam.path) == "fake://b/out/shards"
    assert contents(bucket / "b/out/shards") == contents(plain.path)
    assert [item.path for item in beam.skipped] == ["fake://b/flowers/rote Rosen/empty.jpg"]
    assert beam.ignored == plain.ignored == ("rote Rosen/notes.txt",)
    assert (beam.counts, beam.changes) == (plain.counts, plain.changes)
    assert {name.split("/")[1] for name in names(bucket)} == {"flowers", "out"}


def test_one_of_both_may_lie_on_a_disk(flowers, bucket, tmp_path):
    plain = build(flowers, tmp_path / "plain")
    build("fake://b/flowers", tmp_path / "near", **IN_MEMORY)
    build(flowers, "fake://far", **IN_MEMORY)
    assert contents(tmp_path / "near") == contents(bucket / "far") == contents(plain.path)


def test_a_manifest_names_objects_and_boxes_in_pixels(flowers, tmp_path):
    manifest = tmp_path / "flowers.csv"
    lines = [f"花/deep/{number}.jpg,x,0,0,12,9" for number in (2, 4, 8)]
    lines += ["花/none.jpg,x,1,1,2,2", "花/0.jpg,y,3,3,6,9"]
    manifest.write_text("\n".join(["path,label,x0,y0,x1,y1", *lines]), encoding="utf-8")
    plain = build(flowers, tmp_path / "plain", manifest=manifest)
    beam = build("fake://b/flowers", tmp_path / "beam", manifest=manifest, **IN_MEMORY)
    assert plain.num_pictures == 4
    assert contents(beam.path) == contents(plain.path)
    assert [item.kind for item in beam.skipped] == ["unreadable"]
    assert "no such object" in beam.skipped[0].detail


def test_an_older_dataset_is_replaced_when_that_is_asked(flowers, bucket, names):
    build("fake://b/flowers", "fake://b/shards", val=0, shards=7, **IN_MEMORY)
    before = names(bucket)
    with pytest.raises(OutputExistsError, match="fake://b/shards is already there"):
        build("fake://b/flowers", "fake://b/shards", val=0, shards=2, **IN_MEMORY)
    assert names(bucket) == before
    build("fake://b/flowers", "fake://b/shards", val=0, shards=2, overwrite=True, **IN_MEMORY)
    assert names(bucket / "b/shards") == [
        "dataset.json",
        "flowers_train_00000-of-00002.tfrecord",
        "flowers_train_00001-of-00002.tfrecord",
        "labels.txt",
    ]


def test_other_things_are_not_replaced(flowers, bucket, names):
    (bucket / "b/mine").mkdir()
    (bucket / "b/mine/thesis.txt").write_text("years")
    with pytest.raises(OutputExistsError, match="is there and is no dataset"):
        build("fake://b/flowers", "fake://b/mine", overwrite=True, **IN_MEMORY)
    with pytest.raises(UsageError, match="lie one inside the other"):
        build("fake://b/flowers", "fake://b/flowers/out", **IN_MEMORY)
    assert names(bucket / "b/mine") == ["thesis.txt"]


def test_after_a_failure_nothing_is_left(flowers, bucket, names):
    before = names(bucket)
    with pytest.raises(DataError, match=r"fake://b/flowers/rote Rosen/empty\.jpg is empty"):
        build("fake://b/flowers", "fake://b/out", on_error="fail", **IN_MEMORY)
    assert names(bucket) == before


def test_what_is_not_there_or_no_class_folders(bucket, tmp_path):
    with pytest.raises(NotFoundError, match="fake://b/flowers holds nothing"):
        build("fake://b/flowers", tmp_path / "out", **IN_MEMORY)
    (bucket / "b").mkdir()
    (bucket / "b/train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    with pytest.raises(DataError, match="fake://b holds no pictures") as told:
        build("fake://b", tmp_path / "out", **IN_MEMORY)
    assert "are read from this machine's disk" in told.value.next_step
    with pytest.raises(UsageError, match="stand for patterns"):
        build("fake://b/[x]", tmp_path / "out", **IN_MEMORY)
    assert [path.name for path in tmp_path.iterdir()] == ["storage"]


@pytest.mark.parametrize(
    ("scheme", "next_step"),
    [
        ("gs", "pip install 'apache-beam[gcp]'"),
        ("s3", "pip install 'apache-beam[aws]'"),
        ("nowhere", "Name a path of these, or copy the files to a disk."),
    ],
)
def test_storage_that_needs_more_than_is_installed(fake_filesystem, tmp_path, scheme, next_step):
    with pytest.raises(
        UnsupportedError, match=f"nothing here that opens {scheme}:// paths"
    ) as told:
        build(f"{scheme}://bucket/flowers", tmp_path / "out", **IN_MEMORY)
    assert told.value.next_step == next_step
