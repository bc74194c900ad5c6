"""The preprocessings lenet, cifar, grey and none, against TensorFlow's own operations."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from finetune.preprocessing import Preprocessing

pytestmark = pytest.mark.tensorflow

SHAPES = [(28, 28), (32, 32), (40, 51), (7, 60), (61, 9), (1, 1)]


@pytest.fixture(scope="module")
def tf():
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def encode(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def key(number):
    return np.array([3, 2 * number], np.int64)


@pytest.mark.parametrize("shape", SHAPES)
def test_lenet_is_the_picture_in_a_frame_around_zero(tf, shape):
    pixels = picture(*shape)
    framed = tf.image.resize_with_crop_or_pad(tf.cast(pixels, tf.float32), 28, 28)
    expected = ((framed - 128.0) / 128.0).numpy()
    net_input = Preprocessing("lenet", 28)
    data = encode(pixels)
    for found in (
        net_input.evaluation(data),
        net_input.evaluation_of_image(tf.constant(pixels)),
        net_input.training(data, key(1)),
        net_input.training(data, key(2), "fast"),
    ):
        assert found.shape == (28, 28, 3)
        assert np.array_equal(found.numpy(), expected)
    low, high = net_input.value_range
    assert low <= expected.min()
    assert expected.max() <= high == 127 / 128


@pytest.mark.parametrize("shape", SHAPES)
def test_cifar_evaluation_is_the_standardised_middle(tf, shape):
    pixels = picture(*shape)
    framed = tf.image.resize_with_crop_or_pad(tf.cast(pixels, tf.float32), 32, 32)
    expected = tf.image.per_image_standardization(framed).numpy()
    found = Preprocessing("cifar", 32).evaluation(encode(pixels)).numpy()
    assert np.allclose(found, expected, atol=1e-6)
    assert abs(found.mean()) < 1e-5
    assert abs(found.std() - 1) < 1e-4


def test_cifar_of_one_colour_is_zero():
    data = encode(np.full((32, 32, 3), 77, np.uint8))
    assert not Preprocessing("cifar", 32).evaluation(data).numpy().any()


def reference_cifar(tf, pixels, seed, size, augment):
    """A training view out of plain operations, and where it was cut and whether it was turned."""
    draws = tf.random.stateless_uniform([5], seed).numpy()
    padded = np.pad(pixels.astype(np.float32), ((4, 4), (4, 4), (0, 0)))
    top = int(draws[0] * np.float32(padded.shape[0] - size + 1))
    left = int(draws[1] * np.float32(padded.shape[1] - size + 1))
    image = tf.constant(padded[top : top + size, left : left + size])
    is_turned = bool(draws[2] < 0.5)
    if is_turned:
        image = tf.image.flip_left_right(image)
    if augment == "full":
        image = tf.image.adjust_brightness(image, (2 * draws[3] - 1) * 63)
        image = tf.image.adjust_contrast(image, 0.2 + 1.6 * draws[4])
    return tf.image.per_image_standardization(image).numpy(), (top, left, is_turned)


@pytest.mark.parametrize("augment", ["full", "fast"])
def test_cifar_training_views_are_made_of_tensorflows_operations(tf, augment):
    pixels = picture(32, 36)
    data = encode(pixels)
    met = set()
    for number in range(25):
        expected, choice = reference_cifar(tf, pixels, key(number), 32, augment)
        found = Preprocessing("cifar", 32).training(data, key(number), augment).numpy()
        assert np.allclose(found, expected, atol=1e-4), choice
        met.add(choice)
    assert {top for top, _, _ in met} >= {0, 8}
    assert max(left for _, left, _ in met) > 8
    assert {is_turned for _, _, is_turned in met} == {True, False}


def test_a_picture_smaller_than_the_frame_is_cut_with_its_margin():
    data = encode(np.full((10, 10, 3), 255, np.uint8))
    views = [Preprocessing("cifar", 32).training(data, key(n), "fast").numpy() for n in range(8)]
    # The white square is shown whole, in different places.
    assert {(view > 0).sum() for view in views} == {300}
    assert len({view.tobytes() for view in views}) > 4


@pytest.mark.parametrize("shape", [(24, 24), (50, 31)])
def test_none_changes_the_size_alone(tf, shape):
    pixels = picture(*shape)
    net_input = Preprocessing("none", 24)
    found = net_input.training(encode(pixels), key(0)).numpy()
    assert np.array_equal(found, net_input.evaluation(encode(pixels)).numpy())
    resized = tf.compat.v1.image.resize_bilinear(pixels[None].astype(np.float32), [24, 24])[0]
    assert np.array_equal(found, resized.numpy())
    if shape == (24, 24):
        assert np.array_equal(found, pixels.astype(np.float32))
    assert net_input.value_range == (0, 255)


@pytest.mark.parametrize("shape", SHAPES)
def test_grey_is_the_luma_in_one_channel_from_0_to_1(tf, shape):
    pixels = picture(*shape)
    luma = (pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32))[..., None]
    expected = tf.compat.v1.image.resize_bilinear(luma[None], [28, 28])[0].numpy() / 255
    net_input = Preprocessing("grey", 28)
    data = encode(pixels)
    for found in (net_input.evaluation(data), net_input.training(data, key(1))):
        assert found.shape == (28, 28, 1)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    assert (net_input.channels, net_input.value_range) == (1, (0, 1))
    assert net_input.as_json()["channels"] == "grey"


def test_grey_pictures_keep_their_values_to_the_last_bit():
    pixels = picture(28, 28)[..., 0]
    found = Preprocessing("grey", 28).evaluation(encode(pixels)).numpy()
    np.testing.assert_array_equal(found[..., 0], pixels.astype(np.float32) * np.float32(1 / 255))


@pytest.mark.parametrize("kind", ["inception", "vgg", "lenet", "cifar", "grey", "none"])
def test_decoded_floats_are_the_same_input(tf, kind):
    pixels = picture(30, 40)
    net_input = Preprocessing(kind, 24)
    found = net_input.evaluation_of_image(tf.constant(pixels / np.float32(255))).numpy()
    span = net_input.shown_range[1] - net_input.shown_range[0]
    assert np.allclose(found, net_input.evaluation(encode(pixels)).numpy(), atol=1e-5 * span)


@pytest.mark.parametrize("kind", ["lenet", "cifar", "grey", "none"])
def test_the_graph_for_serving_gives_what_evaluation_gives(kind):
    from exporters.metadata import Metadata
    from exporters.runtime import GraphRunner
    from finetune.serving import preprocessing_graph

    net_input = Preprocessing(kind, 24)
    described = json.loads(json.dumps(net_input.as_json()))
    graph = preprocessing_graph(Metadata(preprocessing=described, image_size=24))
    data = [encode(picture(30, 20)), encode(picture(24, 24, seed=1))]
    with GraphRunner(graph, ["encoded:0"], ["images:0"]) as runner:
        (found,) = runner.run(np.array(data, object))
    for row, encoded in zip(found, data, strict=True):
        # In a graph the terms of the luma are added in another order.
        atol = 1e-6 if kind == "grey" else 0
        np.testing.assert_allclose(row, net_input.evaluation(encoded).numpy(), rtol=0, atol=atol)


def test_the_range_of_standardised_pictures_grows_with_them():
    assert Preprocessing("cifar", 1).value_range == (-(2**0.5), 2**0.5)
    assert Preprocessing("cifar", 32).value_range[1] == pytest.approx(3071**0.5)
    assert Preprocessing("cifar", 32).shown_range == (-2.5, 2.5)
