"""Ridge regression as the start of a head: what it fits, folds and chooses."""

import numpy as np
import pytest

from finetune.training.head_start import fit_head


def clusters(count, channels, classes=3, seed=0, spread=0.3, centre=5.0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, channels))
    labels = np.arange(count) % classes
    features = centres[labels] + random.normal(scale=spread, size=(count, channels)) + centre
    return features.astype(np.float32), labels.astype(np.int64), centres + centre


@pytest.mark.parametrize(("count", "channels"), [(12, 40), (300, 10)])
def test_it_tells_clusters_apart_that_it_never_saw(count, channels):
    features, labels, centres = clusters(count, channels)
    start = fit_head(features, labels, 3)
    assert start.weights.shape == (channels, 3)
    assert start.weights.dtype == start.biases.dtype == np.float32
    answers = centres @ start.weights + start.biases
    np.testing.assert_array_equal(answers.argmax(axis=1), [0, 1, 2])
    assert start.accuracy == 1.0


def test_both_ways_of_solving_give_the_same_layer():
    features, labels, _ = clusters(20, 20)
    wide = np.concatenate([features, np.zeros((20, 1), np.float32)], axis=1)
    narrow, also = fit_head(features[:, :19], labels, 3), fit_head(wide[:, :20], labels, 3)
    assert narrow.weights.shape == (19, 3)
    direct = _ridge(features, labels, also.regulariser)
    scale = np.abs(also.weights).max() / np.abs(direct).max()
    np.testing.assert_allclose(also.weights, scale * direct, rtol=1e-3, atol=1e-4 * scale)


def _ridge(features, labels, regulariser):
    x = features.astype(np.float64)
    variance = x.var(axis=0)
    spread = np.sqrt(variance + 0.05 * variance.mean())
    z = (x - x.mean(axis=0)) / spread
    targets = np.eye(3)[labels]
    unit = np.square(z).sum() / len(z)
    gram = z.T @ z + regulariser * unit * np.eye(z.shape[1])
    return np.linalg.solve(gram, z.T @ (targets - targets.mean(axis=0))) / spread[:, None]


def test_labels_that_say_nothing_are_not_found_again_when_left_out():
    features = np.random.default_rng(1).normal(size=(60, 200)).astype(np.float32)
    labels = np.random.default_rng(2).integers(0, 3, 60)
    start = fit_head(features, labels, 3)
    assert start.accuracy < 0.6
    assert ((features @ start.weights + start.biases).argmax(axis=1) == labels).mean() > 0.7


def test_a_class_without_pictures_and_a_feature_without_spread_do_no_harm():
    features, labels, _ = clusters(30, 8)
    features[:, 3] = 2.5
    start = fit_head(features, labels, 5)
    assert np.isfinite(start.weights).all()
    assert np.isfinite(start.biases).all()
    assert ((features @ start.weights + start.biases).argmax(axis=1) == labels).all()
    assert np.abs(start.weights[3]).max() < 1e-6
