"""TFRecord files: exact bytes, every kind of damage, and TensorFlow on the other side."""

from __future__ import annotations

import re

import numpy as np
import pytest

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.records import (
    count_records,
    make_example,
    parse_example,
    read_records,
    write_records,
)

RECORDS = [b"", b"one", bytes(range(256)) * 5]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "花_train_00000-of-00001.tfrecord"
    write_records(path, RECORDS)
    return path


def test_a_record_is_length_checksum_data_checksum(tmp_path):
    path = tmp_path / "one.tfrecord"
    assert write_records(path, [b"slim"]) == 1
    # Written by tf.io.TFRecordWriter of TensorFlow 2.21.
    assert path.read_bytes().hex() == "0400000000000000" + "42455204" + "736c696d" + "68ca0e94"


def test_what_is_written_is_read(path):
    assert list(read_records(path)) == RECORDS
    assert list(read_records(path, expected_count=3)) == RECORDS
    assert count_records(path) == 3


def test_paths_may_be_text_and_folders_are_made(tmp_path):
    path = tmp_path / "of/digits.tfrecord"
    assert write_records(str(path), iter(RECORDS)) == 3
    assert list(read_records(str(path))) == RECORDS


def test_nothing_is_left_of_a_write_that_fails(tmp_path):
    def records():
        yield b"one"
        raise RuntimeError("the source ends here")

    with pytest.raises(RuntimeError):
        write_records(tmp_path / "a.tfrecord", records())
    assert list(tmp_path.iterdir()) == []


def fault(path, data=None):
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        list(read_records(path))
    return caught.value


def test_a_file_cut_by_seven_bytes(path):
    error = fault(path, path.read_bytes()[:-7])
    assert error.message == f"{path}: record 2 (offset 35): the file ends inside the record."
    assert error.expected == "1280 bytes of data and a checksum of 4"
    assert error.received == "1277 bytes to the end of the file"
    with pytest.raises(DataError, match=r"record 2 \(offset 35\)"):
        count_records(path)


def test_a_file_cut_inside_a_frame(path):
    error = fault(path, path.read_bytes()[: 35 + 5])
    assert (
        error.message == f"{path}: record 2 (offset 35): the file ends inside the record's frame."
    )


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (16 + 13, "record 1 (offset 16): the checksum of the record's data is wrong"),
        (16 + 15, "record 1 (offset 16): the checksum of the record's data is wrong"),
        (35, "record 2 (offset 35): the checksum of the record's length is wrong"),
        (35 + 8, "record 2 (offset 35): the checksum of the record's length is wrong"),
    ],
)
def test_a_flipped_byte(path, place, said):
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    assert fault(path, bytes(data)).message == f"{path}: {said}."


def test_the_records_before_the_damage_are_read(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    read = []
    with pytest.raises(DataError):
        for record in read_records(path):
            read.append(record)
    assert read == RECORDS[:2]


def test_a_file_of_zero_bytes(path):
    assert fault(path, b"").message == f"{path}: record 0 (offset 0): the file is empty."
    assert list(read_records(path, expected_count=0)) == []
    with pytest.raises(DataError, match="the file is empty") as caught:
        list(read_records(path, expected_count=4))
    assert caught.value.expected == "4 records, as dataset.json says"


def test_a_file_that_lacks_whole_records(path):
    path.write_bytes(path.read_bytes()[:35])
    with pytest.raises(DataError) as caught:
        list(read_records(path, expected_count=3))
    assert caught.value.message == f"{path} ends after record 1 (offset 35)."
    assert caught.value.received == "2 records"


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (b"\xff\xd8\xff\xe0" + b"jpeg" * 20, "a JPEG picture, by its first bytes"),
        (b"\x1f\x8b\x08" + b"zipped" * 9, "gzip-compressed data, by its first bytes"),
        (b"abcdefgh" * 9, "bytes that begin with 61 62 63 64 65 66 67 68"),
    ],
)
def test_something_else_named_tfrecord(path, data, looks_like):
    error = fault(path, data)
    assert "record 0 (offset 0)" in error.message
    assert error.received == looks_like


def test_a_declared_length_beyond_the_file_is_not_allocated(path):
    from checkpoints.checksum import crc32c, mask

    length = (1 << 50).to_bytes(8, "little")
    header = length + mask(crc32c(length)).to_bytes(4, "little")
    assert "the file ends inside the record" in fault(path, header + b"short").message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(NotFoundError, match=re.escape("gone.tfrecord is not there")):
        list(read_records(tmp_path / "gone.tfrecord"))


FEATURES = {
    "image/encoded": b"\xff\xd8\0",
    "image/class/text": "花",
    "image/class/label": np.int64(-3),
    "shape": [1, 2, 1 << 40],
    "box": (0.25, 1),
    "none": [],
}
READ = {
    "image/encoded": [b"\xff\xd8\0"],
    "image/class/text": ["花".encode()],
    "image/class/label": [-3],
    "shape": [1, 2, 1 << 40],
    "box": [0.25, 1.0],
    "none": [],
}


def test_an_example_comes_back():
    assert parse_example(make_example(FEATURES)) == READ
    assert make_example(FEATURES) == make_example(dict(reversed(FEATURES.items())))


def test_bytes_that_are_no_example():
    with pytest.raises(DataError, match=r"no tf\.train\.Example") as caught:
        parse_example(b"\xff\xd8\xff\xe0 a picture")
    assert caught.value.received == "a JPEG picture, by its first bytes"


@pytest.mark.tensorflow
def test_tensorflow_reads_what_is_written_and_the_other_way_round(tmp_path, path):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    read = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    assert read == RECORDS
    theirs = tmp_path / "theirs.tfrecord"
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for record in RECORDS:
            writer.write(record)
    assert theirs.read_bytes() == path.read_bytes()


@pytest.mark.tensorflow
def test_tensorflow_understands_the_examples():
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    example = tf.train.Example.FromString(make_example(FEATURES))
    assert example.features.feature["shape"].int64_list.value == [1, 2, 1 << 40]
    assert example.features.feature["box"].float_list.value == [0.25, 1.0]
    assert parse_example(example.SerializeToString()) == READ
    parsed = tf.io.parse_single_example(
        make_example(FEATURES),
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    assert parsed["image/encoded"].numpy() == b"\xff\xd8\0"
    assert parsed["image/class/label"].numpy() == -3
