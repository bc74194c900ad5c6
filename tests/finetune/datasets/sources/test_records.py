"""TFRecord files in the layouts of the notes, written and read with TensorFlow's own calls."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import make_example, parse_example, read_records, write_records
from finetune.datasets.sources import find_source
from finetune.training_data import find_dataset

COUNT = 30


def digits(count=COUNT, shape=(28, 28)):
    return np.random.default_rng(3).integers(0, 256, (count, *shape), np.uint8)


def mnist_record(picture, label):
    return {"pixels": picture.size, "label": label, "image_raw": picture.tobytes()}


def array_record(picture, label):
    shape = np.array(picture.shape, np.int32)
    return {"label": label, "shape": shape.tobytes(), "image": picture.tobytes()}


def write(path, records):
    path.parent.mkdir(exist_ok=True)
    write_records(path, [make_example(record) for record in records])
    return path


def pixels(features):
    with Image.open(io.BytesIO(features["image/encoded"][0])) as image:
        return np.asarray(image)


def test_mnist_records_become_shards(tmp_path, examples, heard):
    given = digits()
    path = write(
        tmp_path / "in/output.tfrecords", [mnist_record(p, n % 3) for n, p in enumerate(given)]
    )
    for source in (path, path.parent):
        build(source, tmp_path / "out", val=0.2, overwrite=True, progress=heard)
        found = examples(tmp_path / "out")
        assert len(found) == COUNT
        for name, features in found.items():
            file, _, number = name.partition(":")
            assert file == "output.tfrecords"
            np.testing.assert_array_equal(pixels(features), given[int(number)])
            assert features["image/class/label"] == [int(number) % 3]
            assert features["image/class/text"] == [str(int(number) % 3).encode()]
        assert {features["split"] for features in found.values()} == {"train", "val"}
    assert f"{path.parent}: 30 pictures in 3 classes (a TFRecord file)." in heard.said
    assert read_dataset(tmp_path / "out").name == "in"


def test_the_sides_may_be_stored(tmp_path, examples):
    given = digits(12, (5, 7, 3))
    records = [
        {"height": 5, "width": 7, "depth": 3, "label": n % 2, "image_raw": p.tobytes()}
        for n, p in enumerate(given)
    ]
    build(write(tmp_path / "in/a.tfrecord", records), tmp_path / "out", val=0)
    for name, features in examples(tmp_path / "out").items():
        np.testing.assert_array_equal(pixels(features), given[int(name.split(":")[1])])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([b"rose", "花".encode(), b"daisy"], ("daisy", "rose", "花")),
        ([np.int32(n).tobytes() for n in (4, 0, 10)], ("0", "4", "10")),
        ([np.int64(n).tobytes() for n in (1, 2, 3)], ("1", "2", "3")),
        ([b"\x00", b"\x41", b"\x02"], ("0", "2", "65")),
    ],
)
def test_records_of_arrays_with_labels_as_bytes(tmp_path, examples, labels, classes):
    given = digits(12, (6, 4, 3))
    records = [array_record(p, labels[n % 3]) for n, p in enumerate(given)]
    result = build(write(tmp_path / "in/a.tfrecord", records), tmp_path / "out", val=0)
    assert result.classes == classes
    texts = {}
    for name, features in examples(tmp_path / "out").items():
        number = int(name.split(":")[1])
        np.testing.assert_array_equal(pixels(features), given[number])
        texts[number % 3] = features["image/class/text"][0].decode()
    assert sorted(texts.values()) == sorted(classes)


def test_labels_txt_names_numbers(tmp_path):
    path = write(
        tmp_path / "in/a.tfrecord", [mnist_record(p, n % 2) for n, p in enumerate(digits())]
    )
    (path.parent / "labels.txt").write_text("0:even\n1:odd\n")
    assert find_source(path.parent).classes == ("even", "odd")
    write(path, [mnist_record(p, 1 + n % 2) for n, p in enumerate(digits())])
    with pytest.raises(DataError, match="does not fit the labels") as caught:
        find_source(path.parent)
    assert caught.value.received == "labels 1 to 2, counted from 1"


def test_splits_in_the_names_of_files(tmp_path):
    for name in ("mnist_train", "mnist_test", "mnist_validation"):
        write(
            tmp_path / f"in/{name}.tfrecords",
            [mnist_record(p, n % 2) for n, p in enumerate(digits(10))],
        )
    source = find_source(tmp_path / "in")
    assert source.splits == ("train", "val", "test")
    assert {(item.path.split(":")[0], item.split) for item in source.items} == {
        ("mnist_train.tfrecords", "train"), ("mnist_test.tfrecords", "test"),
        ("mnist_validation.tfrecords", "val"),
    }  # fmt: skip


def jpeg(number):
    buffer = io.BytesIO()
    Image.fromarray(digits(number + 1, (9, 12, 3))[number]).save(buffer, "JPEG")
    return buffer.getvalue()


def test_older_shards_are_written_anew_from_0(tmp_path, examples):
    """Labels from 1, names in the records, boxes: what TF-Slim's ImageNet records hold."""
    for split in ("train", "validation"):
        records = [
            {
                "image/encoded": jpeg(n),
                "image/class/label": 1 + n % 3,
                "image/class/text": ["dog", "cat", "ant"][n % 3],
                "image/filename": f"{split}-{n}.jpg",
                "image/object/bbox/xmin": [0.25] * (n % 3),
                "image/object/bbox/ymin": [0.5] * (n % 3),
                "image/object/bbox/xmax": [0.75] * (n % 3),
                "image/object/bbox/ymax": [1.0] * (n % 3),
            }
            for n in range(6)
        ]
        write(tmp_path / f"in/{split}-00000-of-00001", records)
    result = build(tmp_path / "in", tmp_path / "out")
    assert result.classes == ("dog", "cat", "ant")
    assert result.counts == {"train": (2, 2, 2), "val": (2, 2, 2), "test": (0, 0, 0)}
    found = examples(tmp_path / "out")
    for name, features in found.items():
        number = int(name.removesuffix(".jpg").split("-")[1])
        assert features["image/encoded"] == [jpeg(number)]
        assert features["image/class/label"] == [number % 3]
        assert features.get("image/object/bbox/xmax", []) == [0.75] * (number % 3)


@pytest.mark.parametrize(
    ("xmax", "said"),
    [
        (1.25, "has a box that lies not inside its picture"),
        (float("nan"), "has a box that lies not inside its picture"),
        (b"right", "has bytes as image/object/bbox; numbers are read"),
    ],
)
def test_boxes_at_which_training_would_stop_are_not_built(tmp_path, xmax, said):
    records = [
        {
            "image/encoded": jpeg(n),
            "image/class/label": n % 2,
            "image/object/bbox/xmin": [0.25],
            "image/object/bbox/ymin": [0.25],
            "image/object/bbox/xmax": [xmax if n == 1 else 0.75],
            "image/object/bbox/ymax": [0.75],
        }
        for n in range(4)
    ]
    path = write(tmp_path / "in/a.tfrecord", records)
    result = build(path, tmp_path / "out", val=0)
    assert result.skipped == ((f"{path}:1", "damaged", said),)
    assert check(tmp_path / "out").problems == []
    assert len(check(path).problems) == 1


def test_labels_that_are_all_equal(tmp_path, heard):
    """The writer of the notes takes the argmax of a length, which is 0 for every picture."""
    path = write(tmp_path / "in/output.tfrecords", [mnist_record(p, 0) for p in digits()])
    for place in (path, path.parent):
        result = check(place)
        assert (result.kind, result.num_pictures, result.classes) == ("records", 30, ("0",))
        assert [(item.kind, item.path) for item in result.problems] == [("one-label", str(place))]
        assert result.problems[0].detail == (
            "all 30 records have the label 0; a writer that takes the argmax of a length instead "
            "of a one-hot row always writes 0"
        )
    build(path, tmp_path / "out", progress=heard)
    assert any("Mind that all 30 records have the label 0" in line for line in heard.said)


def test_records_that_cannot_be_read_are_findings(tmp_path):
    records = [{"x": n} for n in range(12)] + [mnist_record(digits()[0], -3)]
    result = check(write(tmp_path / "in/a.tfrecords", records))
    assert [item.kind for item in result.problems] == ["missing-feature"] * 12 + ["label"]
    assert result.problems[-1].detail == "label -3; labels count from 0"
    assert "record 0 (offset 0)" in result.problems[0].path
    assert (result.num_pictures, result.classes) == (13, ("-3",))
    with pytest.raises(DataError, match="a record has the label -3"):
        build(tmp_path / "in", tmp_path / "out")


def test_sound_records_have_no_problems(tmp_path):
    path = write(
        tmp_path / "in/a.tfrecords", [mnist_record(p, n % 3) for n, p in enumerate(digits())]
    )
    for place in (path, path.parent):
        assert (check(place).problems, check(place).classes) == ([], ("0", "1", "2"))


def test_a_writer_that_was_not_closed(tmp_path):
    path = write(
        tmp_path / "in/a.tfrecords", [mnist_record(p, n % 3) for n, p in enumerate(digits())]
    )
    path.write_bytes(path.read_bytes()[:-100])
    result = build(path, tmp_path / "out")
    assert result.num_pictures == 29
    (skipped,) = result.skipped
    assert skipped.path == f"{path}:29"
    assert skipped.detail.startswith("record 29 (offset ")
    assert skipped.detail.endswith("): the file ends inside the record")
    with pytest.raises(DataError, match=r"a\.tfrecords:29 record 29 \(offset \d+\): the file ends"):
        build(path, tmp_path / "other", on_error="fail")
    assert [item.kind for item in check(path).problems] == ["damaged-record"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"x": 1, "y": b"a"}, r"a.tfrecord:1 has none of the layouts .* it has x, y"),
        ({"label": 1, "image_raw": b"12345"}, "5 bytes in image_raw, which are no square"),
        ({"label": 1, "image_raw": b"1234", "pixels": 784}, "4 bytes in image_raw and 784 as pix"),
        ({"label": 1.5, "image_raw": b"1234"}, r"has \[1\.5\] as label"),
        ({"label": [0, 1], "image_raw": b"1234"}, r"has \[0, 1\] as label"),
        ({"label": 1, "image_raw": 7}, "has numbers as image_raw"),
        ({"label": 1, "image": b"1234", "shape": b"\2\0\0\0"}, r"picture of the shape \[2\]"),
        ({"label": 1, "image": b"1234", "shape": [2, 2, 4]}, r"picture of the shape \[2, 2, 4\]"),
        ({"label": 1, "image": b"1234", "shape": [2, 3, 1]}, r"4 bytes for a picture of .*2, 3, 1"),
        ({"label": 1, "image": b"1234", "shape": b"\2\0\0"}, "3 bytes as shape"),
        ({"label": b"a", "image_raw": b"1234"}, "some labels are numbers and some are bytes"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_read(tmp_path, record, said):
    path = write(tmp_path / "in/a.tfrecord", [mnist_record(digits()[0], 0), record])
    with pytest.raises(DataError, match=said):
        build(path, tmp_path / "out", on_error="fail")


def test_a_damaged_record_is_skipped_and_named(tmp_path):
    path = write(
        tmp_path / "in/a.tfrecord", [mnist_record(p, n % 3) for n, p in enumerate(digits())]
    )
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    result = build(path, tmp_path / "out")
    assert result.num_pictures == 29
    assert [(item.path, item.detail) for item in result.skipped] == [
        (f"{path}:0", "record 0 (offset 0): the checksum of the record's data is wrong")
    ]


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff\xe0 a JPEG", bytes(100)])
def test_a_file_without_a_sound_record(tmp_path, data):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    (tmp_path / "labels.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"has no usable picture:\n.*record 0 \(offset 0\)"):
        build(path, tmp_path / "out")


def test_labels_of_bytes_that_are_neither(tmp_path):
    records = [array_record(p, np.float32([0, 1, 0]).tobytes()) for p in digits(2)]
    with pytest.raises(DataError, match="has a label of 12 bytes"):
        find_source(write(tmp_path / "in/a.tfrecord", records))


def test_records_of_other_data_stay_out_of_the_way(tmp_path):
    folder = tmp_path / "pets"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.jpg").write_bytes(jpeg(len(name)))
    write(folder / "old.tfrecord", [mnist_record(p, 0) for p in digits(2)])
    assert find_source(folder).classes == ("cat", "dog")


def test_a_folder_of_records_is_the_data_of_train(tmp_path):
    write(tmp_path / "in/a.tfrecord", [mnist_record(p, n % 3) for n, p in enumerate(digits())])
    dataset = find_dataset(tmp_path / "in", tmp_path / "run-data")
    assert sum(split.count for split in dataset.splits.values()) == COUNT


@pytest.mark.tensorflow
def test_the_writers_of_the_notes_are_read(tmp_path, examples):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    train = tf.train

    def whole(value):
        return train.Feature(int64_list=train.Int64List(value=[value]))

    def data(value):
        return train.Feature(bytes_list=train.BytesList(value=[value]))

    images, labels = digits(12), np.eye(10)[np.arange(12) % 10]
    (tmp_path / "a").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "a/output.tfrecords")) as writer:
        for image, label in zip(images, labels, strict=True):
            features = {
                "pixels": whole(images.shape[1] * images.shape[2]),
                "label": whole(np.argmax(label)),
                "image_raw": data(image.tobytes()),
            }
            example = train.Example(features=train.Features(feature=features))
            writer.write(example.SerializeToString())
    colours = digits(12, (6, 5, 3))
    (tmp_path / "b").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "b/output.tfrecords")) as writer:
        for number, image in enumerate(colours):
            features = {
                "label": data([b"cat", b"dog"][number % 2]),
                "shape": data(np.array(image.shape, np.int32).tobytes()),
                "image": data(image.tobytes()),
            }
            example = train.Example(features=train.Features(feature=features))
            writer.write(example.SerializeToString())
    for folder, given in (("a", images), ("b", colours)):
        build(tmp_path / folder, tmp_path / f"{folder}-out", val=0)
        found = examples(tmp_path / f"{folder}-out")
        assert len(found) == 12
        for name, features in found.items():
            number = int(name.split(":")[1])
            np.testing.assert_array_equal(pixels(features), given[number])
            decoded = tf.io.decode_png(features["image/encoded"][0]).numpy()
            np.testing.assert_array_equal(decoded.reshape(given[number].shape), given[number])
            expected = str(number % 10) if folder == "a" else ["cat", "dog"][number % 2]
            assert features["image/class/text"] == [expected.encode()]


@pytest.mark.tensorflow
def test_the_readers_of_the_notes_read_what_our_writer_writes(tmp_path):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    given, colours = digits(5), digits(5, (6, 5, 3))
    first = write(tmp_path / "a.tfrecord", [mnist_record(p, n) for n, p in enumerate(given)])
    second = write(tmp_path / "b.tfrecord", [array_record(p, b"cat") for p in colours])
    numbers = {
        "pixels": tf.io.FixedLenFeature([], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "image_raw": tf.io.FixedLenFeature([], tf.string),
    }
    for number, record in enumerate(tf.data.TFRecordDataset(str(first))):
        parsed = tf.io.parse_single_example(record, numbers)
        image = tf.io.decode_raw(parsed["image_raw"], tf.uint8).numpy().reshape(28, 28)
        np.testing.assert_array_equal(image, given[number])
        assert (int(parsed["pixels"]), int(parsed["label"])) == (784, number)
    arrays = dict.fromkeys(("label", "shape", "image"), tf.io.FixedLenFeature([], tf.string))
    for number, record in enumerate(tf.data.TFRecordDataset(str(second))):
        parsed = tf.io.parse_single_example(record, arrays)
        shape = tf.io.decode_raw(parsed["shape"], tf.int32)
        image = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), shape)
        np.testing.assert_array_equal(image.numpy(), colours[number])
        assert parsed["label"].numpy() == b"cat"
    assert [parse_example(record)["label"] for record in read_records(first)] == [
        [n] for n in range(5)
    ]
