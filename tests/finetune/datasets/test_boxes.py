"""Boxes of the records: found, kept with their pictures, given to the crops, drawn."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from finetune.datasets.dataset import read_dataset
from finetune.datasets.record_index import read_index
from finetune.datasets.records import make_example, write_records
from finetune.preprocessing import Preprocessing

SIDES = ("ymin", "xmin", "ymax", "xmax")
BOXES = [
    [(0.5, 0.25, 1.0, 0.75)],
    [],
    [(0.0, 0.0, 0.125, 0.5), (0.25, 0.5, 0.375, 1.0), (0.75, 0.0, 1.0, 0.25)],
]


def encoded(size=(40, 30), colour=(90, 120, 60)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def box_features(boxes):
    return {f"image/object/bbox/{s}": [box[n] for box in boxes] for n, s in enumerate(SIDES)}


def write(directory, boxes_of_all=BOXES, shards=2, picture=None):
    """Records in turn over the shards: record n is in shard n % shards; labels are 0."""
    examples = [
        make_example(
            {"image/encoded": picture or encoded(), "image/class/label": 0}
            | (box_features(boxes) if boxes else {})
        )
        for boxes in boxes_of_all
    ]
    for shard in range(shards):
        name = f"boxed_train_{shard:05d}-of-{shards:05d}.tfrecord"
        write_records(directory / name, examples[shard::shards])
    (directory / "labels.txt").write_text("thing\n")
    return read_dataset(directory)


def test_the_index_has_the_boxes_of_each_record(tmp_path):
    index = read_index(write(tmp_path).split("train"))
    assert index.boxes.dtype == np.float32
    # The records 0 and 2 are in the first shard, record 1 in the second.
    assert [index.boxes_of(n).tolist() for n in range(3)] == [
        [list(box) for box in BOXES[n]] for n in (0, 2, 1)
    ]
    assert index.box_ends.tolist() == [1, 4, 4]


def test_records_without_boxes_have_none(tmp_path):
    index = read_index(write(tmp_path, [[], []]).split("train"))
    assert index.boxes.shape == (0, 4)
    assert index.boxes_of(1).shape == (0, 4)


def test_numbers_one_by_one_are_read_as_packed_ones_are(tmp_path):
    """protobuf's writers pack float lists; a reader has to take both."""
    from finetune.datasets.record_index import _read_floats

    packed = b"\x12\x0a\x0a\x08" + np.array([0.5, 0.75], "<f4").tobytes()
    single = b"".join(b"\x0d" + np.float32(value).tobytes() for value in (0.5, 0.75))
    single = b"\x12" + bytes([len(single)]) + single
    for data in (packed, single):
        assert _read_floats(memoryview(data), 0, len(data)).tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("box", "received"),
    [
        ((0.0, 0.0, 1.25, 1.0), "'ymax': 1.25"),
        ((0.5, 0.0, 0.5, 1.0), "'ymin': 0.5, 'xmin': 0.0, 'ymax': 0.5"),
        ((float("nan"), 0.0, 0.5, 1.0), "'ymin': nan"),
    ],
)
def test_a_box_outside_its_picture_is_named(tmp_path, box, received):
    dataset = write(tmp_path, [[], [], [(0.0, 0.0, 1.0, 1.0), box]])
    with pytest.raises(DataError, match="record 1 has a box that lies not inside") as caught:
        read_index(dataset.split("train"))
    assert received in str(caught.value)


def test_sides_that_are_missing_are_named(tmp_path):
    features = {"image/encoded": encoded(), "image/class/label": 0}
    lame = box_features(BOXES[2]) | {"image/object/bbox/xmax": [0.5]}
    name = "boxed_train_00000-of-00001.tfrecord"
    write_records(tmp_path / name, [make_example(features | lame)])
    (tmp_path / "labels.txt").write_text("thing\n")
    with pytest.raises(DataError, match="record 0 has boxes with sides missing") as caught:
        read_index(read_dataset(tmp_path).split("train"))
    assert "[3, 3, 3, 1]" in str(caught.value)


def test_data_check_finds_boxes_that_would_stop_a_run(tmp_path):
    from finetune.datasets.check import check

    write(tmp_path, [BOXES[2], [(0.0, 0.0, 0.5, 0.5), (0.25, 0.5, 1.5, 0.75)], []], shards=1)
    found = [item for item in check(tmp_path).problems if item.kind == "box"]
    assert [item.path.split(": ")[-1].split(" (")[0] for item in found] == ["record 1"]
    assert found[0].detail == (
        "has a box that lies not inside its picture: ymin 0.25, xmin 0.5, ymax 1.5, xmax 0.75"
    )
    features = {"image/encoded": encoded(), "image/class/label": 0}
    lame = box_features(BOXES[2]) | {"image/object/bbox/xmax": [0.5]}
    write_records(tmp_path / "boxed_train_00000-of-00001.tfrecord", [make_example(features | lame)])
    details = [item.detail for item in check(tmp_path).problems if item.kind == "box"]
    assert details == ["has 3, 3, 3, 1 values of ymin, xmin, ymax, xmax"]
    lame["image/object/bbox/xmax"] = [b"right"]
    write_records(tmp_path / "boxed_train_00000-of-00001.tfrecord", [make_example(features | lame)])
    details = [item.detail for item in check(tmp_path).problems if item.kind == "box"]
    assert details == ["has 3, 3, 3, 0 values of ymin, xmin, ymax, xmax"]


@pytest.mark.tensorflow
def test_the_pipeline_gives_each_picture_its_boxes(tmp_path):
    from exporters.runtime import load_tensorflow
    from finetune.input_pipeline import PictureReader, training_dataset

    tf = load_tensorflow()
    random = np.random.default_rng(1)
    buffer = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (64, 80, 3), np.uint8)).save(buffer, "PNG")
    # A box so small that few crops of the whole picture would show any of it.
    boxes = [[(0.0, 0.0, 0.125, 0.125)], []]
    dataset = write(tmp_path, boxes, picture=buffer.getvalue())
    net_input = Preprocessing("inception", 16)
    reader = PictureReader(read_index(dataset.split("train")), 5)
    _, _, keys, found = reader.shuffled(0, 20)
    assert found.shape == (20, 1, 4)
    views = next(iter(training_dataset(dataset, net_input, 20, seed=5)))[0].numpy()
    met = set()
    for view, key, box in zip(views, keys, found, strict=True):
        met.add(tuple(box[0].tolist()))
        expected = net_input.training(buffer.getvalue(), key, "full", tf.constant(box))
        assert np.array_equal(view, expected.numpy())
    assert met == {(0, 0, 0.125, 0.125), (0, 0, 1, 1)}


@pytest.mark.tensorflow
def test_a_chunk_of_records_with_few_and_many_boxes(tmp_path):
    from finetune.input_pipeline import PictureReader

    reader = PictureReader(read_index(write(tmp_path, shards=1).split("train")), 0)
    first, second, third = BOXES[2]
    assert reader.boxes(np.array([2, 0, 1])).tolist() == [
        [list(first), list(second), list(third)],
        [list(BOXES[0][0])] * 3,
        [[0, 0, 1, 1]] * 3,
    ]


@pytest.mark.tensorflow
def test_crops_show_a_tenth_of_one_of_the_boxes():
    from exporters.runtime import load_tensorflow
    from finetune.pixels.decode import sample_crop

    tf = load_tensorflow()
    boxes = np.array([(0.0, 0.0, 0.2, 0.2), (0.8, 0.8, 1.0, 1.0)], np.float32)
    shown = np.zeros(2, int)
    for number in range(60):
        key = np.array([2, 2 * number], np.int64)
        begin, size = sample_crop(tf.constant([100, 100, 3]), key, tf.constant(boxes))
        (top, left, _), (height, width, _) = begin.numpy(), size.numpy()
        covered = [
            max(0, min(top + height, bottom) - max(top, up))
            * max(0, min(left + width, right) - max(left, side))
            for up, side, bottom, right in boxes * 100
        ]
        assert max(covered) >= 0.09 * 400
        shown += np.array(covered) >= 36
    assert shown.min() > 10


@pytest.mark.tensorflow
def test_the_sheet_draws_given_boxes_in_white(tmp_path):
    from finetune.datasets.sheet import CELL, draw_sheet

    write(tmp_path, [[(0.25, 0.25, 0.75, 0.75)]], shards=1, picture=encoded((288, 288)))
    draw_sheet(tmp_path, tmp_path / "boxes.png", mode="boxes", per_class=1)
    draw_sheet(tmp_path, tmp_path / "plain.png", mode="plain", per_class=1)
    with Image.open(tmp_path / "boxes.png") as image:
        sheet = np.asarray(image.convert("RGB")).astype(int)
    with Image.open(tmp_path / "plain.png") as image:
        plain = np.asarray(image.convert("RGB")).astype(int)
    rows, columns = np.nonzero((np.abs(plain - (90, 120, 60)).max(-1)) < 3)
    top, left = rows.min(), columns.min()
    assert rows.max() - top + 1 == CELL
    middle = sheet[top + CELL // 4, left + CELL // 4 : left + CELL * 3 // 4]
    assert (middle.min(-1) > 200).mean() > 0.5
