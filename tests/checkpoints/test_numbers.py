"""What counts as a whole number in names and options."""

import pytest

from checkpoints.numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_numbers(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1\n", "\u00b2", "\u0663", "9" * 19])
def test_other_texts(text):
    assert whole_number(text) is None
