"""The notes on records and readers: what is written, and the batches that come of it."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune import data
from finetune.datasets.dataset import read_dataset
from finetune.input_pipeline import training_dataset
from finetune.preprocessing import Preprocessing

pytestmark = pytest.mark.tensorflow

COUNT = 12
PIXELS = np.random.default_rng(1).integers(0, 256, (COUNT, 28, 28), np.uint8)
ONE_HOT = np.eye(10, dtype=np.float32)[[7, 2, 1, 0, 4, 1, 4, 9, 5, 9, 0, 6]]


def as_example(pixels, label):
    """A record of a digit as the notes lay it out."""
    return data.make_example({"pixels": pixels.size, "label": label, "image_raw": pixels.tobytes()})


def digits():
    return (as_example(p, np.argmax(row)) for p, row in zip(PIXELS, ONE_HOT, strict=True))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The digits as one TFRecord file."""
    path = tmp_path_factory.mktemp("digits") / "train.tfrecord"
    assert data.write_records(path, digits()) == COUNT
    return path


@pytest.fixture(scope="module")
def dataset(records):
    """The dataset built of it."""
    out = records.parent / "dataset"
    data.build(records, out, val=0)
    return out


def schema(tf):
    kinds = {"pixels": tf.int64, "label": tf.int64, "image_raw": tf.string}
    return {name: tf.io.FixedLenFeature([], kind) for name, kind in kinds.items()}


def test_tfrecords_written_here_are_read_by_tensorflow(tf, records):
    serialised = tf.data.TFRecordDataset(str(records))
    for number, record in enumerate(serialised):
        found = tf.io.parse_single_example(record, schema(tf))
        assert (found["pixels"], found["label"]) == (784, np.argmax(ONE_HOT[number]))
        pixels = tf.reshape(tf.io.decode_raw(found["image_raw"], tf.uint8), [28, 28])
        assert np.array_equal(pixels, PIXELS[number])
    assert number == COUNT - 1


def test_tfrecords_written_by_tensorflow_are_read_here(tf, tmp_path):
    """The second layout: label, shape (three int32) and picture as bytes; read back by reshape."""
    path = tmp_path / "train.tfrecord"
    picture = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    values = {
        "label": b"rose",
        "shape": np.array(picture.shape, np.int32).tobytes(),
        "image": picture.tobytes(),
    }
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        for name, value in values.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example.SerializeToString())
    (record,) = data.read_records(path)
    found = data.parse_example(record)
    assert found == {name: [value] for name, value in values.items()}
    shape = np.frombuffer(found["shape"][0], np.int32)
    assert np.array_equal(np.frombuffer(found["image"][0], np.uint8).reshape(shape), picture)
    built = data.build(path, tmp_path / "dataset", val=0)
    assert built.classes == ("rose",)
    ((image, label),) = data.load(built.path)
    assert np.array_equal(image, picture)
    assert label == 0


def test_labels_are_the_argmax_of_the_row(records, tmp_path):
    """Fault: argmax of the row's length labels everything 0. `data check` tells of such a file."""
    wrong = tmp_path / "train.tfrecord"
    data.write_records(wrong, (as_example(pixels, np.argmax(10)) for pixels in PIXELS))
    (problem,) = data.check(wrong).problems
    assert problem.kind == "one-label"
    assert "all 12 records have the label 0; a writer that takes the argmax" in problem.detail
    assert data.check(records).problems == []
    labels = [data.parse_example(record)["label"] for record in data.read_records(records)]
    assert labels == [[int(label)] for label in ONE_HOT.argmax(1)]


def test_the_file_is_closed_when_writing_returns(tf, tmp_path):
    """Fault: a writer never closed, whose last records are in no file. Ours leaves a whole one or none."""
    unclosed = tmp_path / "unclosed.tfrecord"
    writer = tf.io.TFRecordWriter(str(unclosed))
    writer.write(as_example(PIXELS[0], 7))
    with pytest.raises(DataError, match=r"record 0 \(offset 0\): the file is empty"):
        list(data.read_records(unclosed))
    writer.close()
    assert len(list(data.read_records(unclosed))) == 1

    def interrupted():
        yield as_example(PIXELS[0], 7)
        raise KeyboardInterrupt

    before = unclosed.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        data.write_records(unclosed, interrupted())
    assert unclosed.read_bytes() == before
    assert list(tmp_path.iterdir()) == [unclosed]


def as_pairs(images, labels):
    """What a batch holds, whatever its order."""
    return [(np.asarray(i).tobytes(), int(n)) for i, n in zip(images, labels, strict=True)]


def test_batched_reading(tf, records, dataset):
    """read_up_to's successor: full batches and the rest, parsed whole; pictures come decoded."""
    plain, decoded = [], []
    for serialised in tf.data.TFRecordDataset(str(records)).batch(5):
        found = tf.io.parse_example(serialised, schema(tf))
        images = tf.reshape(tf.io.decode_raw(found["image_raw"], tf.uint8), [-1, 28, 28])
        plain.append(as_pairs(images, found["label"]))
    names = [int(name) for name in read_dataset(dataset).classes]
    for images, labels in data.load(dataset).batch(5):
        assert images.shape[1:] == (28, 28, 3)
        decoded.append(as_pairs(images[..., 0], [names[label] for label in labels]))
    assert [len(batch) for batch in plain] == [len(batch) for batch in decoded] == [5, 5, 2]
    assert sorted(itertools.chain(*plain)) == sorted(itertools.chain(*decoded))


def png(level):
    buffer = io.BytesIO()
    Image.new("RGB", (5, 4), (level, 2 * level, 3 * level)).save(buffer, "PNG")
    return buffer.getvalue()


def test_whole_files(tf, tmp_path):
    """WholeFileReader: a file a record, its bytes as they are, its class the folder's name."""
    for place, name in enumerate(["daisy", "rose", "daisy"]):
        (tmp_path / "pictures" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "pictures" / name / f"{place}.png").write_bytes(png(10 * place))
    built = data.build(tmp_path / "pictures", tmp_path / "out", val=0)
    (split,) = read_dataset(built.path).splits.values()
    found = {}
    for shard in split.shards:
        for record in map(data.parse_example, data.read_records(shard.path)):
            name = record["image/filename"][0].decode()
            found[name] = record["image/encoded"][0], record["image/class/text"][0].decode()
    files = tf.data.Dataset.list_files(str(tmp_path / "pictures/*/*.png"))
    by_tensorflow = {
        "/".join(path.numpy().decode().split("/")[-2:]): tf.io.read_file(path).numpy()
        for path in files
    }
    assert found == {name: (file, name.split("/")[0]) for name, file in by_tensorflow.items()}
    assert len(found) == 3


def test_shards_of_flowers_as_tf_slim_has_them(tmp_path):
    """The third layout: splits train and validation in five shards, classes as 0:daisy in labels.txt."""
    for split, first in (("train", 10), ("validation", 60)):
        for shard in range(5):
            example = data.make_example(
                {
                    "image/encoded": png(first + shard),
                    "image/format": b"png",
                    "image/class/label": shard % 2,
                    "image/height": 4,
                    "image/width": 5,
                }
            )
            path = tmp_path / f"flowers_{split}_{shard:05d}-of-00005.tfrecord"
            data.write_records(path, [example])
    (tmp_path / "labels.txt").write_text("0:daisy\n1:dandelion\n")
    assert read_dataset(tmp_path).classes == ("daisy", "dandelion")
    for split, first in (("train", 10), ("validation", 60)):
        pairs = [(image.numpy(), int(label)) for image, label in data.load(tmp_path, split)]
        assert [label for _, label in pairs] == [0, 1, 0, 1, 0]
        levels = [first, first + 1, first + 2, first + 3, first + 4]
        assert [image[0, 0].tolist() for image, _ in pairs] == [[n, 2 * n, 3 * n] for n in levels]
        assert {image.shape for image, _ in pairs} == {(4, 5, 3)}


def test_epochs_are_shuffled_whole(dataset):
    """shuffle_batch mixed what stood near in a queue; today an epoch is one order of all records."""
    batches = training_dataset(
        read_dataset(dataset), Preprocessing("none", 28), 4, seed=3, augment="none"
    )
    shown = [np.asarray(i).tobytes() for images, _ in batches.take(6) for i in images]
    first, second = shown[:COUNT], shown[COUNT:]
    assert len(set(first)) == COUNT
    assert sorted(first) == sorted(second)
    assert first != second


def test_fixed_length_records(tf, tmp_path):
    """CIFAR: a byte of label and 3,072 of picture, a plane a colour; the notes' fixed-length reader."""
    draw = np.random.default_rng(6).integers(0, 256, (4, 3073), np.uint8)
    draw[:, 0] = [3, 0, 3, 1]
    folder = tmp_path / "cifar"
    folder.mkdir()
    path = folder / "data_batch_1.bin"
    path.write_bytes(draw.tobytes())
    by_tensorflow = []
    for record in tf.data.FixedLengthRecordDataset(str(path), 3073):
        values = tf.io.decode_raw(record, tf.uint8)
        planes = tf.reshape(values[1:], [3, 32, 32])
        by_tensorflow += as_pairs([tf.transpose(planes, [1, 2, 0])], [values[0]])
    built = data.build(folder, tmp_path / "out", val=0)
    names = [int(name) for name in built.classes]
    found = [as_pairs([image], [names[label]])[0] for image, label in data.load(built.path)]
    assert sorted(found) == sorted(by_tensorflow)
    path.write_bytes(draw.tobytes()[:-1])
    with pytest.raises(DataError, match="no whole number of records"):
        data.build(folder, tmp_path / "cut", val=0)


def test_csv_of_the_heart_data(tf, tmp_path):
    """Header skipped, empty cells by column, Present and Absent as 1 and 0, batches for two epochs."""
    lines = [
        "sbp,tobacco,ldl,adiposity,famhist,typea,obesity,alcohol,age,chd",
        "160,12,5.73,23.11,Present,49,25.3,97.2,52,1",
        "144,0.01,4.41,28.61,Absent,55,28.87,2.06,63,1",
        "118,,3.48,32.28,,52,29.14,3.81,46,0",
    ]
    path = tmp_path / "heart.csv"
    path.write_text("\n".join(lines) + "\n")
    defaults = [0.0, 0.0, 0.0, 0.0, "Absent", 0.0, 0.0, 0.0, 0.0, 0]
    table = data.read_numeric_csv(path, defaults, categories={"Present": 1, "Absent": 0})
    assert table.names[4] == "famhist"
    columns = tf.io.decode_csv(lines[1:], record_defaults=[[value] for value in defaults])
    columns[4] = tf.cast(columns[4] == b"Present", tf.float32)
    assert np.array_equal(table.features, np.stack(columns[:9], axis=1))
    assert np.array_equal(table.labels, columns[9])
    batches = list(data.shuffled_batches(table, 2, epochs=2))
    assert [features.shape for features, _ in batches] == [(2, 9)] * 3
    ages = np.concatenate([features[:, 8] for features, _ in batches])
    assert sorted(ages) == [46, 46, 52, 52, 63, 63]
    assert sorted(ages[:3]) == [46, 52, 63]
