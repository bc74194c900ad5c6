"""Checkpoints that were made to do harm, each with the error it must raise.

The files are made here, so that what is wrong with each can be read. Nothing may be allocated
because a file declares it, and nothing but our own errors may come out.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import cramjam
import numpy as np
import pytest

import checkpoints
from checkpoints import family
from checkpoints.checksum import crc32c, mask
from checkpoints.errors import BrokenFileError, CheckpointError, SlimtuneError, UnsupportedError
from checkpoints.messages import BundleEntryProto, BundleHeaderProto, SavedTensorSlices
from checkpoints.ordered_code import encode_slice_key
from checkpoints.table import TableWriter
from checkpoints.wire import encode_varint

FLOAT, STRING, RESOURCE, VARIANT = 1, 7, 20, 21
DATA = struct.pack("<4f", 1, 2, 3, 4)


def entry(shape=(4,), dtype=FLOAT, offset=0, size=16, shard=0, slices=(), crc=None):
    proto = BundleEntryProto(dtype=dtype, shard_id=shard, offset=offset, size=size)
    proto.crc32c = mask(crc32c(DATA[offset : offset + size])) if crc is None else crc
    proto.shape.SetInParent()
    for dimension in shape:
        proto.shape.dim.add(size=dimension)
    for extents in slices:
        part = proto.slices.add()
        for start, length in extents:
            part.extent.add(start=start, length=length)
    return proto.SerializeToString()


def header(num_shards=1, **fields):
    message = BundleHeaderProto(num_shards=num_shards, **fields)
    message.version.producer = 1
    return message.SerializeToString()


def v2(folder, entries, head=None, data=DATA):
    items = {b"": header() if head is None else head}
    items |= {
        key.encode() if isinstance(key, str) else key: value for key, value in entries.items()
    }
    with (folder / "m.index").open("wb") as file:
        table = TableWriter(file)
        for key in sorted(items):
            table.add(key, [items[key]])
        table.finish()
    (folder / "m.data-00000-of-00001").write_bytes(data)
    return folder / "m"


HALF = ((0, 2),)
OTHER_HALF = ((2, 2),)
WHOLE_KEY = encode_slice_key(b"v", HALF)
OTHER_KEY = encode_slice_key(b"v", OTHER_HALF)

# name: (entries, header, error, message); the variable is called v.
OPENING = {
    "no header": ({}, b"", CheckpointError, "impossible number of .data files"),
    "header is no message": ({}, b"\x08", CheckpointError, "header cannot be read"),
    "a third byte order": ({}, header() + b"\x10\x02", CheckpointError, "byte order that there is"),
    "no shards": ({}, header(0), CheckpointError, "impossible number of .data files"),
    "a billion shards": ({}, header(10**9), CheckpointError, "impossible number of .data files"),
    "negative shards": ({}, header(-1), CheckpointError, "impossible number of .data files"),
    "later version": (
        {},
        header() + b"\x1a\x02\x10\x63",
        UnsupportedError,
        "needs a later reader",
    ),
    "entry is no message": ({"v": b"\xff"}, None, CheckpointError, "entry v cannot be read"),
    "name is no text": ({b"\xff\xfe": entry()}, None, CheckpointError, "cannot be read"),
    "negative shape": ({"v": entry((-4,))}, None, CheckpointError, "variable v: the shape is not"),
    "two negatives": (
        {"v": entry((-2, -2))},
        None,
        CheckpointError,
        "variable v: the shape is not",
    ),
    "unknown shape": (
        {"v": BundleEntryProto(dtype=1, shape={"unknown_rank": True}).SerializeToString()},
        None,
        CheckpointError,
        "variable v: the shape is not",
    ),
    "shape beyond all addresses": (
        {"v": entry((2**62, 2**62, 0), size=0)},
        None,
        CheckpointError,
        "variable v: the shape is too large",
    ),
    "bytes beyond all addresses": (
        {"v": entry((2**62, 0), size=0)},
        None,
        CheckpointError,
        "variable v: the shape is too large",
    ),
    "shape that wraps to the size": (
        {"v": entry((2**32, 2**32, 4), size=16)},
        None,
        CheckpointError,
        "variable v: the shape is too large",
    ),
    "too many dimensions": (
        {"v": entry((1,) * 200, size=4)},
        None,
        UnsupportedError,
        "variable v: a tensor has 200 dimensions",
    ),
    "shape larger than size": (
        {"v": entry((2**40,))},
        None,
        CheckpointError,
        "variable v: the size of the values does not fit",
    ),
    "size larger than shape": (
        {"v": entry((1,))},
        None,
        CheckpointError,
        "variable v: the size of the values does not fit",
    ),
    "a slice that is all of the shape, and larger than the size": (
        {"v": entry(size=8, slices=[((7, -1),)])},
        None,
        CheckpointError,
        "variable v: the size of the values does not fit",
    ),
    "a slice that is all of the shape, and overlaps": (
        {"a": entry(), "v": entry(slices=[((0, -1),)])},
        None,
        CheckpointError,
        r"the bytes of v overlap those of a in \.data file 0",
    ),
    "more strings than bytes": (
        {"v": entry((2**40,), STRING)},
        None,
        CheckpointError,
        "variable v: the size of the values does not fit",
    ),
    "negative offset": (
        {"v": entry(offset=-8)},
        None,
        CheckpointError,
        "variable v: the place of the values is negative",
    ),
    "negative size": (
        {"v": entry((), STRING, size=-8)},
        None,
        CheckpointError,
        "variable v: the place of the values is negative",
    ),
    "shard that is not declared": (
        {"v": entry(shard=1)},
        None,
        CheckpointError,
        r"variable v: the values lie in a \.data file that the header",
    ),
    "negative shard": (
        {"v": entry(shard=-1)},
        None,
        CheckpointError,
        r"variable v: the values lie in a \.data file that the header",
    ),
    "overlapping values": (
        {"a": entry((2,), size=8), "v": entry((2,), offset=4, size=8)},
        None,
        CheckpointError,
        r"the bytes of v overlap those of a in \.data file 0",
    ),
    "one value a thousand times": (
        {f"v{number}": entry() for number in range(1000)},
        None,
        CheckpointError,
        "overlap",
    ),
    "overlapping slices of values": (
        {
            "v": entry(slices=[HALF, OTHER_HALF]),
            WHOLE_KEY: entry((2,), size=8),
            OTHER_KEY: entry((2,), size=8),
        },
        None,
        CheckpointError,
        r"the bytes of v \[\[2, 2\]\] overlap those of v \[\[0, 2\]\]",
    ),
    "resource": ({"v": entry(dtype=RESOURCE)}, None, UnsupportedError, "variable v: .*resource"),
    "variant": ({"v": entry(dtype=VARIANT)}, None, UnsupportedError, "variable v: .*variant"),
    "no dtype": ({"v": entry(dtype=0)}, None, UnsupportedError, "variable v: .*dtype 0"),
    "dtype nobody knows": (
        {"v": entry(dtype=99)},
        None,
        UnsupportedError,
        "variable v: .*dtype 99",
    ),
    "slice outside": (
        {"v": entry(slices=[((3, 2),)])},
        None,
        CheckpointError,
        "variable v: a slice does not lie inside",
    ),
    "slice of overflow": (
        {"v": entry(slices=[((2**63 - 1, 2**63 - 1),)])},
        None,
        CheckpointError,
        "variable v: a slice does not lie inside",
    ),
    "slice of another rank": (
        {"v": entry(slices=[((0, 2), (0, 2))])},
        None,
        CheckpointError,
        "variable v: a slice does not lie inside",
    ),
    "negative slice": (
        {"v": entry(slices=[((0, -2),)])},
        None,
        CheckpointError,
        "variable v: a slice does not lie inside",
    ),
}


@pytest.mark.parametrize("name", OPENING)
def test_refused_when_opened(tmp_path, name):
    entries, head, error, message = OPENING[name]
    prefix = v2(tmp_path, entries, head)
    with pytest.raises(error, match=message) as caught:
        checkpoints.open(prefix)
    assert str(prefix) in str(caught.value)


def test_an_index_that_declares_more_files_than_anyone_lists(tmp_path):
    prefix = v2(tmp_path, {"v": entry()}, header(99_999))
    problems = checkpoints.verify(prefix).problems
    assert [problem.kind for problem in problems] == ["missing-file"] * 11
    assert problems[0].detail == "m.data-00000-of-99999 is not there."
    assert problems[-1].detail == "Of 99999 .data files 0 are there."
    assert problems[-1].path == f"{prefix}.index"


STATES = {
    "a name longer than a file's": (f'"{"m" * 300}"', "by more than a file's name can have"),
    "a path longer than any": (f'"{"m/" * 3000}m"', "by more than a file's name can have"),
    "a number for a name": ("7", "is not the text that names the latest checkpoint"),
    "an escape that is none": (r'"\ud800"', "is not the text that names the latest checkpoint"),
    "a time that is none": (
        f'"m" last_preserved_timestamp: "{"9" * 400}"',
        "is not the text that names the latest checkpoint",
    ),
    "messages without end": (
        '"m" later ' + "{ a " * 20_000,
        "is not the text that names the latest checkpoint",
    ),
}


@pytest.mark.parametrize("what", STATES)
def test_state_files(tmp_path, what):
    text, message = STATES[what]
    (tmp_path / "checkpoint").write_text(f"model_checkpoint_path: {text}")
    for read in (family.latest, family.read_state, checkpoints.open):
        with pytest.raises(BrokenFileError, match=message):
            read(tmp_path)


def test_an_unknown_escape_stands_for_itself(tmp_path):
    (tmp_path / "checkpoint").write_text(r'model_checkpoint_path: "a\mb"')
    assert family.read_state(tmp_path).latest == tmp_path / r"a\mb"


def strings(lengths, text, stored=None):
    """A block of strings whose lengths may lie."""
    words = b"".join(struct.pack("<I", length & 0xFFFFFFFF) for length in lengths)
    stored = struct.pack("<I", mask(crc32c(words)) if stored is None else stored)
    data = b"".join(map(encode_varint, lengths)) + stored + text
    return data, mask(crc32c(text, crc32c(stored, crc32c(words))))


def one_string(data_and_crc, count=1):
    data, crc = data_and_crc
    return {"v": entry((count,), STRING, size=len(data), crc=crc)}, data


# name: (entries, data, message); the variable is called v.
READING = {
    "file ends before": ({"v": entry(offset=2**60)}, DATA, "ends at byte 16"),
    "file is empty": ({"v": entry()}, b"", "ends at byte 0"),
    "checksum": ({"v": entry(crc=5)}, DATA, "the checksum does not match"),
    "slices without entries": (
        {"v": entry(slices=[HALF, OTHER_HALF])},
        DATA,
        "has no entry that fits",
    ),
    "slice of another shape": (
        {"v": entry(slices=[HALF, OTHER_HALF]), WHOLE_KEY: entry((3,), size=12)},
        DATA,
        "has no entry that fits",
    ),
    "slice of another dtype": (
        {"v": entry(slices=[HALF, OTHER_HALF]), WHOLE_KEY: entry((2,), 3, size=8)},
        DATA,
        "has no entry that fits",
    ),
    "slices leave a gap": (
        {"v": entry(slices=[HALF]), WHOLE_KEY: entry((2,), size=8)},
        DATA,
        "the slices do not fill",
    ),
    "a slice of a huge variable": (
        {"v": entry((2**50,), slices=[HALF]), WHOLE_KEY: entry((2,), size=8)},
        DATA,
        "the slices do not fill",
    ),
    "the same slice twice": (
        {"v": entry(slices=[HALF, HALF]), WHOLE_KEY: entry((2,), size=8)},
        DATA,
        "overlap",
    ),
    "string longer than the block": (*one_string(strings([2**40], b"abc")), "do not add up"),
    "string of 2**64 - 1 bytes": (*one_string(strings([2**64 - 1], b"abc")), "do not add up"),
    "strings shorter than the block": (*one_string(strings([1], b"abc")), "do not add up"),
    "sum that wraps": (
        *one_string(strings([2**64 - 1, 4], b"abc"), 2),
        "do not add up",
    ),
    "first checksum of strings": (*one_string(strings([3], b"abc", 7)), "checksum"),
    "endless length": (
        {"v": entry((1,), STRING, size=16)},
        b"\x80" * 16,
        "do not add up|more than 64 bits",
    ),
    "length of 70 bits": (
        {"v": entry((1,), STRING, size=16)},
        b"\xff" * 9 + b"\x7f" + b"\0" * 6,
        "more than 64 bits",
    ),
}


@pytest.mark.parametrize("name", READING)
def test_refused_when_read_and_the_rest_is_read(tmp_path, name):
    entries, data, message = READING[name]
    # A sound variable stands behind in the same index and is empty, so that it needs no bytes.
    prefix = v2(tmp_path, entries | {"z": entry((0,), size=0)}, data=data)
    with checkpoints.open(prefix) as saved:
        assert saved["z"].shape == (0,)
        with pytest.raises(CheckpointError, match=message) as caught:
            saved["v"]
    assert "variable v" in str(caught.value)
    assert str(prefix) in str(caught.value)


@pytest.mark.parametrize("name", [*OPENING, *READING])
def test_nothing_is_allocated_because_it_is_declared(tmp_path, name):
    if name in OPENING:
        entries, head, _, _ = OPENING[name]
        data = DATA
    else:
        (entries, data, _), head = READING[name], None
    prefix = v2(tmp_path, entries, head, data)
    tracemalloc.start()
    try:
        read_all(prefix, True)
        read_all(prefix, False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def read_all(prefix, verify_checksums):
    """Reads what can be read; anything but our own errors comes out."""
    try:
        with checkpoints.open(prefix, verify_checksums=verify_checksums) as saved:
            for name in saved:
                try:
                    saved[name]
                    if saved.variables[name].dtype_name != "string":
                        saved.bytes_of(name)
                except SlimtuneError:
                    continue
    except SlimtuneError:
        return


def sound(folder, version):
    values = {
        "a": np.arange(3, dtype=np.float32),
        "b/c": np.array([-1, 300]),
        "s": np.array([b"ab", b""], object),
        "t": np.array(True),
        "u": np.array([1.5], np.float16),
    }
    return checkpoints.write(folder / "m", values, version=version)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("verify_checksums", [True, False])
def test_any_byte_changed(tmp_path, version, verify_checksums):
    """Without checksums the structure itself has to hold."""
    family = sound(tmp_path, version)
    for file in family.files:
        before = file.read_bytes()
        for offset in range(len(before)):
            for changed in {before[offset] ^ 0x80, before[offset] ^ 1, 0xFF, 0} - {before[offset]}:
                file.write_bytes(before[:offset] + bytes([changed]) + before[offset + 1 :])
                read_all(family.prefix, verify_checksums)
        file.write_bytes(before)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_cut_anywhere(tmp_path, version):
    family = sound(tmp_path, version)
    for file in family.files:
        before = file.read_bytes()
        for length in range(len(before)):
            file.write_bytes(before[:length])
            read_all(family.prefix, True)
        file.write_bytes(before)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_many_bytes_changed_at_once(tmp_path, version):
    family = sound(tmp_path, version)
    rng = random.Random(version)
    for file in family.files:
        before = file.read_bytes()
        for _ in range(500):
            data = bytearray(before)
            for _ in range(rng.randint(2, 12)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            file.write_bytes(data)
            read_all(family.prefix, False)
        file.write_bytes(before)


def test_compressed_blocks_that_declare_too_much(tmp_path):
    """A few bytes that say they are two gigabytes, in the place of the index's first block."""
    contents = encode_varint(2**31 - 1) + b"\x00a"
    block = contents + b"\x01" + struct.pack("<I", mask(crc32c(contents + b"\x01")))
    index = b"\x00\x01\x02\xff" + encode_varint(0) + encode_varint(len(contents))
    index += struct.pack("<II", 0, 1)
    footer = b"".join(map(encode_varint, (len(block), 0, len(block), len(index))))
    trailer = b"\x00" + struct.pack("<I", mask(crc32c(index + b"\x00")))
    magic = struct.pack("<Q", 0xDB4775248B80FB57)
    (tmp_path / "m.index").write_bytes(block + index + trailer + footer.ljust(40, b"\0") + magic)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="compressed bytes declare to be 2147483647"):
            checkpoints.open(tmp_path / "m")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert len(cramjam.snappy.compress_raw(bytes(2**20))) * 64 / 3 > 2**20


def test_a_v1_list_that_declares_too_much(tmp_path):
    message = SavedTensorSlices()
    tensor = message.meta.tensor.add(name="v", type=FLOAT)
    tensor.shape.dim.add(size=2**45)
    tensor.slice.add().extent.add()
    key = encode_slice_key(b"v", [(0, -1)])
    with Path(tmp_path / "m").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [message.SerializeToString()])
        table.add(key, [b"\x12\x04\x1a\x02\x2a\x00"])
        table.finish()
    tracemalloc.start()
    try:
        with checkpoints.open(tmp_path / "m") as saved:
            assert saved.variables["v"].shape == (2**45,)
            with pytest.raises(CheckpointError, match="variable v cannot be read: the number of"):
                saved["v"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
