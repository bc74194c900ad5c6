"""The notes on preprocessing: boxes, resizing, colours in an order, and what is drawn when."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from finetune import data
from finetune.datasets.dataset import read_dataset
from finetune.datasets.record_index import read_index
from finetune.pixels import inception
from finetune.pixels.decode import RESIZE_METHODS, resize, sample_crop
from finetune.preprocessing import Preprocessing

pytestmark = pytest.mark.tensorflow

PICTURE = np.asarray(
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)).resize((40, 30))
)


def encoded(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def key(number):
    return np.array([4, 2 * number], np.int64)


def test_without_a_box_the_whole_picture_is_the_box(tf):
    net_input = Preprocessing("inception", 16)
    whole = tf.constant([[0.0, 0.0, 1.0, 1.0]])
    for number in range(3):
        without = net_input.training(encoded(PICTURE), key(number)).numpy()
        assert np.array_equal(
            without, net_input.training(encoded(PICTURE), key(number), boxes=whole)
        )
        assert without.min() >= -1 and without.max() <= 1


def test_sampled_boxes_cover_a_tenth_of_the_thing(tf):
    """sample_distorted_bounding_box with min_object_covered 0.1; ymin, xmin, ymax, xmax."""
    box, shape = np.array([0.6, 0.05, 0.95, 0.3], np.float32), (300, 400)
    top, left, bottom, right = box * [300, 400, 300, 400]
    corners = set()
    for number in range(25):
        begin, size = sample_crop(tf.constant([*shape, 3]), key(number), tf.constant([box]))
        (y, x), (height, width) = begin.numpy()[:2], size.numpy()[:2]
        tall = min(bottom, y + height) - max(top, y)
        wide = min(right, x + width) - max(left, x)
        # A crop's edges are whole pixels: one on each side may be missing.
        assert tall > 0 and wide > 0
        assert (tall + 2) * (wide + 2) >= 0.1 * (bottom - top) * (right - left)
        corners.add((y, x))
    assert len(corners) > 20


def test_boxes_go_by_the_names_of_their_sides(tmp_path):
    """Fault: boxes taken from an iterator under the wrong names. x is along the width, y along the height."""
    (tmp_path / "pictures").mkdir()
    Image.fromarray(PICTURE).save(tmp_path / "pictures/rose.png")
    manifest = tmp_path / "boxes.csv"
    manifest.write_text("y1,x1,y0,x0,label,path\n27,10,15,4,rose,rose.png\n")
    built = data.build(tmp_path / "pictures", tmp_path / "out", manifest=manifest, val=0)
    split = read_dataset(built.path).split("train")
    (record,) = data.read_records(split.shards[0].path)
    found = data.parse_example(record)
    sides = {side: found[f"image/object/bbox/{side}"] for side in ("ymin", "xmin", "ymax", "xmax")}
    assert sides == {
        side: [pytest.approx(fraction)]
        for side, fraction in zip(sides, (15 / 30, 4 / 40, 27 / 30, 10 / 40), strict=True)
    }
    in_order = [values[0] for values in sides.values()]
    assert read_index(split).boxes_of(0).tolist() == [in_order]


def test_drawn_boxes_are_the_sampled_ones(tf, tmp_path):
    """draw_bounding_boxes wants a batch of pictures; `data show --boxes` draws on each picture."""
    pixels = np.full((144, 144, 3), 128, np.uint8)
    (tmp_path / "pictures/grey").mkdir(parents=True)
    Image.fromarray(pixels).save(tmp_path / "pictures/grey/1.png")
    data.show(tmp_path / "pictures", tmp_path / "sheet.png", mode="boxes", seed=9)
    with Image.open(tmp_path / "sheet.png") as image:
        sheet = np.asarray(image.convert("RGB"))
    # The fifth crop is drawn last, over the others.
    begin, size = sample_crop(tf.constant([144, 144, 3]), np.array([9, 4 << 33], np.int64))
    (top, left), (height, width) = begin.numpy()[:2], size.numpy()[:2]
    rows, columns = np.nonzero((sheet == (140, 80, 180)).all(2))
    # The picture begins at row 80 and column 20 of the sheet.
    assert (rows.min() - 80, np.ptp(rows)) == (top, height - 1)
    assert (columns.min() - 20, np.ptp(columns)) == (left, width - 1)
    line = np.zeros((height, width), bool)
    line[[0, 1, -2, -1]] = line[:, [0, 1, -2, -1]] = True
    assert len(rows) == line.sum()
    batch, box = tf.constant(pixels[np.newaxis] / 255.0, tf.float32), [0.25, 0.5, 0.75, 1.0]
    drawn = tf.image.draw_bounding_boxes(batch, tf.constant([[box]]), tf.constant([[1.0, 0, 0]]))
    rows, columns = np.nonzero((drawn[0].numpy() == (1, 0, 0)).all(2))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (35, 107, 71, 143)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        tf.image.draw_bounding_boxes(batch[0], tf.constant([box]), tf.constant([[1.0, 0, 0]]))


def test_the_four_resize_methods_by_number(tf, v1):
    """0 bilinear, 1 nearest, 2 bicubic, 3 area, with the kernels that TensorFlow 1 had."""
    image = tf.constant(PICTURE / np.float32(255), tf.float32)
    for number, method in enumerate(RESIZE_METHODS):
        expected = v1.image.resize_images(image, [17, 17], method=number)
        np.testing.assert_allclose(resize(image, 17, method), expected, atol=1e-6)


def test_colour_distortion_orders(tf):
    """Four orders of four changes; the same amounts in another order give another picture."""
    assert inception.COLOUR_ORDERS == (
        ("brightness", "saturation", "hue", "contrast"),
        ("saturation", "brightness", "contrast", "hue"),
        ("contrast", "hue", "brightness", "saturation"),
        ("hue", "saturation", "contrast", "brightness"),
    )
    image = tf.constant(PICTURE / np.float32(255), tf.float32)
    change = {
        "brightness": lambda image: tf.image.adjust_brightness(image, 0.5 * 32 / 255),
        "saturation": lambda image: tf.image.adjust_saturation(image, 1.4),
        "hue": lambda image: tf.image.adjust_hue(image, -0.1),
        "contrast": lambda image: tf.image.adjust_contrast(image, 0.6),
    }
    results = []
    for order in inception.COLOUR_ORDERS:
        expected = image
        for name in order:
            expected = change[name](expected)
        found = inception.distort_colours(image, order, [0.75, 0.9, 0.25, 0.1])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        results.append(found.numpy())
    pairs = [(a, b) for place, a in enumerate(results) for b in results[:place]]
    assert all(np.abs(a - b).max() > 0.01 for a, b in pairs)


def test_method_and_order_are_drawn_for_each_picture(tf, v1, session, monkeypatch):
    """Fault: numpy draws while the graph is built, so one method and one order for ever."""

    def marked(image, size, method):
        return tf.fill([size, size, 3], RESIZE_METHODS.index(method) / 16)

    def coloured(image, order, draws):
        return image + inception.COLOUR_ORDERS.index(order) / 4

    monkeypatch.setattr(inception, "resize", marked)
    monkeypatch.setattr(inception, "distort_colours", coloured)
    seed = v1.placeholder(tf.int64, [2])
    view = Preprocessing("inception", 2).training(tf.constant(encoded(PICTURE)), seed)
    drawn = [session.run(view, {seed: key(number)})[0, 0, 0] for number in range(160)]
    numbers = {round(float(value + 1) / 2 * 16) for value in drawn}
    assert numbers == set(range(16))


def test_the_cifar_views_are_standardised(tf):
    """Random crop, flip, brightness up to 63 and contrast 0.2 to 1.8, then mean 0 and deviation 1."""
    views = [
        Preprocessing("cifar", 24).training(encoded(PICTURE), key(number)).numpy()
        for number in range(3)
    ]
    for view in views:
        assert view.shape == (24, 24, 3)
        assert view.mean() == pytest.approx(0, abs=1e-5)
        assert view.std() == pytest.approx(1, abs=1e-4)
    assert not np.array_equal(views[0], views[1])
