"""What TensorFlow writes we read, what we write it reads, and byte for byte the same.

Values are any bits of any dtype; names any text; both versions.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoints
from checkpoints import dtypes

pytestmark = pytest.mark.tensorflow

SETTINGS = settings(max_examples=40, deadline=None)


DTYPES_V2 = [
    "float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool",
    "uint16", "complex128", "float16", "uint32", "uint64", "string", "bfloat16", "qint8",
    "quint8", "qint32", "qint16", "quint16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4",
]  # fmt: skip
"""What TensorFlow's SaveV2 takes."""

DTYPES_V1 = [
    "float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64", "bool",
    "uint16", "complex128", "float16", "string", "qint8", "quint8", "qint32",
]  # fmt: skip
"""What TensorFlow's SaveSlices takes."""


@st.composite
def arrays(draw: Any, names: list[str]) -> Any:
    """An array of one of these dtypes, of rank 0 to 3, empty ones and any bits included."""
    dtype = dtypes.of_name(draw(st.sampled_from(names)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = math.prod(shape)
    if dtype.is_string:
        values = draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count))
        array = np.empty(count, object)
        array[:] = values
        return array.reshape(shape)
    size = count * dtype.numpy.itemsize
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if dtype.name == "bool":
        data = data & 1
    if dtype.name in ("int4", "uint4"):
        # One value a byte; only its low four bits are defined.
        return (data & 7).astype(dtype.numpy).reshape(shape)
    return data.view(dtype.numpy).reshape(shape)


def checkpoints_of(names: list[str]) -> Any:
    """Values by name, in the order of the names."""
    part = st.text("abz/_0é花", min_size=1, max_size=6)
    return st.dictionaries(part, arrays(names), min_size=1, max_size=6).map(
        lambda values: dict(sorted(values.items(), key=lambda item: item[0].encode()))
    )


def assert_reads(prefix, values, same):
    with checkpoints.open(prefix) as saved:
        assert sorted(saved) == sorted(values)
        for name, value in values.items():
            variable = saved.variables[name]
            assert variable.shape == value.shape
            assert variable.dtype == value.dtype
            assert same(saved[name], value), name
            if value.dtype != object:
                assert bytes(saved.bytes_of(name)) == value.tobytes()


@SETTINGS
@given(values=checkpoints_of(DTYPES_V2))
def test_v2(values, other_side, new_directory, same):
    directory = new_directory()
    theirs, ours = directory / "theirs.ckpt", directory / "ours.ckpt"
    other_side.save_v2(theirs, values)
    checkpoints.write(ours, values)

    assert_reads(theirs, values, same)
    assert_reads(ours, values, same)
    for ending in (".index", ".data-00000-of-00001"):
        assert Path(f"{ours}{ending}").read_bytes() == Path(f"{theirs}{ending}").read_bytes()
    for name, value in values.items():
        dtype = dtypes.of_numpy(value.dtype).name
        assert same(other_side.restore_v2(ours, name, dtype), value)


@SETTINGS
@given(values=checkpoints_of(DTYPES_V1))
def test_v1(values, other_side, new_directory, same):
    directory = new_directory()
    theirs, ours = directory / "theirs.ckpt", directory / "ours.ckpt"
    other_side.save_v1(theirs, values)
    checkpoints.write(ours, values, version="v1")

    assert_reads(theirs, values, same)
    assert_reads(ours, values, same)
    assert ours.read_bytes() == theirs.read_bytes()
    for name, value in values.items():
        dtype = dtypes.of_numpy(value.dtype).name
        assert same(other_side.restore_v1(ours, name, dtype), value)


@SETTINGS
@given(values=checkpoints_of([*DTYPES_V2, "float8_e4m3fnuz", "float8_e5m2fnuz"]))
def test_dtypes_that_tensorflow_does_not_keep_in_v1_come_back_all_the_same(
    values, new_directory, same
):
    path = new_directory() / "m.ckpt"
    checkpoints.write(path, values, version="v1")
    assert_reads(path, values, same)


@SETTINGS
@given(shards=st.lists(checkpoints_of(DTYPES_V2), min_size=1, max_size=4))
def test_v2_of_many_shards(shards, other_side, new_directory, same):
    directory = new_directory()
    prefixes = []
    values = {}
    for number, shard in enumerate(shards):
        named = {f"{number}/{name}": value for name, value in shard.items()}
        prefix = directory / f"part-{number}"
        other_side.save_v2(prefix, named)
        prefixes.append(prefix)
        values |= named
    merged = directory / "m.ckpt"
    other_side.merge_v2(prefixes, merged)

    assert_reads(merged, values, same)
    assert len(checkpoints.resolve(merged).files) == 1 + len(shards)


@st.composite
def partitioned(draw: Any, names: list[str]) -> tuple[Any, list[tuple[str, Any]]]:
    """A variable and its pieces, cut along one axis or along two: specification and value."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    dtype = dtypes.of_name(draw(st.sampled_from(names)))
    count = rows * columns
    if dtype.is_string:
        whole = np.empty(count, object)
        whole[:] = draw(st.lists(st.binary(max_size=3), min_size=count, max_size=count))
    else:
        data = draw(st.binary(min_size=count * dtype.numpy.itemsize, max_size=count * 16))
        data = data[: count * dtype.numpy.itemsize]
        whole = np.frombuffer(data, np.uint8).view(dtype.numpy)
    whole = whole.reshape(rows, columns)
    row_cuts = [0, *sorted(draw(st.sets(st.integers(1, rows))) - {rows}), rows]
    column_cuts = [0, *sorted(draw(st.sets(st.integers(1, columns))) - {columns}), columns]
    pieces = []
    for top, bottom in itertools.pairwise(row_cuts):
        for left, right in itertools.pairwise(column_cuts):
            extents = [
                "-" if (start, end) == (0, size) else f"{start},{end - start}"
                for start, end, size in ((top, bottom, rows), (left, right, columns))
            ]
            piece = np.ascontiguousarray(whole[top:bottom, left:right])
            pieces.append((f"{rows} {columns} {':'.join(extents)}", piece))
    return whole, draw(st.permutations(pieces))


PARTITIONED = [name for name in DTYPES_V1 if name not in ("bool", "quint8", "uint16")]


@SETTINGS
@given(variables=st.lists(partitioned(PARTITIONED), min_size=1, max_size=3))
def test_partitioned_v2(variables, other_side, new_directory, same):
    """Every piece in a checkpoint of its own, merged, as a sharded Saver does it."""
    directory = new_directory()
    prefixes = []
    for number, (_, pieces) in enumerate(variables):
        for piece, (specification, value) in enumerate(pieces):
            prefix = directory / f"part-{number}-{piece}"
            other_side.save_v2_pieces(prefix, [(f"v{number}", specification, value)])
            prefixes.append(prefix)
    merged = directory / "m.ckpt"
    other_side.merge_v2(prefixes, merged)

    assert_reads(merged, {f"v{i}": whole for i, (whole, _) in enumerate(variables)}, same)


@SETTINGS
@given(variables=st.lists(partitioned(PARTITIONED), min_size=1, max_size=3), split=st.booleans())
def test_partitioned_v1(variables, split, other_side, new_directory, same):
    """All pieces in one file, or in two shards."""
    directory = new_directory()
    pieces = [
        (f"v{number}", specification, value)
        for number, (_, several) in enumerate(variables)
        for specification, value in several
    ]
    groups = [group for group in (pieces[::2], pieces[1::2]) if group] if split else [pieces]
    for number, group in enumerate(groups):
        name = f"m.ckpt-{number:05d}-of-{len(groups):05d}"
        other_side.save_v1_pieces(directory / name, group)

    values = {f"v{number}": whole for number, (whole, _) in enumerate(variables)}
    assert_reads(directory / "m.ckpt", values, same)


def test_long_strings(other_side, new_directory, same):
    """Lengths of one, two and three bytes, and more strings than a chunk of lengths."""
    directory = new_directory()
    values = {
        "a": np.array([b"x" * size for size in (0, 127, 128, 16_383, 16_384, 100_000)], object),
        "b": np.array([b"%d" % number for number in range(50_000)], object),
    }
    other_side.save_v2(directory / "two", values)
    other_side.save_v1(directory / "one", values)
    assert_reads(directory / "two", values, same)
    assert_reads(directory / "one", values, same)


def test_many_variables_fill_several_index_blocks(other_side, new_directory, same):
    directory = new_directory()
    values = {
        f"scope_{number:05d}/{'long_name_' * 6}{number}": np.full((2,), number, np.int32)
        for number in range(6000)
    }
    other_side.save_v2(directory / "theirs", values)
    checkpoints.write(directory / "ours", values)
    assert_reads(directory / "theirs", values, same)
    theirs, ours = (directory / f"{name}.index" for name in ("theirs", "ours"))
    assert theirs.stat().st_size > 2 * 262_144
    assert ours.read_bytes() == theirs.read_bytes()


def test_large_variables_fill_v1_blocks(other_side, new_directory, same):
    """Values above and below the size at which a block is closed, and packed numbers in chunks."""
    directory = new_directory()
    rng = np.random.default_rng(7)
    values = {
        "float": rng.standard_normal((300, 1000)).astype(np.float32),
        "int": rng.integers(-(2**62), 2**62, 700_000),
        "small": rng.integers(0, 100, 300_000).astype(np.uint8),
        "tiny": np.float64(0.1),
    }
    other_side.save_v1(directory / "theirs", values)
    checkpoints.write(directory / "ours", values, version="v1")
    assert_reads(directory / "theirs", {k: np.asarray(v) for k, v in values.items()}, same)
    assert (directory / "ours").read_bytes() == (directory / "theirs").read_bytes()


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_a_saver_with_a_partitioner_and_shards(tensorflow, new_directory, same, version):
    """What a training script of TensorFlow 1 leaves behind, slots and state file included."""
    tf = tensorflow.compat.v1
    directory = new_directory()
    with tensorflow.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(3)):
            weights = tf.get_variable("weights", [7, 2], use_resource=False)
        bias = tf.get_variable("bias", [], use_resource=False)
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(tf.convert_to_tensor(weights))) + bias
        train = tf.train.AdamOptimizer().minimize(loss, step)
        session.run(tf.global_variables_initializer())
        session.run(train)
        saver = tf.train.Saver(write_version=getattr(tf.train.SaverDef, version), sharded=True)
        saver.save(session, str(directory / "m.ckpt"), step)
        whole = session.run(tf.convert_to_tensor(weights))
        scalar = session.run(bias)

    with checkpoints.open(directory) as saved:
        assert saved.family.prefix == directory / "m.ckpt-1"
        assert saved.family.meta == directory / "m.ckpt-1.meta"
        assert saved.family.kind == f"checkpoint-{version.lower()}"
        assert sorted(saved) == [
            "beta1_power", "beta2_power", "bias", "bias/Adam", "bias/Adam_1", "global_step",
            "net/weights", "net/weights/Adam", "net/weights/Adam_1",
        ]  # fmt: skip
        assert same(saved["net/weights"], whole)
        assert same(saved["bias"], scalar)
        assert same(saved["global_step"], np.int64(1))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_saver_restores_what_we_wrote(tensorflow, new_directory, same, version):
    tf = tensorflow.compat.v1
    path = new_directory() / "m.ckpt"
    values = {"net/w": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.int64(7)}
    checkpoints.write(path, values, version=version)
    with tensorflow.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("net/w", [2, 3])
        step = tf.get_variable("step", [], tf.int64)
        tf.train.Saver().restore(session, str(path))
        assert same(session.run(weights), values["net/w"])
        assert same(session.run(step), values["step"])
    reader = tensorflow.train.load_checkpoint(str(path))
    assert reader.get_variable_to_shape_map() == {"net/w": [2, 3], "step": []}
