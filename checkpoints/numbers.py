"""Whole numbers as they stand in names and options."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that a text is; None for other texts.

    Args:
      text: up to 18 ASCII digits, so that the number fits an int64. Python takes other digits and
        refuses to read thousands.
    """
    return int(text) if _DIGITS.fullmatch(text) else None
