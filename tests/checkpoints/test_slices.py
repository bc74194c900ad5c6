from __future__ import annotations

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import CheckpointError, UnsupportedError
from checkpoints.messages import SavedTensorSlices, TensorProto
from checkpoints.ordered_code import WHOLE, encode_slice_key
from checkpoints.table import TableWriter


def write_v1(path, tensors, *, versions=(1, 0)):
    """A V1 file of (name, dtype, shape, slices, {slice: TensorProto}); slices are [start, length]."""
    meta = SavedTensorSlices()
    meta.meta.versions.producer, meta.meta.versions.min_consumer = versions
    records = {}
    for name, dtype, shape, slices, values in tensors:
        tensor = meta.meta.tensor.add(name=name, type=dtype)
        tensor.shape.SetInParent()
        for size in shape:
            tensor.shape.dim.add(size=size)
        for extents in slices:
            part = tensor.slice.add()
            for start, length in extents:
                extent = part.extent.add(start=start)
                if length != WHOLE:
                    extent.length = length
        for extents, proto in values.items():
            record = SavedTensorSlices()
            record.data.name = name
            record.data.data.CopyFrom(proto)
            records[encode_slice_key(name.encode(), extents)] = record.SerializeToString()
    with path.open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [meta.SerializeToString()])
        for key in sorted(records):
            table.add(key, [records[key]])
        table.finish()


ALL = ((0, WHOLE),)


def vector(dtype, proto, size=3):
    """A file with one vector `v`."""
    return [("v", dtype, [size], [ALL], {ALL: proto})]


def test_numbers_are_views_of_the_file_where_they_are_aligned(tmp_path):
    values = {f"v{number}": np.full(4, number, np.int8) for number in range(4)}
    values |= {f"w{number}": np.full(100, number, np.float32) for number in range(4)}
    checkpoints.write(tmp_path / "m", values, version="v1")
    with checkpoints.open(tmp_path / "m") as saved:
        for name, value in values.items():
            array = saved[name]
            assert array.tolist() == value.tolist()
            assert array.flags.aligned
            assert not array.flags.writeable
        first, second = saved.bytes_of("w1"), saved.bytes_of("w1")
        assert np.shares_memory(np.frombuffer(first, "u1"), np.frombuffer(second, "u1"))


def test_opening_reads_the_list_alone(tmp_path):
    values = {"a": np.zeros(200_000, np.float32), "b": np.ones(200_000, np.float32)}
    path = tmp_path / "m"
    checkpoints.write(path, values, version="v1")
    data = bytearray(path.read_bytes())
    data[400_000] ^= 1
    path.write_bytes(data)
    with checkpoints.open(path) as saved:
        assert saved.variables["a"].shape == (200_000,)
        assert saved["b"].sum() == 200_000
        with pytest.raises(CheckpointError) as caught:
            saved["a"]
    assert str(caught.value).startswith(f"{path}: variable a cannot be read: the checksum")
    with checkpoints.open(path, verify_checksums=False) as saved:
        assert saved["a"].shape == (200_000,)


@pytest.mark.parametrize(
    ("dtype", "wire", "expected"),
    [
        # float_val unpacked, then packed, as any writer of protobuf may do.
        (1, b"\x2d\0\0\x80\x3f" + b"\x2a\x08\0\0\0\x40\0\0\x40\x40", [1.0, 2.0, 3.0]),
        # int_val one by one, a negative one in ten bytes.
        (3, b"\x38\x07\x38" + b"\xff" * 9 + b"\x01" + b"\x38\x80\x02", [7, -1, 256]),
        # half_val holds bits: 1, -2, infinity.
        (19, b"\x6a\x08\x80\x78\x80\x80\x03\x80\xf8\x01", [1.0, -2.0, float("inf")]),
        # Fields that are not the values are passed over.
        (10, b"\x08\x0a\x12\x00" + b"\x5a\x03\x01\x00\x01", [True, False, True]),
    ],
)
def test_values_in_every_spelling_of_protobuf(tmp_path, dtype, wire, expected):
    write_v1(tmp_path / "m", vector(dtype, TensorProto.FromString(wire)))
    assert checkpoints.open(tmp_path / "m")["v"].tolist() == expected


def test_unpacked_numbers_keep_their_wire_form(tmp_path):
    """The message above goes through protobuf's own writer, which packs; these bytes do not."""
    wire = b"\x2d\0\0\x80\x3f\x2d\0\0\0\x40"
    record = b"\x12" + bytes([len(wire) + 2]) + b"\x1a" + bytes([len(wire)]) + wire
    meta = SavedTensorSlices()
    tensor = meta.meta.tensor.add(name="v", type=1)
    tensor.shape.dim.add(size=2)
    tensor.slice.add().extent.add()
    with (tmp_path / "m").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [meta.SerializeToString()])
        table.add(encode_slice_key(b"v", ALL), [record])
        table.finish()
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved["v"].tolist() == [1.0, 2.0]
        assert bytes(saved.bytes_of("v")) == np.array([1, 2], "<f4").tobytes()


@pytest.mark.parametrize(
    ("dtype", "proto", "message"),
    [
        (1, TensorProto(float_val=[1, 2]), "number of values does not fit"),
        (1, TensorProto(), "number of values does not fit"),
        (1, TensorProto(float_val=[1, 2, 3, 4]), "Received: 16 bytes"),
        (3, TensorProto(int_val=[1, 2]), "Received: 2 values"),
        (6, TensorProto(int_val=[1, 128, 3]), "outside the range of int8"),
        (4, TensorProto(int_val=[1, -1, 3]), "outside the range of uint8"),
        (7, TensorProto(string_val=[b"a"]), "Received: 1 strings"),
        (9, TensorProto(int_val=[1, 2, 3]), "Received: 0 values"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path, dtype, proto, message):
    write_v1(tmp_path / "m", vector(dtype, proto))
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved.variables["v"].shape == (3,)
        with pytest.raises(CheckpointError, match=message) as caught:
            saved["v"]
        assert f"{tmp_path / 'm'}: variable v cannot be read" in str(caught.value)
        if dtype == 1:
            with pytest.raises(CheckpointError, match=message):
                saved.bytes_of("v")


ONE = TensorProto(float_val=[1.0])
TWO = TensorProto(float_val=[1.0, 2.0])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([("v", 1, [3], [ALL], {})], "the values are not in the file"),
        ([("v", 1, [3], [], {})], "slices do not fill the variable"),
        ([("v", 1, [3], [((0, 2),)], {((0, 2),): TWO})], "slices do not fill the variable"),
        (
            [("v", 1, [3], [((0, 2),), ((1, 2),)], {((0, 2),): TWO, ((1, 2),): TWO})],
            "slices do not fill the variable",
        ),
        (
            [("v", 1, [3], [((0, 2),), ((1, 1),)], {((0, 2),): TWO, ((1, 1),): ONE})],
            "slices of the variable overlap",
        ),
    ],
)
def test_slices_that_do_not_make_a_whole_are_refused_when_read(tmp_path, tensors, message):
    sound = ("sound", 1, [], [()], {(): ONE})
    write_v1(tmp_path / "m", [*tensors, sound])
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved["sound"] == 1.0
        with pytest.raises(CheckpointError, match=f"variable v cannot be read: .*{message}"):
            saved["v"]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([("v", 1, [-3], [], {})], "variable v: the shape is not known"),
        ([("v", 1, [2**40, 2**40], [], {})], "variable v: the shape is too large"),
        ([("v", 1, [3], [((2, 2),)], {})], "variable v: a slice does not lie inside"),
        ([("v", 1, [3], [((-1, 2),)], {})], "variable v: a slice does not lie inside"),
        ([("v", 1, [3], [((0, -5),)], {})], "variable v: a slice does not lie inside"),
        ([("v", 1, [3], [()], {})], "variable v: a slice does not lie inside"),
        ([("v", 1, [3], [ALL], {}), ("v", 1, [4], [], {})], "contradict each other"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(tmp_path, tensors, message):
    write_v1(tmp_path / "m", tensors)
    with pytest.raises(CheckpointError, match=message):
        checkpoints.open(tmp_path / "m")


def test_what_holds_no_numbers_is_refused_by_name(tmp_path):
    write_v1(tmp_path / "m", [("v", 20, [], [], {})])
    with pytest.raises(UnsupportedError, match="variable v: values of dtype resource"):
        checkpoints.open(tmp_path / "m")


def test_a_later_version_is_refused(tmp_path):
    write_v1(tmp_path / "m", [], versions=(9, 2))
    with pytest.raises(UnsupportedError, match="needs a later reader"):
        checkpoints.open(tmp_path / "m")


def test_a_v2_index_under_another_name_is_named(tmp_path):
    checkpoints.write(tmp_path / "m", {"a": np.ones(2)})
    (tmp_path / "m.index").rename(tmp_path / "renamed")
    with pytest.raises(CheckpointError, match="is not a V1 checkpoint") as caught:
        checkpoints.open(tmp_path / "renamed")
    assert "perhaps the index of a V2 checkpoint" in str(caught.value)


def test_what_is_too_large_for_v1_is_refused_before_anything_is_written(tmp_path):
    huge = np.broadcast_to(np.float32(0), (2**29 + 1,))
    with pytest.raises(UnsupportedError, match="huge is too large for a V1") as caught:
        checkpoints.write(tmp_path / "m", {"huge": huge}, version="v1")
    assert "Write a V2 checkpoint" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_many_shards(tmp_path):
    """Shards, as many as there are, each with its own variables."""
    for number in range(3):
        checkpoints.write(
            tmp_path / f"m-{number:05d}-of-00003",
            {f"v{number}": np.full(2, number)},
            version="v1",
        )
    with checkpoints.open(tmp_path / "m") as saved:
        assert {name: value.tolist() for name, value in saved.items()} == {
            "v0": [0, 0],
            "v1": [1, 1],
            "v2": [2, 2],
        }
    (tmp_path / "m-00001-of-00003").unlink()
    with pytest.raises(CheckpointError, match="shards are not one whole set") as caught:
        checkpoints.open(tmp_path / "m")
    assert "m-00000-of-00003, m-00002-of-00003" in str(caught.value)
