import numpy as np
import pytest

from finetune.evaluating.calibration import NUM_BINS, calibrate


def test_the_error_is_the_gap_of_each_bin_weighted_by_its_pictures():
    confidences = np.array([0.1, 0.3, 0.7, 0.9, 0.8])
    right = np.array([True, False, True, True, False])
    found = calibrate(confidences, right, num_bins=2)
    low, high = found.bins
    assert (low.count, low.confidence, low.accuracy) == (2, pytest.approx(0.2), 0.5)
    assert (high.count, high.confidence, high.accuracy) == (
        3,
        pytest.approx(0.8),
        pytest.approx(2 / 3),
    )
    # 2/5 * |0.2 - 0.5| + 3/5 * |0.8 - 2/3|
    assert found.ece == pytest.approx(0.12 + 0.08)


def test_a_bin_holds_its_upper_edge_and_not_its_lower():
    found = calibrate(np.array([0.5, 0.5000001, 1.0, 0.0]), np.ones(4, bool), num_bins=2)
    assert [one.count for one in found.bins] == [2, 2]
    assert [(one.lower, one.upper) for one in found.bins] == [(0.0, 0.5), (0.5, 1.0)]


def test_confident_and_right_is_perfect_and_confident_and_wrong_is_not():
    certain = np.ones(8, np.float32)
    assert calibrate(certain, np.ones(8, bool)).ece == 0.0
    assert calibrate(certain, np.zeros(8, bool)).ece == 1.0


def test_bins_without_pictures_have_no_figures():
    found = calibrate(np.array([0.95]), np.array([True]))
    assert len(found.bins) == NUM_BINS == 15
    assert found.bins[0].confidence is None
    assert found.as_json()["bins"][0] == {
        "lower": 0.0,
        "upper": pytest.approx(1 / 15),
        "count": 0,
        "confidence": None,
        "accuracy": None,
    }
    assert found.as_json()["num_bins"] == 15
