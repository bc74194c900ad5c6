from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from checkpoints import statistics
from checkpoints.statistics import Statistics, statistics_of, untouched_batch_norms


@pytest.mark.parametrize("piece", [1 << 20, 7])
def test_figures_are_those_of_numpy(monkeypatch, piece):
    monkeypatch.setattr(statistics, "_PIECE_ELEMENTS", piece)
    values = np.random.default_rng(3).standard_normal((40, 5)).astype(np.float32) + 100
    figures = statistics_of(values)
    assert figures.minimum == values.min()
    assert figures.maximum == values.max()
    assert figures.mean == pytest.approx(values.mean(dtype=np.float64), rel=1e-12)
    assert figures.standard_deviation == pytest.approx(values.std(dtype=np.float64), rel=1e-9)
    assert (figures.nan_count, figures.infinite_count) == (0, 0)


def test_what_is_not_finite_is_counted_and_left_out():
    values = np.array([1.0, np.nan, 3.0, np.inf, -np.inf, np.nan])
    assert statistics_of(values) == Statistics(1.0, 3.0, 2.0, 1.0, 2, 2)
    assert statistics_of(np.array([np.nan])) == Statistics(None, None, None, None, 1, 0)
    assert statistics_of(np.zeros((0, 3))) == Statistics(None, None, None, None, 0, 0)


@pytest.mark.parametrize(
    "values",
    [
        np.array([-1, 3], np.int8),
        np.array([-1, 3], ml_dtypes.bfloat16),
        np.array([-1, 3], ml_dtypes.float8_e5m2),
        np.array([-1, 3], ml_dtypes.int4),
        np.array([(-1,), (3,)], [("qint8", "i1")]),
    ],
)
def test_every_kind_of_number(values):
    assert statistics_of(values) == Statistics(-1, 3, 1.0, 2.0, 0, 0)


def test_integers_booleans_complex_numbers_and_strings():
    large = np.array([2**62, 2**62 + 1])
    assert (statistics_of(large).minimum, statistics_of(large).maximum) == (2**62, 2**62 + 1)
    assert statistics_of(np.array(True)) == Statistics(1, 1, 1.0, 0.0, 0, 0)
    assert statistics_of(np.array([3 + 4j])) == Statistics(5.0, 5.0, 5.0, 0.0, 0, 0)
    assert statistics_of(np.array([b"a"], object)) is None
    assert statistics_of(np.array([200, 255], np.uint8)).maximum == 255


def batch_norms(**values):
    names = {"mean": "moving_mean", "variance": "moving_variance"}
    figures = {}
    for name, value in values.items():
        scope, _, kind = name.rpartition("_")
        figures[f"net/{scope}/{names.get(kind, kind)}"] = statistics_of(np.array(value))
    return figures


def test_batch_norms_whose_averages_never_moved():
    figures = batch_norms(
        a_mean=[0.0, 0.0], a_variance=[1.0, 1.0], a_beta=[0.0],
        b_mean=[0.0, 0.1], b_variance=[1.0, 1.0],
        c_mean=[0.0], c_variance=[0.9],
        d_variance=[1.0],
        e_mean=[0.0, np.nan], e_variance=[1.0, 1.0],
    )  # fmt: skip
    assert untouched_batch_norms(figures) == (["net/a", "net/d"], 5)
    assert untouched_batch_norms({"w": statistics_of(np.zeros(3))}) == ([], 0)


def test_batch_norms_of_object_based_checkpoints():
    figures = {
        f"bn/moving_{kind}/.ATTRIBUTES/VARIABLE_VALUE": statistics_of(np.full(3, value))
        for kind, value in (("mean", 0.0), ("variance", 1.0))
    }
    assert untouched_batch_norms(figures) == (["bn"], 1)


@pytest.mark.parametrize(
    ("values", "mean", "deviation"),
    [
        ([1e300, 5e-324], 5e299, 5e299),
        ([1.7e308, 1.7e308], 1.7e308, 0.0),
        ([1.7e308, -1.7e308], 0.0, 1.7e308),
        ([1e-300, 3e-300], 2e-300, 1e-300),
        ([5e-324, 5e-324], 5e-324, 0.0),
    ],
)
def test_values_whose_squares_no_float_holds(values, mean, deviation):
    figures = statistics_of(np.array(values))
    assert (figures.minimum, figures.maximum) == (min(values), max(values))
    assert figures.mean == pytest.approx(mean, rel=1e-12)
    assert figures.standard_deviation == pytest.approx(deviation, rel=1e-12)
