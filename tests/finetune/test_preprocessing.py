"""What the net sees, compared with TensorFlow's own operations."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import UnsupportedError, UsageError
from finetune.preprocessing import KINDS, Preprocessing

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf():
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


def picture(height=75, width=100, seed=0):
    """Colourful and smooth, so that resize methods and colour changes show; uint8 RGB."""
    chance = np.random.default_rng(seed)
    small = Image.fromarray(chance.integers(0, 256, (6, 8, 3), np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def encode(pixels, kind="JPEG"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def key(number, seed=1):
    return np.array([seed, 2 * number], np.int64)


INCEPTION = Preprocessing("inception", 48)


def reference_evaluation(tf, encoded, size):
    """The evaluation preprocessing in TensorFlow 1's words."""
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(encoded, channels=3), tf.float32)
    image = tf.image.central_crop(image, 0.875)
    image = tf.compat.v1.image.resize_bilinear(image[tf.newaxis], [size, size])[0]
    return ((image - 0.5) * 2.0).numpy()


def test_evaluation_is_the_reference_pixel_for_pixel(tf, shared):
    paths = sorted((shared / "data/flowers12/test").glob("*/*.jpg"))[::4][:50]
    for path in paths:
        data = path.read_bytes()
        found = Preprocessing("inception", 299).evaluation(data).numpy()
        assert np.array_equal(found, reference_evaluation(tf, data, 299)), path
    assert len(paths) == 50


@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (500, 3), (48, 48), (37, 41)])
def test_evaluation_of_odd_shapes(tf, shape):
    data = encode(picture(*shape))
    found = INCEPTION.evaluation(data)
    assert found.shape == (48, 48, 3)
    assert found.dtype == tf.float32
    assert np.array_equal(found.numpy(), reference_evaluation(tf, data, 48))


def test_evaluation_of_a_decoded_picture_uint8_or_float(tf):
    pixels = picture()
    as_png = INCEPTION.evaluation(encode(pixels, "PNG")).numpy()
    assert np.array_equal(INCEPTION.evaluation_of_image(tf.constant(pixels)).numpy(), as_png)
    floats = tf.constant(pixels.astype(np.float32) / 255)
    assert np.allclose(INCEPTION.evaluation_of_image(floats).numpy(), as_png, atol=1e-6)


def test_grey_pictures_have_three_equal_channels():
    for kind in ("JPEG", "PNG"):
        data = encode(picture()[..., 0], kind)
        for view in (INCEPTION.evaluation(data), INCEPTION.training(data, key(3), "none")):
            view = view.numpy()
            assert np.array_equal(view[..., 0], view[..., 1])
            assert np.array_equal(view[..., 0], view[..., 2])


def test_none_is_the_evaluation_preprocessing():
    data = encode(picture())
    view = INCEPTION.training(data, key(5), "none").numpy()
    assert np.array_equal(view, INCEPTION.evaluation(data).numpy())


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("augment", ["full", "fast"])
def test_a_training_view_is_a_function_of_its_key(kind, augment):
    data = encode(picture(), kind)
    views = [INCEPTION.training(data, key(number), augment).numpy() for number in (0, 0, 1)]
    assert np.array_equal(views[0], views[1])
    assert not np.array_equal(views[0], views[2])
    for view in views:
        assert view.shape == (48, 48, 3)
        assert view.dtype == np.float32
        assert view.min() >= -1
        assert view.max() <= 1


def reference_training(tf, encoded, seed, size, augment):
    """A training view out of plain operations, and its method, flip and colour order."""
    image = tf.image.convert_image_dtype(tf.io.decode_image(encoded, channels=3), tf.float32)
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed=seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
    )
    image = tf.slice(image, begin, extent)[tf.newaxis]
    draws = tf.random.stateless_uniform([7], seed + np.array([0, 1])).numpy()
    v1 = tf.compat.v1.image
    resizers = (v1.resize_bilinear, v1.resize_nearest_neighbor, v1.resize_bicubic, v1.resize_area)
    method = int(draws[0] * 4) if augment == "full" else 0
    image = resizers[method](image, [size, size])[0]
    flipped = bool(draws[1] < 0.5)
    if flipped:
        image = tf.image.flip_left_right(image)
    orders = ("bshc", "sbch", "chbs", "hscb") if augment == "full" else ("bs", "sb")
    order = orders[int(draws[2] * len(orders))]
    change = {
        "b": lambda x: tf.image.adjust_brightness(x, (2 * draws[3] - 1) * 32 / 255),
        "s": lambda x: tf.image.adjust_saturation(x, 0.5 + draws[4]),
        "h": lambda x: tf.image.adjust_hue(x, (2 * draws[5] - 1) * 0.2),
        "c": lambda x: tf.image.adjust_contrast(x, 0.5 + draws[6]),
    }
    for letter in order:
        image = change[letter](image)
    return ((tf.clip_by_value(image, 0, 1) - 0.5) * 2).numpy(), (method, flipped, order)


@pytest.mark.parametrize("augment", ["full", "fast"])
def test_training_views_are_made_of_tensorflows_operations(tf, augment):
    data = encode(picture(), "PNG")
    met = set()
    for number in range(40):
        expected, choice = reference_training(tf, data, key(number), 48, augment)
        found = INCEPTION.training(data, key(number), augment).numpy()
        assert np.allclose(found, expected, atol=2e-5), choice
        met.add(choice)
    # Method, flip and order vary from picture to picture, not from graph to graph.
    if augment == "full":
        assert {method for method, _, _ in met} == {0, 1, 2, 3}
        assert {order for _, _, order in met} == {"bshc", "sbch", "chbs", "hscb"}
    else:
        assert {(method, order) for method, _, order in met} == {(0, "bs"), (0, "sb")}
    assert {flipped for _, flipped, _ in met} == {True, False}


def test_one_graph_draws_anew_for_each_picture(tf):
    data = encode(picture(), "PNG")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        seed = tf.compat.v1.placeholder(tf.int64, [2])
        view = INCEPTION.training(tf.constant(data), seed)
        assert view.shape == (48, 48, 3)
        views = [session.run(view, {seed: key(number)}) for number in range(3)]
    for number, found in enumerate(views):
        assert np.array_equal(found, INCEPTION.training(data, key(number)).numpy())


def test_decoding_the_crop_alone_gives_the_crop(tf):
    from finetune.pixels.decode import decode_crop, sample_crop

    pixels = picture(150, 200, seed=4)
    for kind in ("JPEG", "PNG"):
        data = encode(pixels, kind)
        whole = tf.io.decode_image(data, channels=3).numpy().astype(int)
        for number in range(60):
            begin, size = sample_crop(tf.constant([150, 200, 3]), key(number))
            top, left, height, width = *begin.numpy()[:2], *size.numpy()[:2]
            found = decode_crop(data, key(number)).numpy().astype(int)
            assert np.array_equal(found, whole[top : top + height, left : left + width])


def kolmogorov_smirnov(first, second):
    """The two-sample test's p value, by its asymptotic series."""
    first, second = np.sort(first), np.sort(second)
    every = np.concatenate([first, second])
    below = np.searchsorted(first, every, side="right") / len(first)
    below_second = np.searchsorted(second, every, side="right") / len(second)
    distance = np.abs(below - below_second).max()
    size = len(first) * len(second) / (len(first) + len(second))
    scaled = distance * (math.sqrt(size) + 0.12 + 0.11 / math.sqrt(size))
    terms = [(-1) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101)]
    return min(1.0, max(0.0, 2 * sum(terms)))


def test_crops_are_distributed_as_tensorflows(tf):
    from finetune.pixels.decode import sample_crop

    shape, count = tf.constant([375, 500, 3]), 10_000

    def ours(number):
        begin, size = sample_crop(shape, tf.stack([7, number * 2]))
        return tf.concat([begin[:2], size[:2]], 0)

    def theirs(number):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape,
            tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
            seed=11,
            min_object_covered=0.1,
            aspect_ratio_range=(0.75, 1.33),
            area_range=(0.05, 1.0),
            max_attempts=100,
        )
        return tf.concat([begin[:2], size[:2]], 0)

    samples = []
    for draw in (ours, theirs):
        crops = tf.data.Dataset.range(count).map(draw).batch(count)
        samples.append(next(iter(crops)).numpy().astype(float))
    for name, figure in {
        "area": lambda c: c[:, 2] * c[:, 3],
        "aspect": lambda c: c[:, 3] / c[:, 2],
        "top": lambda c: c[:, 0],
        "left": lambda c: c[:, 1],
    }.items():
        assert kolmogorov_smirnov(figure(samples[0]), figure(samples[1])) > 0.01, name
    ours_area = samples[0][:, 2] * samples[0][:, 3] / (375 * 500)
    ours_aspect = samples[0][:, 3] / samples[0][:, 2]
    assert ours_area.min() > 0.049
    assert 0.74 < ours_aspect.min() < ours_aspect.max() < 1.34


def test_a_box_keeps_the_crop_on_the_object(tf):
    from finetune.pixels.decode import sample_crop

    box = tf.constant([[0.8, 0.8, 1.0, 1.0]])
    for number in range(50):
        begin, size = sample_crop(tf.constant([100, 100, 3]), key(number), box)
        bottom, right = (begin + size).numpy()[:2]
        assert max(0, bottom - 80) * max(0, right - 80) >= 0.09 * 400


def reference_vgg(tf, encoded, size):
    image = tf.cast(tf.io.decode_image(encoded, channels=3), tf.float32)
    height, width = image.shape[:2]
    side = round(size * 256 / 224)
    scale = side / min(height, width)
    target = [round(height * scale), round(width * scale)]
    image = tf.compat.v1.image.resize_bilinear(image[tf.newaxis], target)[0]
    top, left = (target[0] - size) // 2, (target[1] - size) // 2
    return (image[top : top + size, left : left + size] - [123.68, 116.779, 103.939]).numpy()


@pytest.mark.parametrize("shape", [(75, 100), (100, 75), (60, 60), (256, 300)])
def test_vgg_evaluation_is_the_reference(tf, shape):
    data = encode(picture(*shape), "PNG")
    found = Preprocessing("vgg", 56).evaluation(data).numpy()
    assert np.allclose(found, reference_vgg(tf, data, 56), atol=1e-4)


def test_vgg_training_crops_at_varying_scales():
    vgg = Preprocessing("vgg", 56)
    data = encode(picture())
    views = [vgg.training(data, key(number)).numpy() for number in range(4)]
    assert all(view.shape == (56, 56, 3) for view in views)
    assert not np.array_equal(views[0], views[1])
    assert np.array_equal(views[2], vgg.training(data, key(2)).numpy())
    assert all(view.min() > -123.69 and view.max() < 151.07 for view in views)
    assert vgg.training(data, key(1), "fast").shape == (56, 56, 3)


@pytest.mark.parametrize("shape", [(16, 16), (41, 30), (1, 1)])
def test_unit_is_the_whole_picture_in_0_to_1(tf, shape):
    unit = Preprocessing("unit", 16)
    data = encode(picture(*shape), "PNG")
    pixels = tf.cast(tf.io.decode_png(data, channels=3), tf.float32)[tf.newaxis]
    expected = (tf.compat.v1.image.resize_bilinear(pixels, [16, 16])[0] / 255.0).numpy()
    assert unit.value_range == (0.0, 1.0)
    assert np.array_equal(unit.evaluation(data).numpy(), expected)
    assert np.array_equal(unit.training(data, key(1)).numpy(), expected)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_description_comes_back_from_json(kind):
    first = Preprocessing(kind, 224, central_fraction=0.9)
    assert Preprocessing.from_json(json.loads(json.dumps(first.as_json()))) == first


def test_the_description_in_json():
    assert Preprocessing("inception", 299).as_json() == {
        "name": "inception",
        "image_size": 299,
        "central_fraction": 0.875,
        "range": [-1.0, 1.0],
        "channels": "RGB",
    }
    assert Preprocessing("vgg", 224).value_range == (-123.68, 151.061)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "inception"},
        {"name": "sharpen", "image_size": 8},
        {"name": "vgg", "image_size": "large"},
        {"name": "vgg", "image_size": float("inf")},
        {"name": "vgg", "image_size": 8, "central_fraction": 10**400},
        {"name": "vgg", "image_size": 8, "mixup": 0.2},
    ],
)
def test_a_description_this_version_does_not_know(value):
    with pytest.raises(UnsupportedError, match="does not know"):
        Preprocessing.from_json(value)


def test_words_that_do_not_exist():
    with pytest.raises(UsageError, match="no preprocessing 'incepton'") as caught:
        Preprocessing("incepton", 299)
    assert caught.value.next_step == "Did you mean inception?"
    with pytest.raises(UsageError, match="out of range"):
        Preprocessing("inception", 0)
    with pytest.raises(UsageError, match="no augmentation 'strong'"):
        INCEPTION.training(b"", key(0), "strong")


def test_a_size_beyond_memory_is_refused():
    with pytest.raises(UsageError) as caught:
        Preprocessing("inception", 100_000)
    assert "image_size from 1 to 4096 pixels" in caught.value.expected
