"""data build --runner beam: the very bytes of the plain build."""

import json

import pytest

from checkpoints.errors import DataError
from finetune.beam.jobs import Jobs
from finetune.datasets.build import build

pytest.importorskip("apache_beam")


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def facts(result):
    """All that a build tells but where it wrote and how long it took."""
    return {k: v for k, v in result.as_json().items() if k not in ("path", "seconds")}


def test_2000_pictures_give_the_same_bytes_with_two_worker_processes(write_pictures, tmp_path):
    root = write_pictures(tmp_path / "Blüten", 2000)
    plain = build(root, tmp_path / "plain", val=0.2, test=0.1, processes=1)
    beam = build(root, tmp_path / "beam", val=0.2, test=0.1, runner="beam", processes=2)
    assert facts(beam) == facts(plain)
    assert (plain.num_pictures, len(plain.skipped)) == (2003, 4)
    assert plain.changes["EXIF orientation 6 applied"] == 50
    expected = contents(plain.path)
    assert sorted(expected) == sorted(
        ["dataset.json", "labels.txt"]
        + [
            f"Blüten_{split}_{index:05d}-of-00005.tfrecord"
            for split in ("train", "val", "test")
            for index in range(5)
        ]
    )
    assert contents(beam.path) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Blüten", "beam", "plain"]


@pytest.mark.parametrize(
    "options",
    [
        {"val": 0, "shards": 3},
        {"max_side": 10},
        {"max_side": 10, "val": 0.5, "test": 0.4, "shards": 1000},
    ],
    ids=["three-shards", "shrunk", "a-picture-a-shard"],
)
def test_options_mean_the_same(pictures, tmp_path, in_memory, options):
    plain = build(pictures, tmp_path / "plain", **options)
    beam = build(pictures, tmp_path / "beam", runner="beam", beam_options=in_memory, **options)
    assert facts(beam) == facts(plain)
    assert contents(beam.path) == contents(plain.path)


def test_a_manifest_with_boxes_and_several_labels(pictures, tmp_path, in_memory):
    manifest = tmp_path / "flowers.csv"
    lines = [
        f"{path.relative_to(pictures)},{'red | round' if number % 3 else 'red'},,1,2,9,11"
        for number, path in enumerate(sorted((pictures / "花").iterdir()))
    ]
    manifest.write_text("\n".join(["path,label,split,x0,y0,x1,y1", *lines]), encoding="utf-8")
    plain = build(pictures, tmp_path / "plain", manifest=manifest)
    beam = build(
        pictures, tmp_path / "beam", manifest=manifest, runner="beam", beam_options=in_memory
    )
    assert plain.num_pictures == 24
    assert facts(beam) == facts(plain)
    assert contents(beam.path) == contents(plain.path)


def test_pictures_inside_larger_files(shared, tmp_path, in_memory):
    from finetune.datasets.sources.idx import read_idx

    root = tmp_path / "digits"
    root.mkdir()
    images = read_idx(shared / "data/mnist/t10k-images-idx3-ubyte.gz")[:50]
    labels = read_idx(shared / "data/mnist/t10k-labels-idx1-ubyte.gz")[:50]
    head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in images.shape)
    (root / "t10k-images-idx3-ubyte").write_bytes(head + images.tobytes())
    head = b"\0\0\x08\x01" + (50).to_bytes(4, "big")
    (root / "t10k-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    plain = build(root, tmp_path / "plain")
    beam = build(root, tmp_path / "beam", runner="beam", beam_options=in_memory)
    assert plain.sizes == {"train": 0, "val": 0, "test": 50}
    assert contents(beam.path) == contents(plain.path)


def test_a_relative_path_is_found_by_workers(pictures, tmp_path, in_memory, monkeypatch):
    monkeypatch.chdir(pictures.parent)
    plain = build("pictures", tmp_path / "plain")
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "pictures"
    link.symlink_to(pictures)
    beam = build("pictures", "beam", runner="beam", beam_options=in_memory)
    assert contents(tmp_path / beam.path) == contents(plain.path)


def test_a_broken_picture_stops_the_build_where_that_is_asked(pictures, tmp_path, in_memory):
    told = []
    for name, runner in (("plain", "local"), ("beam", "beam")):
        with pytest.raises(DataError) as caught:
            build(
                pictures,
                tmp_path / name,
                on_error="fail",
                runner=runner,
                beam_options=in_memory if runner == "beam" else "",
            )
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "is cut short" in told[0]
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_changes_meanwhile_is_named_and_nothing_is_left(
    write_pictures, tmp_path, in_memory, monkeypatch
):
    root = write_pictures(tmp_path / "pictures", 40)
    answers = Jobs.answers

    def change(jobs):
        path = root / "2 roses" / "0.jpg"
        path.write_bytes(path.read_bytes() + b"more")
        return answers(jobs)

    monkeypatch.setattr(Jobs, "answers", change)
    with pytest.raises(DataError, match=r"2 roses/0\.jpg changed while the dataset was built\."):
        build(root, tmp_path / "out", runner="beam", beam_options=in_memory)
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


def test_workers_that_encode_otherwise_are_told(pictures, tmp_path, in_memory, monkeypatch):
    answers = Jobs.answers

    def upgrade(jobs):
        monkeypatch.setattr("finetune.datasets.pictures.JPEG_QUALITY", 94)
        return answers(jobs)

    monkeypatch.setattr(Jobs, "answers", upgrade)
    with pytest.raises(DataError, match="became other bytes when it was encoded once more") as told:
        build(pictures, tmp_path / "out", runner="beam", beam_options=in_memory)
    assert "the same Pillow" in str(told.value.expected)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_every_picture(pictures, tmp_path, in_memory, heard):
    build(pictures, tmp_path / "out", runner="beam", beam_options=in_memory, progress=heard)
    # 120 of the loop, three copies and broken ones more in two steps; the broken are not written.
    written = json.loads((tmp_path / "out/dataset.json").read_text(encoding="utf-8"))["splits"]
    assert sum(heard.advanced) == 127 + sum(split["count"] for split in written.values())
