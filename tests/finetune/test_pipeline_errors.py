"""A picture that TensorFlow cannot decode is named by shard, record and offset."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, GraphError
from exporters.runtime import load_tensorflow
from finetune import data
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import make_example, write_records
from finetune.input_pipeline import training_dataset
from finetune.pipeline_errors import data_errors
from finetune.preprocessing import Preprocessing

KINDS = {"tiff": ("TIFF", None), "cut": ("PNG", 60), "text": (None, None)}


def picture(kind, end=None):
    if kind is None:
        return b"no picture at all"
    buffer = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 256, (9, 12, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()[:end]


@pytest.fixture(params=KINDS)
def shard(request, tmp_path):
    pictures = [picture("JPEG"), picture("PNG"), picture(*KINDS[request.param])]
    path = tmp_path / "pets_train_00000-of-00001.tfrecord"
    write_records(
        path,
        (
            make_example({"image/encoded": encoded, "image/class/label": number % 2})
            for number, encoded in enumerate(pictures)
        ),
    )
    (tmp_path / "labels.txt").write_text("a\nb\n")
    return path


def test_iterating_a_loaded_split_names_the_record(shard):
    with pytest.raises(DataError) as caught, data.naming_errors(shard.parent):
        list(data.load(shard.parent, "train"))
    assert caught.value.message.startswith(f"{shard}: record 2 (offset ")
    assert caught.value.message.endswith("TensorFlow cannot decode the picture.")
    assert re.search("Unknown image file format|Invalid PNG", caught.value.received)
    assert "slimtune data check" in caught.value.next_step


def test_a_training_session_names_the_record(shard):
    tf = load_tensorflow()
    dataset = read_dataset(shard.parent)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = training_dataset(dataset, Preprocessing("inception", 8), 3, seed=1)
        following = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        with pytest.raises(DataError) as caught, data_errors(dataset):
            session.run(following)
    assert caught.value.message.startswith(f"{shard}: record 2 (offset ")


def test_a_graph_that_was_run_over_it_names_the_record(shard):
    tf = load_tensorflow()
    dataset = read_dataset(shard.parent)
    cause = tf.errors.InvalidArgumentError(None, None, "node DecodeImage: no picture")
    with pytest.raises(DataError, match=r"record 2 \(offset "), data_errors(dataset):
        raise GraphError("The graph failed.") from cause
    other = tf.errors.InvalidArgumentError(None, None, "Incompatible shapes")
    with pytest.raises(GraphError), data_errors(dataset):
        raise GraphError("The graph failed.") from other


def test_other_errors_of_tensorflow_stay_as_they_are(tmp_path):
    tf = load_tensorflow()
    path = tmp_path / "pets_train_00000-of-00001.tfrecord"
    write_records(path, [make_example({"image/encoded": picture("PNG"), "image/class/label": 0})])
    (tmp_path / "labels.txt").write_text("a\n")
    with pytest.raises(tf.errors.InvalidArgumentError), data_errors(read_dataset(tmp_path)):
        tf.debugging.assert_equal(1, 2)
