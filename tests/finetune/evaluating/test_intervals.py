import pytest

from finetune.evaluating.intervals import wilson_interval


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    # Newcombe 1998, table I (method 3: the score interval without continuity correction).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)  # fmt: skip
def test_wilson_intervals_as_published(right, count, low, high):
    assert wilson_interval(right, count) == pytest.approx((low, high), abs=5e-5)
    assert wilson_interval(count - right, count) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_one_picture_says_little():
    assert wilson_interval(1, 1) == pytest.approx((0.2065, 1.0), abs=5e-5)
