import numpy as np
import pytest

from finetune.evaluating.averages_lag import measure_lag


def lag(both=0, batch_only=0, averages_only=0, neither=0):
    counts = (both, batch_only, averages_only, neither)
    averages = np.repeat([True, False, True, False], counts)
    batch = np.repeat([True, True, False, False], counts)
    return measure_lag(averages, batch)


def test_the_gap_is_what_the_averages_cost():
    found = lag(both=10, batch_only=16, averages_only=2, neither=4)
    assert (found.count, found.moving_averages, found.batch) == (32, 12 / 32, 26 / 32)
    assert found.gap == pytest.approx(14 / 32)
    assert found.is_plain  # 14 / sqrt(18) = 3.3 deviations
    assert str(found) == (
        "37.5% right by moving averages, 81.2% by the statistics of each batch: 43.8 points lower "
        "by averages"
    )


def test_a_small_gap_or_one_by_chance_is_not_plain():
    assert not lag(both=90, batch_only=9, neither=1).is_plain
    assert not lag(both=8, batch_only=3, averages_only=1, neither=4).is_plain
    assert not lag(both=20, averages_only=12).is_plain
    assert lag(both=20).gap == 0
