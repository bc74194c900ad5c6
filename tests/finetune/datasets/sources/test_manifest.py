"""Manifests: classes, splits and boxes from a CSV file."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.sources.names import check_class_names
from finetune.training_data import find_dataset

WIDTH, HEIGHT = 20, 10
ORIENTATION_6 = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"


def jpeg(number, **options):
    pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", **options)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    """Ten pictures in one folder, 0.jpg to 9.jpg."""
    folder = tmp_path / "all in one"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    return folder


@pytest.fixture
def built(folder, examples):
    """Makes the dataset of a manifest: the result, and file name -> its features."""

    def build_of(text, **options):
        manifest = folder.parent / "m.csv"
        manifest.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = build(folder, folder.parent / "out", manifest=manifest, **options)
        return result, examples(folder.parent / "out")

    return build_of


@pytest.fixture
def refused(folder, built):
    """The error at a manifest that cannot be used."""

    def error_at(text, **options):
        with pytest.raises(DataError) as caught:
            built(text, **options)
        assert not (folder.parent / "out").exists()
        return caught.value

    return error_at


def test_paths_and_labels_in_any_order_of_columns(folder, heard, built):
    (folder / "花").mkdir()
    (folder / "花/a[1], b.jpg").write_bytes(jpeg(50))
    text = (
        "\ufeffLabel, weight ,PATH\r\nclass 10,1,0.jpg\r\nclass 9,2,1.jpg\r\n\r\n"
        '树,3,"花/a[1], b.jpg"\r\n' + f"C#,4,{folder}/2.jpg\r\n"
    )
    result, found = built(text, val=0, progress=heard)
    assert result.classes == ("C#", "class 9", "class 10", "树")
    assert result.name == "all_in_one"
    assert {name: features["image/class/text"][0].decode() for name, features in found.items()} == {
        "0.jpg": "class 10",
        "1.jpg": "class 9",
        "花/a[1], b.jpg": "树",
        f"{folder}/2.jpg": "C#",
    }
    assert found["0.jpg"]["image/encoded"] == [jpeg(0)]
    assert "image/object/bbox/xmin" not in found["0.jpg"]
    assert f"{folder}: 4 pictures in 4 classes (m.csv)." in heard.said
    assert "Columns that are not used: weight." in heard.said


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["0.jpg,a", "1.jpg,b"], "path, label"),
        (["0.jpg,a,train", "1.jpg,b,train"], "path, label, split"),
        (["0.jpg,a,0,0,10,5", "1.jpg,b,,,,"], "path, label, x0, y0, x1, y1"),
        (["0.jpg,a,train,0,0,10,5", "1.jpg,b,,,,,"], "path, label, split, x0, y0, x1, y1"),
    ],
)
def test_columns_without_names_stand_in_order(heard, lines, columns, built):
    result, found = built("\n".join(lines), val=0, progress=heard)
    assert (result.classes, result.num_pictures) == (("a", "b"), 2)
    assert ("image/object/bbox/xmax" in found["0.jpg"]) == ("x1" in columns)
    assert f"The first line names no columns; taken as {columns}." in heard.said


def test_splits_are_kept_and_the_rest_is_dealt(built):
    lines = [f"{n}.jpg,{'ab'[n % 2]},{split}" for n, split in enumerate(
        ["train", "train", "validation", "val", "test", "test", "Training", "", "", ""])]  # fmt: skip
    result, found = built("path,label,split\n" + "\n".join(lines))
    assert {name: features["split"] for name, features in found.items()} == {
        "0.jpg": "train", "1.jpg": "train", "2.jpg": "val", "3.jpg": "val", "4.jpg": "test",
        "5.jpg": "test", "6.jpg": "train", "7.jpg": "train", "8.jpg": "train", "9.jpg": "train",
    }  # fmt: skip
    assert result.counts == {"train": (3, 3), "val": (1, 1), "test": (1, 1)}


def bounds(features):
    return {
        side: [round(value, 6) for value in features[f"image/object/bbox/{side}"]]
        for side in ("xmin", "ymin", "xmax", "ymax")
    }


def test_boxes_in_pixels_stand_in_the_shards_in_fractions(heard, built):
    text = "path,label,x0,y0,x1,y1\n0.jpg,a,2,1,10,10\n0.jpg,a,0,0,20,5\n1.jpg,b,,,,\n"
    _, found = built(text, val=0, progress=heard)
    assert bounds(found["0.jpg"]) == {
        "xmin": [0.1, 0.0], "ymin": [0.1, 0.0], "xmax": [0.5, 1.0], "ymax": [1.0, 0.5]
    }  # fmt: skip
    assert "image/object/bbox/xmin" not in found["1.jpg"]
    assert "Boxes are taken as pixels." in heard.said


def test_boxes_in_fractions(heard, built):
    text = "path,label,y1,x1,y0,x0\n0.jpg,a,1,0.5,0.25,0\n1.jpg,b,1,1,0,0\n"
    _, found = built(text, val=0, progress=heard)
    assert bounds(found["0.jpg"]) == {"xmin": [0], "ymin": [0.25], "xmax": [0.5], "ymax": [1]}
    assert "Boxes are taken as fractions of width and height." in heard.said


def test_boxes_are_of_the_upright_picture_before_it_is_shrunk(folder, built):
    (folder / "turned.jpg").write_bytes(jpeg(60, exif=ORIENTATION_6))
    text = "path,label,x0,y0,x1,y1\nturned.jpg,a,5,10,10,20\n1.jpg,b,,,,\n"
    _, found = built(text, val=0, max_side=10)
    features = found["turned.jpg"]
    assert (features["image/height"], features["image/width"]) == ([10], [5])
    assert bounds(features) == {"xmin": [0.5], "ymin": [0.5], "xmax": [1], "ymax": [1]}


def test_boxes_count_in_the_hash(built):
    text = "path,label,x0,y0,x1,y1\n0.jpg,a,2,1,10,10\n1.jpg,b,,,,\n"
    first, _ = built(text)
    second, _ = built(text.replace("10,10", "10,9"), overwrite=True)
    assert first.hash != second.hash


def test_wrong_lines_are_all_told_with_their_numbers(refused):
    text = """path,label,split,x0,y0,x1,y1
0.jpg,,,,,,
1.jpg,,train,,,,
2.jpg,a,holdout,,,,
3.jpg,a,,5,5,5,9
4.jpg,a,,1,2,3,
5.jpg,a,,1,1,21,9
6.jpg,a
7.jpg,a,train,,,,
7.jpg,b,train,,,,
8.jpg,a,,,,,
8.jpg,a,,,,,
9.jpg,a,,nan,0,1,1
"""
    error = refused(text)
    assert error.message.split("\n")[1:] == [
        f"  line {line}: {what}"
        for line, what in [
            (2, "no label"),
            (3, "no label"),
            (4, "split 'holdout'; the splits are train, val, test"),
            (5, "box 5,5,5,9: x0 < x1 and y0 < y1 are needed, from 0"),
            (6, "box 1,2,3,: four numbers are needed"),
            (7, "box to 21,9 in a picture of 20 x 10 pixels"),
            (8, "2 cells, the first line has 7"),
            (10, "7.jpg has another label or split in line 9"),
            (12, "8.jpg stands in line 11 already"),
            (13, "box nan,0,1,1: four numbers are needed"),
        ]
    ]
    assert error.received == "10 wrong lines"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.jpg,a,b,c\n", "path is missing, label is missing"),
        ("file,class\n0.jpg,a\n", "names neither the columns nor a picture that is there"),
        (f"{'a' * 5000},class\n", "names neither the columns nor a picture that is there"),
        ("path;label\n0.jpg;a\n", "path is missing, label is missing"),
        ("path,label,label\n0.jpg,a,b\n", "label comes twice"),
        ("path,label,x0,y0,x1\n0.jpg,a,1,1,2\n", "y1 is missing"),
        ("", "path is missing"),
        ("path,label\n", "has no lines"),
        ("path,label\n0.jpg,\xe9\n".encode("latin-1"), "is not UTF-8"),
        ('path,label\n0.jpg,"a\n', "line 2: unexpected end of data"),
        ('path,label\n0.jpg,"a\nb"\n', "cannot stand in a line"),
    ],
)
def test_files_that_are_no_manifest(text, said, refused):
    assert said in refused(text).message


def test_a_file_that_is_not_there_is_skipped_and_counted(folder):
    manifest = folder.parent / "m.csv"
    manifest.write_text("path,label\n0.jpg,a\ngone.jpg,a\n1.jpg,b\n")
    result = build(folder, folder.parent / "out", manifest=manifest, val=0)
    assert result.num_pictures == 2
    assert result.skipped == ((str(folder / "gone.jpg"), "unreadable", "is not there"),)
    with pytest.raises(DataError, match=r"gone\.jpg is not there\.") as caught:
        build(folder, folder.parent / "out2", manifest=manifest, on_error="fail")
    assert "--on-error skip" in caught.value.next_step


def test_nothing_there(folder):
    with pytest.raises(NotFoundError, match=r"no\.csv is not there"):
        build(folder, folder.parent / "out", manifest=folder / "no.csv")
    with pytest.raises(NotFoundError, match="gone is not there"):
        build(folder / "gone", folder.parent / "out", manifest=folder / "no.csv")


def test_a_broken_picture_is_skipped_as_elsewhere(folder, built):
    (folder / "0.jpg").write_bytes(b"no picture")
    text = "path,label,x0,y0,x1,y1\n0.jpg,a,2,1,10,10\n1.jpg,b,2,2,3,3\n"
    result, found = built(text, val=0)
    assert [item.kind for item in result.skipped] == ["not-a-picture"]
    assert list(found) == ["1.jpg"]


@pytest.mark.tensorflow
def test_tensorflow_reads_the_boxes_as_slim_does(folder, built):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    text = "path,label,x0,y0,x1,y1\n0.jpg,a,2,1,10,10\n0.jpg,a,0,0,20,5\n1.jpg,b,,,,\n"
    built(text, val=0)
    keys = {f"image/object/bbox/{side}": tf.io.VarLenFeature(tf.float32) for side in
            ("xmin", "ymin", "xmax", "ymax")}  # fmt: skip
    boxes = {}
    for path in sorted(folder.parent.glob("out/*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)):
            parsed = tf.io.parse_single_example(
                record, keys | {"image/filename": tf.io.FixedLenFeature([], tf.string)}
            )
            sides = [parsed[f"image/object/bbox/{side}"].values for side in
                     ("ymin", "xmin", "ymax", "xmax")]  # fmt: skip
            boxes[parsed["image/filename"].numpy()] = np.stack(sides, axis=1)
    np.testing.assert_allclose(boxes[b"0.jpg"], [[0.1, 0.1, 1, 0.5], [0, 0, 0.5, 1]], rtol=1e-6)
    assert boxes[b"1.jpg"].shape == (0, 4)


def test_pictures_of_several_classes(folder, heard, built):
    text = (
        "path,label\n0.jpg,red|round\n1.jpg,round\n2.jpg,blue | red\n3.jpg,blue\n"
        "4.jpg,rare|round\n5.jpg,rare|blue\n"
    )
    result, found = built(text, val=0.9, progress=heard)
    assert result.classes == ("blue", "rare", "red", "round")
    assert {name: features["image/class/labels"] for name, features in found.items()} == {
        "0.jpg": [2, 3], "1.jpg": [3], "2.jpg": [0, 2], "3.jpg": [0], "4.jpg": [1, 3], "5.jpg": [1, 0],
    }  # fmt: skip
    assert found["2.jpg"]["image/class/label"] == [0]
    # Each class of a picture counts, and has a training picture.
    assert [sum(column) for column in zip(*result.counts.values(), strict=True)] == [3, 2, 2, 3]
    assert sum(result.sizes.values()) == result.num_pictures == 6
    assert all(count >= 1 for count in result.counts["train"])
    dataset = read_dataset(folder.parent / "out")
    assert dataset.multi_label
    assert dataset.counts["train"] == result.counts["train"]
    assert check(folder.parent / "out").problems == []
    assert any("Labels with | are several classes" in line for line in heard.said)
    find_dataset(folder.parent / "out", folder, progress=heard)
    assert "pictures may have several classes" in heard.said[-1]


def test_labels_with_a_bar_that_are_wrong(refused):
    error = refused("path,label\n0.jpg,red|\n1.jpg,a|b|a\n2.jpg,|\n")
    assert error.message.split("\n")[1:] == [
        "  line 2: an empty label in 'red|'",
        "  line 3: a label twice in 'a|b|a'",
        "  line 4: an empty label in '|'; a label twice in '|'",
    ]


def test_one_class_each_is_no_dataset_of_several(folder, built):
    _, found = built("path,label\n0.jpg,a\n1.jpg,b\n", val=0)
    assert "image/class/labels" not in found["0.jpg"]
    assert not read_dataset(folder.parent / "out").multi_label


def test_a_nul_stands_in_no_class_name(tmp_path):
    with pytest.raises(DataError, match=r"'a\\x00b'"):
        check_class_names(tmp_path, ["a\0b"], "Rename it.")
