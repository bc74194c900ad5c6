"""Batches: order, exact resuming, nothing left out, and damage named."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import make_example, write_records
from finetune.input_pipeline import (
    epoch_order,
    evaluation_dataset,
    training_dataset,
)
from finetune.pipeline_errors import find_data_error
from finetune.preprocessing import Preprocessing

pytestmark = pytest.mark.tensorflow

SMALL = Preprocessing("inception", 16)


@pytest.fixture(scope="module")
def tf():
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


def encode(number, kind):
    """A picture of one colour, which says its number: (10 * number) grey."""
    buffer = io.BytesIO()
    Image.new("RGB", (20, 18), (10 * number,) * 3).save(buffer, kind)
    return buffer.getvalue()


def write(directory, counts=(4, 3), split="train", named=True):
    """Shards of pictures 0, 1, 2 ...; each picture's label is its number."""
    directory.mkdir(exist_ok=True)
    number = 0
    for index, count in enumerate(counts):
        records = []
        for _ in range(count):
            features = {
                "image/encoded": encode(number, "PNG" if number % 2 else "JPEG"),
                "image/class/label": number,
            }
            records.append(
                make_example(features | ({"image/filename": f"{number}"} if named else {}))
            )
            number += 1
        name = f"greys_{split}_{index:05d}-of-{len(counts):05d}.tfrecord"
        write_records(directory / name, records)
    (directory / "labels.txt").write_text("".join(f"class {n}\n" for n in range(number)))
    return read_dataset(directory)


def take(batches, count):
    return [tuple(part.numpy() for part in batch) for batch in batches.take(count)]


def labels_of(batches, count):
    return np.concatenate([batch[1] for batch in take(batches, count)])


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000])
def test_an_epochs_order_is_a_permutation(count):
    order = epoch_order(3, 5, count)
    assert sorted(order) == list(range(count))
    assert np.array_equal(order, epoch_order(3, 5, count))


def test_orders_differ_and_are_fixed_for_ever():
    assert epoch_order(0, 0, 10).tolist() == [4, 8, 0, 1, 7, 6, 2, 5, 3, 9]
    assert epoch_order(0, 1, 10).tolist() != epoch_order(0, 0, 10).tolist()
    assert epoch_order(-1, 0, 10).tolist() != epoch_order(0, 0, 10).tolist()
    # The position of one record over many epochs is spread evenly.
    places = [int(np.flatnonzero(epoch_order(1, epoch, 10) == 3)[0]) for epoch in range(1000)]
    assert np.bincount(places, minlength=10).min() > 60


def test_training_batches(tf, tmp_path):
    batches = training_dataset(write(tmp_path), SMALL, 4, seed=1)
    images, labels = batches.element_spec
    assert (images.shape, images.dtype) == ((4, 16, 16, 3), tf.float32)
    assert (labels.shape, labels.dtype) == ((4,), tf.int64)
    for batch, _ in take(batches, 3):
        assert batch.min() >= -1
        assert batch.max() <= 1


def test_every_epoch_has_each_picture_once_in_another_order(tmp_path):
    dataset = write(tmp_path)
    labels = labels_of(training_dataset(dataset, SMALL, 7, seed=1), 5).reshape(5, 7)
    assert all(sorted(epoch) == list(range(7)) for epoch in labels)
    assert len({tuple(epoch) for epoch in labels}) > 3
    assert labels.tolist() == [epoch_order(1, epoch, 7).tolist() for epoch in range(5)]


def test_a_batch_may_be_larger_than_the_data(tmp_path):
    labels = labels_of(training_dataset(write(tmp_path), SMALL, 64, seed=1), 2)
    assert len(labels) == 128
    assert set(np.bincount(labels)) <= {18, 19}


def test_pictures_and_labels_stay_together(tmp_path):
    batches = training_dataset(write(tmp_path), SMALL, 7, seed=2, augment="none")
    images, labels = take(batches, 1)[0]
    shown = np.rint((images.mean((1, 2, 3)) / 2 + 0.5) * 255 / 10)
    assert shown.tolist() == labels.tolist()


@pytest.mark.parametrize("augment", ["full", "fast"])
@pytest.mark.parametrize("batch_size", [3, 40])
def test_a_run_that_goes_on_sees_what_it_would_have_seen(tmp_path, augment, batch_size):
    dataset = write(tmp_path)
    whole = take(training_dataset(dataset, SMALL, batch_size, 5, augment), 5)
    resumed = take(training_dataset(dataset, SMALL, batch_size, 5, augment, start_step=3), 2)
    assert same(whole[3], resumed[0])
    assert same(whole[4], resumed[1])


def test_the_number_of_threads_changes_nothing(tmp_path):
    dataset = write(tmp_path)
    one, many = (
        take(training_dataset(dataset, SMALL, 8, 5, threads=threads), 4) for threads in (1, 6)
    )
    assert all(same(*pair) for pair in zip(one, many, strict=True))


def test_another_seed_is_another_order_and_another_view(tmp_path):
    dataset = write(tmp_path, counts=(1,))
    first, second = (take(training_dataset(dataset, SMALL, 4, seed), 1)[0] for seed in (1, 2))
    assert not np.array_equal(first[0], second[0])
    # The four views of the one picture differ, as each is of another epoch.
    assert len({view.tobytes() for view in first[0]}) == 4


def test_evaluation_gives_each_picture_once_in_order(tf, tmp_path):
    dataset = write(tmp_path, counts=(40, 3))
    batches = evaluation_dataset(dataset, "train", SMALL, 16)
    assert batches.element_spec[0].shape.as_list() == [None, 16, 16, 3]
    found = take(batches, -1)
    assert [len(labels) for _, labels, _ in found] == [16, 16, 11]
    assert np.concatenate([labels for _, labels, _ in found]).tolist() == list(range(43))
    assert np.concatenate([names for _, _, names in found]).tolist() == [
        str(number).encode() for number in range(43)
    ]
    for images, labels, _ in found:
        assert np.array_equal(images[0], SMALL.evaluation(encode(labels[0], "JPEG")).numpy())


def test_validation_and_val_are_one_and_unnamed_records_are_named_by_place(tmp_path):
    dataset = write(tmp_path, counts=(2, 1), split="validation", named=False)
    for split in ("val", "validation"):
        names = take(evaluation_dataset(dataset, split, SMALL, 8), -1)[0][2].tolist()
        assert names == [
            b"greys_validation_00000-of-00002.tfrecord:0",
            b"greys_validation_00000-of-00002.tfrecord:1",
            b"greys_validation_00001-of-00002.tfrecord:0",
        ]
    with pytest.raises(NotFoundError, match="no pictures in the split 'train'"):
        training_dataset(dataset, SMALL, 8, seed=1)


def test_the_same_in_a_graph_of_ones_own(tf, tmp_path):
    dataset = write(tmp_path)
    eager = take(training_dataset(dataset, SMALL, 4, 9, start_step=2), 2)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_dataset(dataset, SMALL, 4, 9, start_step=2)
        iterator = v1.data.make_initializable_iterator(batches)
        following = iterator.get_next()
        assert following[0].shape == (4, 16, 16, 3)
        one_shot = v1.data.make_one_shot_iterator(evaluation_dataset(dataset, "train", SMALL, 5))
        evaluated = one_shot.get_next()
        session.run(iterator.initializer)
        assert same(session.run(following), eager[0])
        assert same(session.run(following), eager[1])
        assert [len(session.run(evaluated)[1]) for _ in range(2)] == [5, 2]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(evaluated)


def flip_byte(path, record, behind):
    """Changes a byte of a record: the first one behind some bytes in it."""
    from finetune.datasets.records import mapped, record_places

    with mapped(path) as view:
        place = list(record_places(path, view))[record]
    data = bytearray(path.read_bytes())
    data[data.index(behind, place.start) + len(behind)] ^= 1
    path.write_bytes(data)


def test_a_damaged_record_met_in_training_is_named(tf, tmp_path):
    dataset = write(tmp_path)
    path = dataset.split("train").shards[1].path
    flip_byte(path, 2, b"JFIF")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = training_dataset(dataset, SMALL, 7, seed=1)
        following = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(following)
    error = find_data_error(caught.value)
    assert isinstance(error, DataError)
    assert error.message.startswith(f"{path}: record 2 (offset ")
    assert error.message.endswith("the checksum of the record's data is wrong.")
    assert find_data_error(ValueError("something else")) is None


def test_damage_inside_the_features_is_called_damage(tmp_path):
    dataset = write(tmp_path)
    path = dataset.split("train").shards[0].path
    flip_byte(path, 2, b"image/class/labe")
    with pytest.raises(DataError, match=r"record 2 \(offset \d+\): the checksum of the"):
        training_dataset(dataset, SMALL, 7, seed=1)


def test_damage_that_shows_in_the_frames_is_found_before_the_first_batch(tmp_path):
    dataset = write(tmp_path)
    path = dataset.split("train").shards[0].path
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"record 3 \(offset \d+\): the file ends inside"):
        training_dataset(dataset, SMALL, 7, seed=1)


def test_load_gives_plain_pictures_or_the_nets_input(tf, tmp_path):
    from finetune.data import load

    write(tmp_path)
    pictures = load(tmp_path, "train")
    assert pictures.element_spec[0].dtype == tf.uint8
    found = take(pictures, -1)
    assert [int(label) for _, label in found] == list(range(7))
    assert found[3][0].shape == (18, 20, 3)
    assert (found[3][0] == 30).all()
    sized = load(tmp_path, "train", image_size=16)
    assert sized.element_spec[0].shape == (16, 16, 3)
    image, label = take(sized, 2)[1]
    assert np.array_equal(image, SMALL.evaluation(encode(int(label), "PNG")).numpy())
