"""`s|OLD|NEW|` as sed has it."""

from __future__ import annotations

import pytest

from checkpoints.errors import UsageError
from checkpoints.renaming import parse_renaming

APPLIED = [
    ("s|a|b|", "aXa", "bXa"),
    ("s|a|b|g", "aXa", "bXb"),
    ("s|A|b|", "aXa", "aXa"),
    ("s|A|b|gi", "aXa", "bXb"),
    ("s/^InceptionV3\\/(.*)/net\\/\\1/", "InceptionV3/Logits", "net/Logits"),
    ("s,^,scope/,", "w", "scope/w"),
    ("s|$|_1|", "w", "w_1"),
    ("s|(x)?a|[\\1]|", "a", "[]"),
    ("s|(a)(b)|\\2\\1|", "ab", "ba"),
    ("s|b+|<&>|", "abbc", "a<bb>c"),
    ("s|b|\\&|", "abc", "a&c"),
    ("s|a|\\\\|", "a", "\\"),
    ("s|a||", "abc", "bc"),
    ("s|a\\|b|x|", "a|b", "x"),
    ("s|a\\|b|x|", "a", "a"),
    ("s#a|b#x#g", "ab", "xx"),
    ("s&a&\\&b&", "a", "&b"),
    ("s.a\\.b.x.", "a.b acb", "x acb"),
    ("s1a1\\11", "a", "1"),
    ("s花a花b花", "a", "b"),
]


@pytest.mark.parametrize(("text", "name", "expected"), APPLIED)
def test_applied(text, name, expected):
    assert parse_renaming(text).apply(name) == expected


REFUSED = [
    ("", "does not begin with s"),
    ("s", "does not begin with s"),
    ("y|a|b|", "does not begin with s"),
    ("s\\a\\b\\", "does not begin with s"),
    ("s|a|b", "after the first | there are 1 more, not 2"),
    ("s|a", "after the first | there are 0 more, not 2"),
    ("s|a|b|c|", "there are 3 more"),
    ("s|a|b|x", "the flags 'x' are not g or i"),
    ("s||b|", "nothing to replace"),
    ("s|(|b|", "is no regular expression"),
    ("s|a|\\1|", "stands for a group"),
    ("s|(a)|\\2|", "has 1"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_refused(text, why):
    with pytest.raises(UsageError) as caught:
        parse_renaming(text)
    assert why in caught.value.message
    assert caught.value.received == text and "s|OLD|NEW|" in caught.value.expected
