"""The plain input pipelines: tf.data with one operation a step, as steps to be timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.bench.groups.read_pictures import BATCH, all_of, epoch_of


def train(dataset: str, size: str, count: str) -> Callable[[], Any]:
    """The step: an epoch of distorted pictures, in batches."""
    return epoch_of(plain_batches(dataset, int(size), is_training=True), int(count))


def evaluate(dataset: str, size: str, count: str) -> Callable[[], Any]:
    """The step: each picture once, in the order of the records."""
    return all_of(lambda: plain_batches(dataset, int(size), is_training=False), int(count))


def plain_batches(dataset: str, size: int, is_training: bool) -> Any:
    """A tf.data.Dataset of images and labels."""
    import tensorflow as tf

    def parse(record: Any) -> tuple[Any, Any]:
        features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
        features["image/class/label"] = tf.io.FixedLenFeature([], tf.int64)
        example = tf.io.parse_single_example(record, features)
        image = tf.image.decode_jpeg(example["image/encoded"], channels=3)
        image = tf.image.convert_image_dtype(image, tf.float32)
        image = distorted(image) if is_training else tf.image.central_crop(image, 0.875)
        image = tf.compat.v1.image.resize_bilinear(image[None], [size, size])[0]
        image = coloured(tf.image.random_flip_left_right(image)) if is_training else image
        return (image - 0.5) * 2.0, example["image/class/label"]

    def distorted(image: Any) -> Any:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), min_object_covered=0.1
        )
        return tf.ensure_shape(tf.slice(image, begin, extent), [None, None, 3])

    def coloured(image: Any) -> Any:
        image = tf.image.random_brightness(image, 32.0 / 255.0)
        image = tf.image.random_saturation(image, 0.5, 1.5)
        image = tf.image.random_hue(image, 0.2)
        image = tf.image.random_contrast(image, 0.5, 1.5)
        return tf.clip_by_value(image, 0.0, 1.0)

    records = tf.data.TFRecordDataset(sorted(map(str, Path(dataset).glob("*.tfrecord"))))
    if is_training:
        records = records.shuffle(1024).repeat()
    return records.map(parse, tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)
