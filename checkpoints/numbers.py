"""Numbers as they stand in names, options and tables."""

from __future__ import annotations

import math
import re

_DIGITS = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that a text is; None for other texts.

    Args:
      text: up to 18 ASCII digits, so that the number fits an int64. Python takes other digits and
        refuses to read thousands.
    """
    return int(text) if _DIGITS.fullmatch(text) else None


def real_number(text: str) -> float | None:
    """The finite number that a text is, blanks around it forgiven; None for other texts."""
    try:
        # Python reads 1_0 as ten.
        number = math.nan if "_" in text else float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
