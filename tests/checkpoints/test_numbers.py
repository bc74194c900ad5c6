"""What counts as a whole number in names and options."""

import pytest

from checkpoints.numbers import real_number, whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_numbers(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1\n", "\u00b2", "\u0663", "9" * 19])
def test_other_texts(text):
    assert whole_number(text) is None


@pytest.mark.parametrize(("text", "number"), [("1", 1.0), (" -1.5e3 ", -1500.0), (".5", 0.5)])
def test_real_numbers(text, number):
    assert real_number(text) == number


@pytest.mark.parametrize("text", ["", "1_0", "nan", "inf", "1e999", "0x1", "1,0"])
def test_texts_that_are_no_real_numbers(text):
    assert real_number(text) is None
