"""Every planted fault is found, by its kind and place; sound data has none."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.labels import check_labels
from finetune.datasets.records import make_example, write_records


def encode(number, kind="JPEG", **options):
    chance = np.random.default_rng(number)
    image = Image.fromarray(chance.integers(0, 256, (9, 12, 3), np.uint8))
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def write_folders(root, count=4):
    for label, name in enumerate(("a", "b", "花")):
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").write_bytes(encode(100 * label + number))
    return root


def kinds(result, root):
    return sorted((item.kind, item.path.replace(f"{root}/", "")) for item in result.problems)


def test_sound_pictures_have_no_problems(tmp_path, shared):
    assert check(write_folders(tmp_path / "pets")).problems == []
    result = check(shared / "data/flowers12")
    assert result.problems == []
    assert (result.kind, result.num_pictures, len(result.classes)) == ("pictures", 960, 12)


def test_every_planted_fault_in_a_folder_is_found(tmp_path):
    root = write_folders(tmp_path / "pets", count=30)
    planted = {
        "a/cut.jpg": ("truncated", encode(1)[:300]),
        "a/zero.jpg": ("empty", b""),
        "a/text.jpg": ("not-a-picture", b"hello"),
        "a/page.png": ("not-a-picture", b"<html></html>"),
        "b/garbage.jpg": ("trailing-bytes", encode(2) + b"more"),
        "b/png.jpg": ("wrong-suffix", encode(3, "PNG")),
        "b/gif.jpeg": ("wrong-suffix", encode(4, "GIF")),
        "b/webp.png": ("wrong-suffix", encode(5, "WEBP")),
        "b/broken.png": ("truncated", encode(6, "PNG")[:-20]),
        "花/cut.gif": ("not-a-picture", encode(7, "GIF")[:30]),
        "花/cut.bmp": ("truncated", encode(8, "BMP")[:-20]),
    }
    for name, (_, data) in planted.items():
        (root / name).write_bytes(data)
    (root / "b/copy.jpg").write_bytes((root / "a/3.jpg").read_bytes())
    (root / "a/repeat.jpg").write_bytes((root / "a/4.jpg").read_bytes())
    (root / "c").mkdir()
    (root / "A ").mkdir()
    (root / "A /1.jpg").write_bytes(encode(990))
    (root / "a/note.txt").write_text("x")
    (root / "a/alpha.png").write_bytes(encode(10, "GIF"))
    (root / "a/orient.jpg").write_bytes(encode(11, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"))  # fmt: skip
    result = check(root)
    expected = [(kind, name) for name, (kind, _) in planted.items()]
    expected += [
        ("duplicate", "a/3.jpg"),
        ("empty-class", "c"),
        ("similar-classes", "A "),
        ("wrong-suffix", "a/alpha.png"),
    ]
    assert kinds(result, root) == sorted(expected)
    by_kind = {item.kind: item for item in result.problems}
    assert by_kind["duplicate"].detail == "same content as b/copy.jpg"
    assert by_kind["similar-classes"].detail == "nearly the same names: 'A ', 'a'"
    notes = {(item.kind, item.path.replace(f"{root}/", ""), item.detail) for item in result.notes}
    assert ("repeated", "a/4.jpg", "same content as a/repeat.jpg") in notes
    assert ("ignored", "a/note.txt", "no picture by name and first bytes") in notes
    assert ("changed", "a/orient.jpg", "EXIF orientation 6 applied") in notes


def test_folders_at_the_wrong_level_are_a_problem_and_pictures_are_looked_at_all_the_same(tmp_path):
    root = write_folders(tmp_path / "data/pets")
    (root / "a/zero.jpg").write_bytes(b"")
    for path in (tmp_path / "data", root / "a"):
        result = check(path)
        found = [item.kind for item in result.problems]
        assert found == ["layout", "empty"]
        assert "Give the folder" in result.problems[0].detail


def test_a_picture_in_two_given_splits(tmp_path):
    for split in ("train", "test"):
        write_folders(tmp_path / "pets" / split, count=1)
    result = check(tmp_path / "pets")
    assert [item.kind for item in result.problems] == ["duplicate"] * 3
    assert result.problems[0].detail == "same content as test/a/0.jpg"


def test_sound_shards_have_no_problems(tmp_path):
    build(write_folders(tmp_path / "pets", count=12), tmp_path / "out")
    result = check(tmp_path / "out")
    assert (result.problems, result.kind, result.num_pictures) == ([], "dataset", 36)


def record(label=0, text="a", picture=None, **changes):
    features = {
        "image/encoded": encode(label) if picture is None else picture,
        "image/format": "jpeg",
        "image/height": 9,
        "image/width": 12,
        "image/class/label": label,
        "image/class/text": text,
    }
    return make_example(
        {name: value for name, value in (features | changes).items() if value is not None}
    )


def write_shards(directory, *shards, labels="a\nb\n", split="train"):
    directory.mkdir(exist_ok=True)
    for index, records in enumerate(shards):
        name = f"pets_{split}_{index:05d}-of-{len(shards):05d}.tfrecord"
        write_records(directory / name, records)
    (directory / "labels.txt").write_text(labels)
    return directory


def test_every_planted_fault_in_shards_is_found(tmp_path):
    out = write_shards(
        tmp_path / "out",
        [
            record(0),
            record(1, "b"),
            record(7, "b", encode(20)),
            record(0, "b", encode(21)),
            record(0, "a", encode(22)[:200]),
            record(0, "a", encode(23), **{"image/format": "png"}),
            record(0, "a", encode(24), **{"image/height": 10}),
            record(0, "a", encode(25), **{"image/class/label": None}),
            record(1, "b", encode(0)),
            record(0, "a", encode(26) + b"garbage"),
        ],
    )
    result = check(out)
    path = out / "pets_train_00000-of-00001.tfrecord"
    places = [(item.kind, item.path.split(": ")[-1].split(" (")[0]) for item in result.problems]
    assert all(item.path.startswith(str(path)) for item in result.problems)
    assert places == [
        ("label", "record 2"),
        ("class-name", "record 3"),
        ("truncated", "record 4"),
        ("format", "record 5"),
        ("size", "record 6"),
        ("missing-feature", "record 7"),
        ("trailing-bytes", "record 9"),
        # Only all records together show it.
        ("duplicate", "record 8"),
    ]
    details = [item.detail for item in result.problems]
    assert details[0] == "label 7; 2 classes have labels 0 to 1"
    assert details[1] == "says class 'b', but label 0 is 'a'"
    assert details[3] == "image/format says 'png', the bytes are jpeg"
    assert details[4] == "image/height and image/width say 10 x 12, the picture has 9 x 12"
    assert details[5].startswith("has no image/class/label; it has image/class/text, image/encoded")
    assert details[7] == f"same content as {path}: record 0 (offset 0)"


def test_labels_that_are_all_equal(tmp_path):
    out = write_shards(tmp_path / "out", [record(0, "a", encode(n)) for n in range(20)])
    result = check(out)
    assert [item.kind for item in result.problems] == ["one-label"]
    assert result.problems[0].detail.startswith(
        "all 20 records in the split train have the label 0; a writer that takes the argmax"
    )


def test_damaged_shards_name_file_record_and_offset(tmp_path):
    build(write_folders(tmp_path / "pets", count=12), tmp_path / "out", val=0, shards=3)
    paths = sorted((tmp_path / "out").glob("*.tfrecord"))
    data = bytearray(paths[0].read_bytes())
    data[200] ^= 1
    paths[0].write_bytes(data)
    paths[1].write_bytes(paths[1].read_bytes()[:-7])
    paths[2].write_bytes(b"")
    problems = check(tmp_path / "out").problems
    assert [(item.kind, item.path) for item in problems] == [
        ("damaged-record", str(paths[0])),
        ("count", str(paths[0])),
        ("damaged-record", str(paths[1])),
        ("count", str(paths[1])),
        ("count", str(paths[2])),
    ]
    assert "record 0 (offset 0): the checksum of the record's data is wrong" in problems[0].detail
    assert problems[1].detail == "11 sound records, expected 12"
    assert "record 11 (offset " in problems[2].detail
    assert "the file ends inside the record" in problems[2].detail
    assert problems[4].detail == "0 sound records, expected 12"


@pytest.mark.parametrize("data", [b"", encode(1), b"\0" * 100])
def test_a_file_that_is_no_shard(tmp_path, data):
    (tmp_path / "labels.txt").write_text("a\n")
    path = tmp_path / "a_train_00000-of-00001.tfrecord"
    path.write_bytes(data)
    problems = check(path).problems
    assert [item.kind for item in problems] == ["damaged-record"]
    assert "record 0 (offset 0)" in problems[0].detail


def test_a_file_outside_any_dataset(tmp_path):
    path = tmp_path / "holiday.tfrecord"
    for data in (encode(1), b""):
        path.write_bytes(data)
        assert [item.kind for item in check(path).problems] == ["damaged-record"]
    write_records(path, [record(0), record(1, "b", encode(5)[:100])])
    result = check(path)
    assert result.num_pictures == 2
    assert [(item.kind, item.path.split(": ")[1]) for item in result.problems] == [
        ("truncated", "record 1 (offset 913)")
    ]


def test_one_shard_alone_can_be_looked_at(tmp_path):
    build(write_folders(tmp_path / "pets", count=12), tmp_path / "out", val=0, shards=3)
    path = sorted((tmp_path / "out").glob("*.tfrecord"))[1]
    result = check(path)
    assert (result.num_pictures, result.problems) == (12, [])


def test_a_dataset_that_lacks_shards(tmp_path):
    build(write_folders(tmp_path / "pets", count=12), tmp_path / "out", val=0, shards=3)
    next((tmp_path / "out").glob("*.tfrecord")).unlink()
    problems = check(tmp_path / "out").problems
    assert [item.kind for item in problems] == ["layout"]
    assert "lacks shards" in problems[0].detail


def test_nothing_there(tmp_path):
    with pytest.raises(NotFoundError, match="gone is not there"):
        check(tmp_path / "gone")


def test_one_of_several_labels_that_names_no_class(tmp_path):
    records = [
        record(0, "a", encode(n), **{"image/class/labels": labels})
        for n, labels in enumerate(([0, 1], [0], [0, 2]))
    ]
    problems = check(
        write_shards(tmp_path / "out", [*records, record(1, "b", encode(50))])
    ).problems
    assert [(item.kind, item.detail) for item in problems] == [
        ("label", "image/class/labels has 2, which is no class")
    ]


@pytest.mark.parametrize(
    ("features", "kind", "detail"),
    [
        (
            {"image/encoded": encode(1, "TIFF"), "image/class/label": 0},
            "format",
            "is no JPEG, PNG, GIF, BMP or WebP, which TensorFlow decodes (TIFF to PNG)",
        ),
        (
            {"image/encoded": encode(1), "image/class/label": [0, 1]},
            "label",
            "has 2 values in image/class/label; one is read",
        ),
        (
            {"image/encoded": encode(1), "image/class/label": "0"},
            "missing-feature",
            "has b'0' as image/class/label; a whole number (int64) is read",
        ),
        (
            {"image/encoded": encode(1), "image/class/label": 0.5},
            "missing-feature",
            "has 0.5 as image/class/label; a whole number (int64) is read",
        ),
        (
            {"image/encoded": encode(1), "image/class/text": "a"},
            "missing-feature",
            "has no image/class/label; it has image/class/text, image/encoded",
        ),
    ],
)
def test_what_training_could_not_read_is_a_problem(tmp_path, features, kind, detail):
    path = tmp_path / "pets_train_00000-of-00001.tfrecord"
    sound = {"image/encoded": encode(2), "image/class/label": 1}
    write_records(path, [make_example(sound), make_example(features)])
    (tmp_path / "labels.txt").write_text("a\nb\n")
    (problem,) = check(tmp_path).problems
    assert (problem.kind, problem.detail) == (kind, detail)
    assert problem.path.startswith(f"{path}: record 1 (offset ")


def test_an_exchanged_shard_is_noticed(tmp_path):
    build(write_folders(tmp_path / "pets"), tmp_path / "out", val=0, shards=3)
    first, second, _ = sorted((tmp_path / "out").glob("*.tfrecord"))
    assert check(tmp_path / "out").problems == []
    first.write_bytes(second.read_bytes())
    found = kinds(check(tmp_path / "out"), tmp_path / "out")
    assert found.count(("changed-shard", first.name)) == 1
    assert [kind for kind, _ in found if kind != "changed-shard"] == ["repeated-record"] * 4
    assert f"{second.name}: record 0 (offset 0)" in found[-4][1]


def test_one_picture_twice_in_a_class_is_a_note(tmp_path):
    root = write_folders(tmp_path / "pets")
    (root / "a/copy.jpg").write_bytes((root / "a/0.jpg").read_bytes())
    build(root, tmp_path / "out", val=0)
    result = check(tmp_path / "out")
    assert result.problems == []
    assert [note.kind for note in result.notes] == ["repeated"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b\na\n花\n", "contradicts dataset.json. "),
        ("a\nb\n", "received: 2"),
        ("a\na\n花\n", "names a class twice: a."),
        (None, "is not there."),
    ],
)
def test_a_labels_file_that_contradicts_is_found_and_stops_training(tmp_path, text, said):
    build(write_folders(tmp_path / "pets"), tmp_path / "out", val=0)
    path = tmp_path / "out/labels.txt"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    (problem,) = check(tmp_path / "out").problems
    assert (problem.kind, problem.path) == ("labels-file", str(path))
    assert said in problem.detail
    with pytest.raises(DataError):
        check_labels(read_dataset(tmp_path / "out"))


def test_one_picture_alone(tmp_path):
    (tmp_path / "1.jpg").write_bytes(encode(1))
    result = check(tmp_path / "1.jpg")
    assert (result.kind, result.num_pictures, result.problems) == ("pictures", 1, [])
    (tmp_path / "2.jpg").write_bytes(encode(2)[:200])
    assert [problem.kind for problem in check(tmp_path / "2.jpg").problems] == ["truncated"]


def test_shards_without_names_are_looked_at_and_can_be_built(tmp_path):
    (tmp_path / "in").mkdir()
    write_records(
        tmp_path / "in/pets_train_00000-of-00001.tfrecord",
        [make_example({"image/encoded": encode(n), "image/class/label": n % 2}) for n in range(4)],
    )
    result = check(tmp_path / "in")
    assert (result.num_pictures, result.classes) == (4, ("0", "1"))
    (problem,) = result.problems
    assert problem.kind == "layout"
    assert f"slimtune data build {tmp_path}/in OUT makes a dataset" in problem.detail
    assert build(tmp_path / "in", tmp_path / "out").classes == ("0", "1")
