"""How far a measured share may be from the true one."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""The normal distribution's quantile for an interval of 95 %."""


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share.

    Args:
      right: how many of `count` had the property.
      count: how many there were, at least 1.

    Returns:
      Its lower and upper end, shares from 0 to 1.

    Source:
      Wilson 1927, Probable inference, the law of succession, and statistical inference.
    """
    share = right / count
    square = Z_95 * Z_95
    centre = (share + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    half = Z_95 * spread / (1 + square / count)
    return max(0.0, centre - half), min(1.0, centre + half)
