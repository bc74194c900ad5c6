"""npz and safetensors files that were made to do harm, each with the error it must raise.

Nothing may be allocated because a file declares it, and nothing but our own errors may come out.
"""

from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import CheckpointError, SlimtuneError, UnsupportedError

LARGE = 2**40


def npy(descr="<f4", shape="(4,)", data=b"\0" * 16, order="False", head=None):
    if head is None:
        head = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n"
    encoded = head.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded + data


def npz(folder, members, compression=zipfile.ZIP_STORED):
    path = folder / "m.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def safetensors(folder, header, data=b"\0" * 16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "m.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def refused(path, error, match):
    """Opening or reading raises the error without a large allocation."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match), checkpoints.open(path) as saved:
            for name in saved:
                saved[name]
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


HEADERS = {
    "shape larger than the file": (npy(shape=f"({LARGE},)"), "does not fit dtype and shape"),
    "shape smaller than the file": (npy(shape="(3,)"), "does not fit dtype and shape"),
    "negative shape": (npy(shape="(-4,)"), "is impossible"),
    "too many dimensions": (npy(shape=str((1,) * 33)), "is impossible"),
    "shape beyond 64 bits": (npy(shape=f"({LARGE}, {LARGE}, 0)", data=b""), "cannot hold"),
    "bytes beyond 64 bits": (npy(shape=f"({2**62}, 0)", data=b""), "cannot hold"),
    "no width": (npy(descr="|S0", shape=f"({LARGE},)", data=b""), "cannot hold"),
    "an expression": (npy(head="__import__('os').abort()\n"), "header cannot be read"),
    "a shape that is no tuple": (npy(shape="4"), "header cannot be read"),
    "a dtype that is none": (npy(descr="<f7"), "header cannot be read"),
    "a header beyond the file": (b"\x93NUMPY\x01\x00\xff\xff{", "header cannot be read"),
    "no array": (b"hello", "header cannot be read"),
    "nested brackets": (npy(head="(" * 9000), "header cannot be read"),
    "too long": (npy(head="{" + " " * 5000 + "}"), "header cannot be read"),
    "another dtype's name": (npy(descr="f4,f4"), "header cannot be read"),
    "fields without dtypes": (npy(descr=[("a",)]), "header cannot be read"),
    "a key missing": (npy(head="{'descr': '<f4', 'shape': (4,)}"), "header cannot be read"),
    "deep expression": (npy(head="-" * 5000 + "1"), "header cannot be read"),
}


@pytest.mark.parametrize("what", HEADERS)
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_headers_of_members(tmp_path, what, compression):
    content, match = HEADERS[what]
    refused(npz(tmp_path, [("a.npy", content)], compression), CheckpointError, match)


UNSUPPORTED = {
    "objects": (npy(descr="|O"), "pickled Python objects"),
    "a version to come": (b"\x93NUMPY\x03\x00" + npy()[8:], "version 3.0"),
    "a date": (npy(descr="<M8[s]", shape="(2,)"), "no dtype for"),
    "a structure": (npy(descr=[("a", "<f4"), ("b", "<f4")], shape="(2,)"), "no dtype for"),
    "long floats": (npy(descr="<f16", shape="(1,)"), "no dtype for"),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_members_that_are_no_variables(tmp_path, what):
    content, match = UNSUPPORTED[what]
    refused(npz(tmp_path, [("a.npy", content)]), UnsupportedError, match)


def test_other_members(tmp_path):
    members = [("a.npy", npy()), ("notes.txt", b"hello")]
    with checkpoints.open(npz(tmp_path, members)) as saved:
        assert list(saved) == ["a"]
        with pytest.raises(UnsupportedError, match=r"variable notes\.txt cannot be read"):
            saved["notes.txt"]
    refused(npz(tmp_path, members[:1], zipfile.ZIP_BZIP2), UnsupportedError, "its compression 12")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice(tmp_path):
    refused(npz(tmp_path, [("a.npy", npy()), ("a.npy", npy())]), CheckpointError, "there twice")


def test_a_bomb(tmp_path):
    """A member that declares a terabyte, and one that really holds much."""
    path = npz(tmp_path, [("a.npy", npy())], zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, place + 24, 2**32 - 2)
    path.write_bytes(content)
    refused(path, CheckpointError, "its sizes do not fit")

    size = 200_000_000
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    small = deflated.compress(npy(shape=f"({size},)", descr="|u1", data=b""))
    zeros = bytes(1_000_000)
    for _ in range(size // len(zeros)):
        small += deflated.compress(zeros)
    small += deflated.flush()
    path = npz(tmp_path, [("a.npy", b"x" * len(small))])
    assert len(small) < 300_000
    # What it holds is only inflated when it is asked for.
    content = path.read_bytes().replace(b"x" * len(small), small)
    content = bytearray(content)
    for place in (0, content.index(b"PK\x01\x02") + 2):
        struct.pack_into("<H", content, place + 8, zipfile.ZIP_DEFLATED)
    place = content.index(b"PK\x01\x02")
    struct.pack_into(
        "<I", content, place + 24, size + len(npy(shape=f"({size},)", descr="|u1", data=b""))
    )
    path.write_bytes(content)
    tracemalloc.start()
    with checkpoints.open(path) as saved:
        assert saved.variables["a"].shape == (size,)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_members_that_share_bytes(tmp_path):
    path = npz(tmp_path, [("a.npy", npy()), ("b.npy", npy())])
    content = bytearray(path.read_bytes())
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 4)
    content[second + 42 : second + 46] = content[first + 42 : first + 46]
    path.write_bytes(content)
    refused(path, CheckpointError, "overlap those of another member")


def test_encrypted_members(tmp_path):
    path = npz(tmp_path, [("a.npy", npy())])
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    refused(path, UnsupportedError, "it is encrypted")


def test_a_member_that_is_elsewhere(tmp_path):
    path = npz(tmp_path, [("a.npy", npy())])
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 42, 7)
    path.write_bytes(content)
    refused(path, CheckpointError, "there is no member at byte 7")


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b'{"dtypes": []}', b'{"metadata": {"a": 1}}', b"[" * 100_000, b"\xff"],
)
def test_metadata_that_is_none(tmp_path, text):
    array = io.BytesIO()
    np.save(array, np.array(text))
    path = npz(tmp_path, [("__metadata__.npy", array.getvalue())])
    refused(path, CheckpointError, "variable __metadata__ cannot be read")


def test_a_dtype_of_another_width(tmp_path):
    array = io.BytesIO()
    np.save(array, np.array(json.dumps({"dtypes": {"a": "bfloat16"}}).encode()))
    members = [("__metadata__.npy", array.getvalue()), ("a.npy", npy(descr="|V4"))]
    refused(npz(tmp_path, members), CheckpointError, "its dtype cannot be bfloat16")


def test_text_that_is_none(tmp_path):
    content = npy(descr="<U1", shape="(1,)", data=b"\xff\xff\xff\xff")
    refused(npz(tmp_path, [("a.npy", content)]), CheckpointError, "no valid text")


SAFETENSORS = {
    "offsets beyond the file": {"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}},
    "a size that does not fit": {"a": {"dtype": "F32", "shape": [LARGE], "data_offsets": [0, 16]}},
    "offsets that overlap": {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]},
    },
    "a gap": {"a": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}},
    "a negative size": {"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}},
    "no dtype": {"a": {"dtype": "F7", "shape": [4], "data_offsets": [0, 16]}},
    "metadata that is no text": {
        "__metadata__": {"a": 1},
        "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    },
    "no JSON": b'{"a"',
    "brackets": b"{" + b"[" * 100_000,
}


@pytest.mark.parametrize("what", SAFETENSORS)
def test_headers_of_safetensors(tmp_path, what):
    refused(safetensors(tmp_path, SAFETENSORS[what]), CheckpointError, "the header cannot be read")


def test_a_header_as_large_as_it_says(tmp_path):
    path = tmp_path / "m.safetensors"
    for length in (2**63, LARGE, 200_000_000):
        path.write_bytes(length.to_bytes(8, "little") + b"{" + bytes(100))
        refused(path, CheckpointError, "the header cannot be read")


def test_a_variable_twice_in_a_header(tmp_path):
    entry = b'"a":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}'
    header = b"{" + entry % (4, 0, 16) + b"," + entry % (4, 0, 16) + b"}"
    with pytest.raises(CheckpointError, match=r"twice|cannot be read"):
        checkpoints.open(safetensors(tmp_path, header))


def test_more_dimensions_than_an_array_has(tmp_path):
    header = {"a": {"dtype": "F32", "shape": [4] + [1] * 40, "data_offsets": [0, 16]}}
    refused(safetensors(tmp_path, header), UnsupportedError, "cannot be an array")
    for size in (2**63, 2**62):
        header = {"a": {"dtype": "F32", "shape": [size, 0], "data_offsets": [0, 0]}}
        refused(safetensors(tmp_path, header, b""), UnsupportedError, "cannot be an array")


@pytest.mark.parametrize("form", ["npz", "deflated", "safetensors"])
def test_damage_anywhere_raises_our_errors_only(tmp_path, form):
    values = {
        "net/w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "step": np.array(7),
        "n": np.zeros((0, 3), np.int8),
    }
    path = tmp_path / f"m.{'safetensors' if form == 'safetensors' else 'npz'}"
    if form == "deflated":
        np.savez_compressed(path, **values)
    else:
        checkpoints.write(path, values, metadata={"step": "7"})
    content = path.read_bytes()
    rng = random.Random(0)
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 1, 1, 3))):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 0xFF, rng.randrange(256)))
        if rng.random() < 0.1:
            damaged = damaged[: rng.randrange(len(damaged))]
        path.write_bytes(damaged)
        try:
            with checkpoints.open(path) as saved:
                for name in saved:
                    saved[name]
                    saved.bytes_of(name)
        except SlimtuneError as error:
            assert error.message
