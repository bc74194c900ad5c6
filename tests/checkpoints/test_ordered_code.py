from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import ordered_code
from checkpoints.errors import BrokenFileError

int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-9000, 9000)
keys = st.tuples(st.binary(max_size=8), st.lists(st.tuples(int64, int64), max_size=3))


@given(keys)
def test_a_key_gives_back_what_it_was_made_of(parts):
    name, extents = parts
    key = ordered_code.encode_slice_key(name, extents)
    assert ordered_code.decode_slice_key(key) == (name, tuple(extents))


@given(st.lists(keys, min_size=2, max_size=6))
def test_the_order_of_keys_is_the_order_of_what_they_hold(several):
    by_parts = sorted((name, len(extents), extents) for name, extents in several)
    by_key = sorted(several, key=lambda parts: ordered_code.encode_slice_key(*parts))
    assert by_parts == [(name, len(extents), extents) for name, extents in by_key]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "80"),
        (63, "bf"),
        (64, "c040"),
        (-1, "7f"),
        (-64, "40"),
        (-65, "3fbf"),
        (0x424242, "f0424242"),
        (-0x800, "3800"),
        (2**63 - 1, "ffc07fffffffffffffff"),
        (-(2**63), "003f8000000000000000"),
    ],
)
def test_signed_numbers_have_known_bytes(value, encoded):
    assert ordered_code.encode_signed(value).hex() == encoded
    assert ordered_code.decode_signed(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_a_whole_matrix_has_a_known_key():
    key = ordered_code.encode_slice_key(b"a\x00\xff/b", [(0, ordered_code.WHOLE)] * 2)
    assert key == b"\x00" + b"a\x00\xff\xff\x00/b\x00\x01" + b"\x01\x02" + b"\x80\x7f" * 2


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\x00",
        b"\x00name",
        b"\x00name\x00",
        b"\x00name\x00\x02",
        b"\x00name\xff\x01",
        b"\x00name\x00\x01",
        b"\x00name\x00\x01\x09" + b"\x01" * 9,
        b"\x00name\x00\x01\x01\x02\x80\x7f",
        b"\x00name\x00\x01\x08" + b"\xff" * 8,
        b"\x00name\x00\x01\x01\x01\xff\xff\xff",
        b"\x01\x01name\x00\x01\x00",
        b"\x00name\x00\x01\x00\x00",
    ],
)
def test_other_keys_are_refused(key):
    with pytest.raises(BrokenFileError, match="key"):
        ordered_code.decode_slice_key(key)
