from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import wire
from checkpoints.errors import BrokenFileError
from checkpoints.messages import BundleEntryProto, Int64List

int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@given(st.lists(int64))
def test_packed_numbers_are_those_of_protobuf(numbers):
    (field,) = wire.scan(Int64List(value=numbers).SerializeToString()) if numbers else (None,)
    packed = Int64List(value=numbers).SerializeToString()[field.start :] if field else b""

    decoded = wire.decode_varints(packed)

    assert decoded.view(np.int64).tolist() == numbers
    assert wire.encode_varints(decoded) == packed
    assert b"".join(map(wire.encode_varint, numbers)) == packed


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@given(data=st.data())
def test_packed_numbers_of_every_dtype(dtype, data):
    limits = np.iinfo(dtype)
    numbers = data.draw(st.lists(st.integers(int(limits.min), int(limits.max))))
    values = np.array(numbers, dtype)
    packed = wire.encode_varints(values)
    assert packed == b"".join(map(wire.encode_varint, numbers))
    assert wire.count_varints(packed) == len(numbers)
    decoded = wire.decode_varints(packed, dtype)
    assert decoded.dtype == dtype
    assert decoded.tolist() == numbers


@pytest.mark.parametrize(
    ("number", "dtype"), [(128, "int8"), (-1, "uint8"), (2**31, "int32"), (-1, "uint32")]
)
def test_packed_numbers_outside_the_dtype_are_refused(number, dtype):
    with pytest.raises(BrokenFileError, match=f"outside the range of {dtype}"):
        wire.decode_varints(wire.encode_varint(number), dtype)


@given(st.lists(int64, min_size=1), st.integers(11, 40))
def test_chunks_end_between_numbers(numbers, chunk_bytes):
    packed = b"".join(map(wire.encode_varint, numbers))
    before, wire._CHUNK_BYTES = wire._CHUNK_BYTES, chunk_bytes
    try:
        decoded = wire.decode_varints(packed)
        assert decoded.view(np.int64).tolist() == numbers
        assert wire.encode_varints(decoded) == packed
    finally:
        wire._CHUNK_BYTES = before


def test_fields_are_found_where_protobuf_put_them():
    entry = BundleEntryProto(dtype=1, shard_id=3, offset=2**40, size=-1, crc32c=0xDEADBEEF)
    entry.shape.dim.add(size=5)
    data = b"before" + entry.SerializeToString() + b"after"

    found = {field.number: field for field in wire.scan(data, 6, len(data) - 5)}

    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert found[4].value == 2**40
    assert found[5].value == 2**64 - 1
    assert found[2].wire_type == wire.LENGTH_DELIMITED
    assert data[found[2].start : found[2].end] == entry.shape.SerializeToString()
    assert data[found[6].start : found[6].end] == b"\xef\xbe\xad\xde"
    assert [field.number for field in wire.scan(b"\x09" + b"x" * 8)] == [1]


def test_a_header_is_what_protobuf_writes_before_bytes():
    assert wire.encode_header(6, 300) + b"x" * 300 == b"\x32\xac\x02" + b"x" * 300


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80", "cut off at byte 1"),
        (b"\x80" * 10 + b"\x01", "more than 64 bits"),
        (b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (b"\x08", "cut off"),
        (b"\x0a\x05abcd", "does not fit its message"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "does not fit its message"),
        (b"\x0d\x00\x00\x00", "does not fit its message"),
        (b"\x09\x00\x00\x00", "does not fit its message"),
        (b"\x02\x00", "does not fit its message"),
        (b"\x0b", "wire type 3"),
        (b"\x0e", "wire type 6"),
    ],
)
def test_broken_messages_are_refused(data, message):
    with pytest.raises(BrokenFileError, match=message):
        list(wire.scan(data))


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"\x01\x80", "cut off"),
        (b"\x80" * 10 + b"\x01\x05", "more than 64 bits"),
        (b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (b"\x80" * 5_000_000 + b"\x01", "more than 64 bits"),
    ],
)
def test_broken_packed_numbers_are_refused(packed, message):
    with pytest.raises(BrokenFileError, match=message):
        wire.decode_varints(packed)
