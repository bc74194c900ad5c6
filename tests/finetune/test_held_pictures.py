"""Pictures held in memory: the batches of the shards to the bit, and when they are held."""

import io

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError
from exporters.runtime import load_tensorflow
from finetune import TrainConfig
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import make_example, write_records
from finetune.held_pictures import bytes_held, held_dataset
from finetune.input_pipeline import training_dataset
from finetune.preprocessing import Preprocessing
from finetune.trunk import batches as batches_module
from finetune.trunk.batches import StepBatches

pytestmark = pytest.mark.tensorflow

HELD = "Pictures are decoded once and held in memory"


def first_batches(batches, count):
    return [(images.numpy(), labels.numpy()) for images, labels in batches.take(count)]


@pytest.mark.parametrize(("kind", "channels"), [("inception", 3), ("grey", 1)])
@pytest.mark.parametrize("start", [0, 5])
def test_the_batches_are_those_read_from_the_shards(kind, channels, start, colours):
    dataset = read_dataset(colours)
    net_input = Preprocessing(kind, 12)
    # Seven batches of 16 are two epochs of 44 pictures and more.
    expected = first_batches(
        training_dataset(dataset, net_input, 16, 3, "none", start_step=start), 7
    )
    held = held_dataset(dataset, net_input, 16, 3, start)
    found = first_batches(held, 7)
    assert held.element_spec[0].shape == (16, 12, 12, channels)
    for (images, labels), (their_images, their_labels) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(images, their_images)
        np.testing.assert_array_equal(labels, their_labels)
    assert bytes_held(dataset, net_input) == 44 * 12 * 12 * channels * 4


def test_a_picture_that_cannot_be_decoded_is_named(tmp_path):
    buffer = io.BytesIO()
    Image.new("L", (9, 9)).save(buffer, "PNG")
    whole = buffer.getvalue()
    records = [
        make_example({"image/encoded": data, "image/class/label": label})
        for label, data in enumerate([whole, whole[:40]])
    ]
    write_records(tmp_path / "cut_train_00000-of-00001.tfrecord", records)
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    with pytest.raises(DataError, match=r"cut_train_00000-of-00001\.tfrecord: record 1"):
        held_dataset(read_dataset(tmp_path), Preprocessing("grey", 9), 2, 0)


@pytest.fixture
def step_batches(colours, heard):
    """The first batches of steps on pictures, and whether these were held."""

    def step_batches(**options):
        tf = load_tensorflow()
        v1 = tf.compat.v1
        given = {"batch_size": 8, "steps": 11, "augment": "none", **options}
        config = TrainConfig(data=str(colours), run="r", **given)
        heard.said.clear()
        with tf.Graph().as_default() as graph:
            made = StepBatches(
                read_dataset(colours), Preprocessing("inception", 12), config, 2, heard
            )
            factor = v1.get_variable("factor", [])
            loss = factor * tf.reduce_sum(made.images)
            made.cut_before([loss], [factor], [factor], made.images)
            with v1.Session(graph=graph) as session:
                made.restart(session)
                found = [session.run((made.images, made.labels)) for _ in range(3)]
        return found, any(line.startswith(HELD) for line in heard.said)

    return step_batches


def test_steps_get_the_same_held_or_not(step_batches):
    # Nine steps are left: 72 of 44 pictures, most of which are shown once.
    assert not step_batches()[1]
    held, is_held = step_batches(steps=13)
    read, is_read = step_batches(steps=13, cache="off")
    assert (is_held, is_read) == (True, False)
    for (images, labels), (their_images, their_labels) in zip(held, read, strict=True):
        np.testing.assert_array_equal(images, their_images)
        np.testing.assert_array_equal(labels, their_labels)


def test_what_is_distorted_or_too_large_is_not_held(step_batches, monkeypatch):
    assert not step_batches(steps=13, augment="fast")[1]
    monkeypatch.setattr(batches_module, "LIMIT_BYTES", 44 * 12 * 12 * 3 * 4 - 1)
    assert not step_batches(steps=13)[1]
