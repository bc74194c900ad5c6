from __future__ import annotations

import io
import struct
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.checksum import crc32c, mask, unmask
from checkpoints.errors import CheckpointError
from checkpoints.table import FOOTER_BYTES, MAGIC, Table, TableWriter
from checkpoints.wire import encode_varint

FILE = Path("m.index")


def written(items):
    file = io.BytesIO()
    table = TableWriter(file)
    for key, value in items:
        table.add(key, [value])
    table.finish()
    return file.getvalue()


def opened(data, **options):
    return Table(memoryview(data), FILE, **options)


def read(data, **options):
    return [(key, bytes(value)) for key, value in opened(data, **options)]


def entry(shared, key, value):
    return b"".join(map(encode_varint, (shared, len(key), len(value)))) + key + value


def block(entries, restarts=(0,)):
    return entries + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def trailer(contents, kind=0):
    stored = mask(crc32c(contents + bytes([kind])))
    return bytes([kind]) + struct.pack("<I", stored)


def table_of(blocks, *, kind=0, handles=None, last_keys=None):
    """A table of given blocks, whatever they hold; handles and index keys may lie."""
    data = b""
    places = []
    for contents in blocks:
        places.append((len(data), len(contents)))
        data += contents + trailer(contents, kind)
    handles = handles or places
    keys = last_keys or [bytes([0x80 + number]) for number in range(len(handles))]
    index = block(
        b"".join(
            entry(0, key, encode_varint(offset) + encode_varint(size))
            for key, (offset, size) in zip(keys, handles, strict=True)
        )
    )
    offset = len(data)
    data += index + trailer(index)
    footer = b"".join(map(encode_varint, (offset, 0, offset, len(index))))
    return data + footer.ljust(FOOTER_BYTES - 8, b"\0") + MAGIC


@given(st.dictionaries(st.binary(max_size=12), st.binary(max_size=40), max_size=60))
def test_what_is_written_is_read(contents):
    items = sorted(contents.items())
    table = opened(written(items))
    assert [(key, bytes(value)) for key, value in table] == items
    for key, value in items:
        assert table.get(key) == value
    for key in (b"", b"\xff" * 13, b"0123456789abcdef"):
        assert table.get(key) == contents.get(key)


@given(st.binary(min_size=1, max_size=3), st.integers(1, 6))
def test_large_values_get_blocks_of_their_own(prefix, count):
    items = [(prefix + bytes([number]), bytes([number]) * 300_000) for number in range(count)]
    data = written(items)
    assert read(data) == items
    # One data block a value, so that reading one value reads no other.
    table = opened(data)
    assert len(table._handles) == count
    table.get(items[-1][0])
    assert len(table._blocks) == 1


def test_a_value_in_pieces_is_one_value():
    file = io.BytesIO()
    table = TableWriter(file)
    table.add(b"k", [b"ab", memoryview(b"cd"), b""])
    table.finish()
    assert read(file.getvalue()) == [(b"k", b"abcd")]


def test_keys_out_of_order_are_not_written():
    table = TableWriter(io.BytesIO())
    table.add(b"b", [b""])
    with pytest.raises(ValueError, match="does not come after"):
        table.add(b"b", [b""])


@pytest.mark.parametrize("value", [b"", b"x", b"abc" * 5000])
def test_compressed_blocks_are_read(value):
    contents = block(entry(0, b"", b"header") + entry(0, b"key", value))
    data = table_of([bytes(cramjam.snappy.compress_raw(contents))], kind=1)
    assert read(data) == [(b"", b"header"), (b"key", value)]
    assert opened(data).get(b"key") == value


def test_checksums_are_masked_as_leveldb_masks_them():
    # From LevelDB's own tests of its checksum: 32 zeros, and the masking undone.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"world", crc32c(b"hello ")) == crc32c(b"hello world")
    crc = crc32c(b"foo")
    assert mask(crc) != crc
    assert mask(mask(crc)) != crc
    assert unmask(mask(crc)) == crc
    assert crc32c(b"") == 0


TWO = block(entry(0, b"aa", b"1") + entry(1, b"b", b"2"))

BROKEN = {
    "empty": (b"", "the end is not that of a sorted string table"),
    "cut": (written([(b"k", b"v")])[:-1], "the end is not that of a sorted string table"),
    "cut before": (written([(b"k", b"v")])[20:], "checksum|reaches beyond|overlaps"),
    "only a footer": (b"\xff" * 40 + MAGIC, "the footer is damaged"),
    "index beyond": (
        (b"\0\0" + encode_varint(5) + encode_varint(2**40)).ljust(40, b"\0") + MAGIC,
        "reaches beyond",
    ),
    "checksum": (b"\x01" + table_of([TWO])[1:], "checksum of a block does not match"),
    "unknown compression": (table_of([TWO], kind=7), "unknown compression 7"),
    "not compressed": (table_of([b"\xff" * 30], kind=1), "no length|cannot be decompressed"),
    "bomb": (
        table_of([encode_varint(2**31) + b"\x00a"], kind=1),
        "compressed bytes declare to be 2147483648",
    ),
    "restarts": (
        table_of([struct.pack("<I", 2**32 - 1)]),
        "a block of 4 bytes declares 4294967295 restart points",
    ),
    "tiny block": (table_of([b"abc"]), "too short"),
    "no order": (
        table_of([block(entry(0, b"b", b"") + entry(0, b"a", b""))]),
        "b'a' does not come after b'b'",
    ),
    "twice": (
        table_of([block(entry(0, b"b", b"") + entry(1, b"", b""))]),
        "b'b' does not come after b'b'",
    ),
    "shares too much": (table_of([block(entry(3, b"b", b""))]), "reaches beyond"),
    "key too long": (table_of([block(b"\x00\x7f\x00ab")]), "reaches beyond"),
    "value too long": (table_of([block(b"\x00\x01\xff\xff\xff\x7fa")]), "reaches beyond"),
    "endless number": (table_of([block(b"\x80" * 12)]), "an entry after b'' is damaged"),
    "block twice": (table_of([TWO], handles=[(0, len(TWO))] * 2), "overlaps another"),
    "block in block": (
        table_of([TWO], handles=[(0, len(TWO)), (3, 4)]),
        "overlaps another",
    ),
    "block in index": (table_of([TWO], handles=[(0, len(TWO) + 9)]), "overlaps another"),
    "neighbour's keys": (table_of([TWO], last_keys=[b"aa"]), "keys of its neighbour"),
    "order of blocks": (
        table_of([block(entry(0, b"c", b"")), block(entry(0, b"a", b""))], last_keys=[b"d", b"e"]),
        "keys of its neighbour",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables_are_refused(name):
    data, message = BROKEN[name]
    with pytest.raises(CheckpointError, match=message) as caught:
        read(data)
    assert str(FILE) in str(caught.value)
    assert "at byte" in str(caught.value)


def test_without_checksums_only_the_structure_is_checked():
    data = table_of([block(entry(0, b"a", b"old"))])
    changed = data.replace(b"old", b"new")
    with pytest.raises(CheckpointError, match="checksum"):
        read(changed)
    assert read(changed, verify_checksums=False) == [(b"a", b"new")]


def test_the_index_alone_is_read_at_first():
    sound = written([(b"a", b"x" * 600_000), (b"b", b"y" * 600_000)])
    table = opened(b"z" + sound[1:])
    assert bytes(table.get(b"b")) == b"y" * 600_000
    with pytest.raises(CheckpointError, match=r"checksum of a block .*at byte 0"):
        table.get(b"a")
