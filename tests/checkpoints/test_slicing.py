"""Variables written in slices: as TensorFlow's partitioned variables write them and restore."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoints
from checkpoints import dtypes
from checkpoints.errors import UnsupportedError, UsageError
from checkpoints.slices_writer import MAX_VALUE_BYTES, Content, write_slices
from checkpoints.slicing import Slicing
from checkpoints.tensors import check_tiling

FLOAT = dtypes.of_name("float32")
VALUES = {
    "a": np.arange(35, dtype=np.float32).reshape(7, 5),
    "a_longer": np.arange(3, dtype=np.int64),
    "scalar": np.array(1.0),
    "words": np.array([b"x", b"y", b"z"], object),
    "z": np.arange(22, dtype=np.int32).reshape(11, 2),
}


def test_the_first_slices_are_longer():
    assert Slicing(3, 1).extents(FLOAT, (7, 5)) == [
        ((0, 3), (0, 5)),
        ((3, 2), (0, 5)),
        ((5, 2), (0, 5)),
    ]


@pytest.mark.parametrize("shape", [(), (1, 500_000), (0, 3), (10,)])
def test_what_stays_whole(shape):
    assert Slicing(3).extents(FLOAT, shape) == []


@pytest.mark.parametrize("dtype", ["string", "float16", "uint16", "float8_e5m2", "int4"])
def test_dtypes_that_stay_whole(dtype):
    assert Slicing(2, 0).extents(dtypes.of_name(dtype), (9,)) == []


def test_from_which_size_on():
    assert Slicing(2).extents(FLOAT, (2**16 - 1,)) == []
    assert len(Slicing(2).extents(FLOAT, (2**16,))) == 2


@given(st.integers(1, 9), st.lists(st.integers(0, 9), max_size=3))
def test_slices_fill_the_variable(count, shape):
    slices = Slicing(count, 0).extents(FLOAT, tuple(shape))
    if slices:
        check_tiling(tuple(shape), slices)
        assert len(slices) == min(count, shape[0])
        lengths = [extents[0][1] for extents in slices]
        assert max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)
    else:
        assert math.prod(shape) == 0 or not shape or min(count, shape[0]) < 2


@pytest.mark.parametrize(("count", "size"), [(0, 0), (-1, 5), (2, -1)])
def test_what_cuts_nothing_is_refused(count, size):
    with pytest.raises(UsageError, match="cannot be cut"):
        Slicing(count, size)


@pytest.mark.parametrize("version", ["v1", "v2"])
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 6), max_size=3), st.integers(0, 40))
def test_they_are_put_together_again(new_directory, version, count, shape, smallest):
    value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    path = new_directory() / "m.ckpt"
    checkpoints.write(path, {"a": value}, version=version, slicing=Slicing(count, smallest))
    with checkpoints.open(path) as saved:
        assert saved["a"].shape == value.shape
        np.testing.assert_array_equal(saved["a"], value)


def test_a_variable_too_large_for_v1_fits_in_slices(tmp_path):
    class EnoughError(Exception):
        pass

    def read(name):
        raise EnoughError

    too_large = [Content("w", FLOAT, (4, MAX_VALUE_BYTES // 8))]
    with pytest.raises(UnsupportedError, match="variable w is too large") as caught:
        write_slices(tmp_path / "m", too_large, read)
    assert "--partition N" in caught.value.next_step
    with pytest.raises(EnoughError):
        write_slices(tmp_path / "m", too_large, read, Slicing(4))


def pieces_of(values, slicing):
    """What TensorFlow's save ops take: name, "shape slice" and value of every piece."""
    pieces = []
    for name, value in values.items():
        slices = slicing.extents(dtypes.of_numpy(value.dtype), value.shape)
        for extents in slices:
            spec = ":".join(f"{start},{length}" for start, length in extents)
            start, length = extents[0]
            shape = " ".join(map(str, value.shape))
            pieces.append((name, f"{shape} {spec}", value[start : start + length]))
        if not slices:
            pieces.append((name, "", value))
    return pieces


@pytest.mark.tensorflow
@pytest.mark.parametrize("count", [2, 3, 100])
def test_the_bytes_are_tensorflows(tmp_path, other_side, count):
    slicing = Slicing(count, 0)
    pieces = pieces_of(VALUES, slicing)
    checkpoints.write(tmp_path / "ours", VALUES, slicing=slicing)
    other_side.save_v2_pieces(tmp_path / "theirs", pieces)
    for ending in (".index", ".data-00000-of-00001"):
        ours, theirs = tmp_path / f"ours{ending}", tmp_path / f"theirs{ending}"
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.tensorflow
@pytest.mark.parametrize("count", [2, 3])
def test_the_bytes_are_tensorflows_in_v1(tmp_path, other_side, count):
    # TensorFlow lists the slices in the order of a hash table, which shows when there are more.
    slicing = Slicing(count, 0)
    checkpoints.write(tmp_path / "ours_v1", VALUES, version="v1", slicing=slicing)
    other_side.save_v1_pieces(tmp_path / "theirs_v1", pieces_of(VALUES, slicing))
    assert (tmp_path / "ours_v1").read_bytes() == (tmp_path / "theirs_v1").read_bytes()


@pytest.mark.tensorflow
@pytest.mark.parametrize("number", range(1, 34))
def test_tensorflow_puts_together_what_is_cut(tmp_path, other_side, same, number):
    try:
        dtype = dtypes.of_number(number)
    except UnsupportedError:
        return
    if not Slicing(2, 0).extents(dtype, (5,)):
        return
    stored = dtype.numpy if dtype.numpy.names is None else dtype.numpy[0]
    value = np.arange(5).astype(stored).view(dtype.numpy)
    checkpoints.write(tmp_path / "m", {"x": value}, slicing=Slicing(2, 0))
    assert same(other_side.restore_v2(tmp_path / "m", "x", dtype.name), value)
    # Which V1 has no place for in TensorFlow, in slices or whole.
    if dtype.name != "bfloat16":
        checkpoints.write(tmp_path / "n", {"x": value}, version="v1", slicing=Slicing(2, 0))
        assert same(other_side.restore_v1(tmp_path / "n", "x", dtype.name), value)


@pytest.mark.tensorflow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_partitioned_variables_restore_what_we_write(tmp_path, tensorflow, version):
    v1 = tensorflow.compat.v1
    rows = np.arange(700, dtype=np.float32).reshape(70, 10)
    checkpoints.write(tmp_path / "m.ckpt", {"rows": rows}, version=version, slicing=Slicing(3, 0))
    # Slices of ours, others, and one that is all.
    for count in (3, 4, 1):
        with tensorflow.Graph().as_default(), v1.Session() as session:
            partitioner = v1.fixed_size_partitioner(count) if count > 1 else None
            variable = v1.get_variable(
                "rows", (70, 10), use_resource=False, partitioner=partitioner
            )
            v1.train.Saver().restore(session, str(tmp_path / "m.ckpt"))
            np.testing.assert_array_equal(session.run(tensorflow.identity(variable)), rows)


@pytest.mark.tensorflow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_partitioned_variables_of_a_saver_become_whole(tmp_path, tensorflow, version):
    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable(
            "rows", (70, 10), use_resource=False, partitioner=v1.fixed_size_partitioner(3)
        )
        session.run(v1.global_variables_initializer())
        expected = session.run(tensorflow.identity(variable))
        saver = v1.train.Saver(write_version=getattr(v1.train.SaverDef, version.upper()))
        saver.save(session, str(tmp_path / "m.ckpt"))
    with checkpoints.open(tmp_path / "m.ckpt") as saved:
        checkpoints.write(tmp_path / "whole.ckpt", saved)
        np.testing.assert_array_equal(saved["rows"], expected)
        assert saved.variables["rows"].shape == (70, 10)
    with checkpoints.open(tmp_path / "whole.ckpt") as whole:
        np.testing.assert_array_equal(whole["rows"], expected)
