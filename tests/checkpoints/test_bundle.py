from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints.checksum import crc32c, mask
from checkpoints.errors import (
    CheckpointError,
    NotFoundError,
    OutputExistsError,
    UnsupportedError,
    UsageError,
)
from checkpoints.messages import BundleEntryProto, BundleHeaderProto
from checkpoints.table import Table, TableWriter

VALUES = {
    "bias": np.array([1.5, -2.0], np.float32),
    "deep/é/half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "empty": np.zeros((0, 4), np.int64),
    "flags": np.array([True, False]),
    "label": np.array([[b"a\0b", b""], [b"\xff", b"long" * 100]], object),
    "step": np.array(7, np.int64),
    "thin": np.array([1, 2, 3], ml_dtypes.bfloat16),
}


@pytest.fixture
def prefix(tmp_path):
    path = tmp_path / "m.ckpt"
    checkpoints.write(path, VALUES)
    return path


def data_file(prefix):
    return Path(f"{prefix}.data-00000-of-00001")


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def test_a_checkpoint_is_a_mapping(prefix, same):
    with checkpoints.open(prefix) as saved:
        assert list(saved) == list(VALUES)
        assert len(saved) == 7
        assert "bias" in saved
        assert "nothing" not in saved
        assert saved.get("nothing") is None
        for name, value in VALUES.items():
            assert same(saved[name], value)
        assert saved.variables["label"].dtype_name == "string"
        assert saved.variables["deep/é/half"].shape == (2, 3)
        assert saved.variables["deep/é/half"].num_elements == 6
        assert repr(saved) == f"<Checkpoint {prefix} (7 variables)>"


def test_a_checkpoint_is_equal_to_itself_alone(prefix):
    """Comparing mappings would read and compare all values, and fail on the first array."""
    with checkpoints.open(prefix) as first, checkpoints.open(prefix) as second:
        assert first == first
        assert first != second
        assert len({first, second}) == 2


def test_a_name_that_is_not_there_is_a_key_error_with_near_names(prefix):
    with checkpoints.open(prefix) as saved, pytest.raises(KeyError) as caught:
        saved["bais"]
    assert isinstance(caught.value, NotFoundError)
    assert "has no variable 'bais'" in str(caught.value)
    assert "Did you mean bias" in str(caught.value)


def test_arrays_are_read_only_views_that_outlive_the_checkpoint(prefix):
    with checkpoints.open(prefix) as saved:
        array = saved["bias"]
        again = saved["bias"]
    assert np.shares_memory(array, again)
    assert not array.flags.writeable
    del again, saved
    gc.collect()
    assert array.tolist() == [1.5, -2.0]


def test_arrays_are_aligned_wherever_they_lie(tmp_path):
    checkpoints.write(tmp_path / "m", [("a", np.zeros(1, np.int8)), ("b", np.ones(3))])
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved["b"].flags.aligned
        assert not saved["b"].flags.writeable
        assert bytes(saved.bytes_of("b")) == np.ones(3).tobytes()


def test_bytes_are_those_of_the_file(prefix):
    with checkpoints.open(prefix) as saved:
        view = saved.bytes_of("bias")
        assert view.readonly
        assert bytes(view) == VALUES["bias"].tobytes()
        assert np.shares_memory(np.frombuffer(view, np.uint8), saved["bias"])
        assert bytes(saved.bytes_of("empty")) == b""
        with pytest.raises(UsageError, match="label holds strings"):
            saved.bytes_of("label")
    with pytest.raises(UsageError, match=r"m\.ckpt has been closed"):
        saved["bias"]


def test_opening_reads_no_values(prefix):
    data_file(prefix).unlink()
    with checkpoints.open(prefix) as saved:
        assert len(saved.variables) == 7
        assert saved["empty"].shape == (0, 4)
        with pytest.raises(CheckpointError) as caught:
            saved["bias"]
    assert f"{prefix}.data-00000-of-00001: variable bias (bytes 0 to 8)" in str(caught.value)
    assert "the file is missing" in str(caught.value)


def test_a_file_that_was_cut_names_what_is_lost_and_gives_the_rest(prefix, same):
    data = data_file(prefix)
    data.write_bytes(data.read_bytes()[:20])
    with checkpoints.open(prefix) as saved:
        assert same(saved["bias"], VALUES["bias"])
        assert same(saved["deep/é/half"], VALUES["deep/é/half"])
        for name in ("flags", "label", "step", "thin"):
            with pytest.raises(CheckpointError, match=f"variable {name} .*ends at byte 20"):
                saved[name]


@pytest.mark.parametrize(("offset", "name"), [(0, "bias"), (10, "deep/é/half"), (22, "label")])
def test_a_flipped_byte_names_its_variable_and_spares_the_rest(prefix, same, offset, name):
    flip(data_file(prefix), offset)
    with checkpoints.open(prefix) as saved:
        for other in VALUES:
            if other != name:
                assert same(saved[other], VALUES[other])
        with pytest.raises(CheckpointError, match=f"variable {name} .*cannot be read"):
            saved[name]
        if name != "label":
            with pytest.raises(CheckpointError, match="the checksum does not match"):
                saved.bytes_of(name)


def test_checksums_can_be_left_out(prefix):
    flip(data_file(prefix), 0)
    with checkpoints.open(prefix, verify_checksums=False) as saved:
        assert saved["bias"].tolist() != VALUES["bias"].tolist()


@pytest.mark.parametrize("length", [0, 7, 48, -1])
def test_an_index_that_was_cut_is_refused(prefix, length):
    index = Path(f"{prefix}.index")
    index.write_bytes(index.read_bytes()[:length])
    with pytest.raises(CheckpointError, match=r"m\.ckpt\.index: the end is not that of") as caught:
        checkpoints.open(prefix)
    assert caught.value.expected == "48 bytes that end in 57 fb 80 8b 24 75 47 db"
    end = index.read_bytes()[-8:].hex(" ")
    small = f"{length} bytes that end in {end}" if length else "an empty file"
    assert caught.value.received == (small if 0 <= length < 48 else end)


def test_real_checkpoints(shared):
    models = shared / "data" / "models"
    with checkpoints.open(models / "mnist_mlp" / "model.ckpt-1999") as saved:
        assert {name: variable.shape for name, variable in saved.variables.items()} == {
            "global_step": (),
            "hidden1/biases": (128,),
            "hidden1/weights": (784, 128),
            "hidden2/biases": (32,),
            "hidden2/weights": (128, 32),
            "softmax_linear/biases": (10,),
            "softmax_linear/weights": (32, 10),
        }
        assert saved["global_step"] == 2000
    with checkpoints.open(models / "half_plus_two_saved_model") as saved:
        assert {name: float(value) for name, value in saved.items()} == {
            "a": 0.5,
            "a2": 0.5,
            "b": 2.0,
            "c": 3.0,
            "c2": 3.0,
        }


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    "name",
    [
        "mnist_mlp/model.ckpt-1999",
        "regression_v1_v2/regression_v1.ckpt",
        "regression_v1_v2/regression_v2.ckpt",
        "lenet_300_100_v1/model.ckpt",
        "half_plus_two_v1_sharded/export",
        "half_plus_two_saved_model/variables/variables",
    ],
)
def test_real_checkpoints_are_copied_bit_for_bit(shared, tmp_path, same, name, version):
    with checkpoints.open(shared / "data" / "models" / name) as saved:
        family = checkpoints.write(tmp_path / "copy", saved, version=version)
        assert family.kind == f"checkpoint-{version}"
        with checkpoints.open(family) as copy:
            assert copy.variables == saved.variables
            assert all(same(copy[name], saved[name]) for name in saved)


# Big-endian checkpoints, as TensorFlow writes them on s390x.


def make_big_endian(prefix, values):
    """Turns a checkpoint into one of a big-endian machine."""
    index = Path(f"{prefix}.index")
    with index.open("rb") as file:
        items = list(Table(memoryview(file.read()), index))
    with index.open("wb") as file:
        table = TableWriter(file)
        header = BundleHeaderProto.FromString(bytes(items[0][1]))
        header.endianness = 1
        table.add(b"", [header.SerializeToString()])
        data = bytearray(data_file(prefix).read_bytes())
        for key, value in items[1:]:
            entry = BundleEntryProto.FromString(bytes(value))
            array = values[key.decode()]
            end = entry.offset + entry.size
            if array.dtype == object:
                lengths = b"".join(len(text).to_bytes(4, "big") for text in array.reshape(-1))
                stored = mask(crc32c(lengths)).to_bytes(4, "big")
                place = entry.offset + array.size
                data[place : place + 4] = stored
                crc = crc32c(bytes(data[place + 4 : end]), crc32c(stored, crc32c(lengths)))
            else:
                parts = 2 if array.dtype.kind == "c" else 1
                unsigned = f"u{array.dtype.itemsize // parts}"
                swapped = np.frombuffer(array.tobytes(), unsigned).byteswap().tobytes()
                data[entry.offset : end] = swapped
                crc = crc32c(swapped)
            entry.crc32c = mask(crc)
            table.add(key, [entry.SerializeToString()])
        table.finish()
    data_file(prefix).write_bytes(data)


BIG_ENDIAN = {
    **{name: value for name, value in VALUES.items() if name != "label"},
    "complex": np.array([1 + 2j, -3j], np.complex64),
    "double": np.array([[0.1], [0.2]]),
    "words": np.array([b"a\0b", b"", b"x" * 90], object),
}


def test_a_big_endian_checkpoint_is_read(tmp_path, same):
    checkpoints.write(tmp_path / "m", BIG_ENDIAN)
    make_big_endian(tmp_path / "m", BIG_ENDIAN)
    with checkpoints.open(tmp_path / "m") as saved:
        for name, value in BIG_ENDIAN.items():
            assert same(saved[name], value), name
            if name != "words":
                assert bytes(saved.bytes_of(name)) == value.tobytes()


@pytest.mark.tensorflow
def test_tensorflow_reads_these_big_endian_bytes_too(tmp_path, same, other_side):
    checkpoints.write(tmp_path / "m", BIG_ENDIAN)
    make_big_endian(tmp_path / "m", BIG_ENDIAN)
    for name in ("double", "step", "words", "deep/é/half"):
        dtype = checkpoints.open(tmp_path / "m").variables[name].dtype_name
        assert same(other_side.restore_v2(tmp_path / "m", name, dtype), BIG_ENDIAN[name])


# Writing.


def test_values_of_many_kinds_are_taken(tmp_path):
    values = {
        "big-endian": np.array([1, 256], ">i4"),
        "every second": np.arange(6.0)[::2],
        "fixed bytes": np.array([b"ab", b"c"]),
        "python float": 0.5,
        "python text": "é",
        "text": np.array(["花", "x"]),
        "transposed": np.arange(6).reshape(2, 3).T,
    }
    checkpoints.write(tmp_path / "m", values)
    with checkpoints.open(tmp_path / "m") as saved:
        read = {name: array.tolist() for name, array in saved.items()}
        assert read == {
            "big-endian": [1, 256],
            "every second": [0.0, 2.0, 4.0],
            "fixed bytes": [b"ab", b"c"],
            "python float": 0.5,
            "python text": "é".encode(),
            "text": ["花".encode(), b"x"],
            "transposed": [[0, 3], [1, 4], [2, 5]],
        }
        assert saved.variables["big-endian"].dtype_name == "int32"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([None, b""], object), "Variable odd holds objects that are no strings"),
        (
            np.array(["2020-01-01"], "datetime64[D]"),
            "Variable odd cannot be written: .*numpy's datetime64",
        ),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_values_that_cannot_be_kept_are_refused_by_name(tmp_path, value, message, version):
    with pytest.raises(UnsupportedError, match=message):
        checkpoints.write(tmp_path / "m", {"even": np.ones(2), "odd": value}, version=version)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["a", "a"], [""], ["\0a"]])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_names_that_cannot_be_kept_are_refused(tmp_path, names, version):
    with pytest.raises(CheckpointError, match="cannot be written under the name"):
        checkpoints.write(tmp_path / "m", [(name, np.ones(1)) for name in names], version=version)
    assert list(tmp_path.iterdir()) == []


def test_pairs_are_taken_one_by_one(tmp_path):
    """Memory does not grow with the number of variables."""
    size = 4_000_000

    def pairs():
        for number in range(20):
            yield f"v{number:02d}", np.full(size // 4, number, np.float32)

    tracemalloc.start()
    try:
        checkpoints.write(tmp_path / "m", pairs())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * size
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved["v19"][0] == 19
        assert data_file(tmp_path / "m").stat().st_size == 20 * size


def test_pairs_keep_their_order_in_the_data_and_are_sorted_in_the_index(tmp_path):
    checkpoints.write(tmp_path / "m", [("b", np.zeros(1, np.int8)), ("a", np.ones(1, np.int8))])
    assert data_file(tmp_path / "m").read_bytes() == b"\0\1"
    assert list(checkpoints.open(tmp_path / "m")) == ["a", "b"]


def test_an_existing_checkpoint_is_replaced_only_when_asked(prefix):
    with pytest.raises(OutputExistsError, match=r"m\.ckpt is already there") as caught:
        checkpoints.write(prefix, {"new": np.ones(1)})
    assert "--overwrite" in str(caught.value)
    for version in ("v1", "v2", "v1"):
        family = checkpoints.write(prefix, {"new": np.ones(1)}, version=version, overwrite=True)
        assert family.kind == f"checkpoint-{version}"
        assert list(checkpoints.open(prefix)) == ["new"]
        # Nothing of the other version, of other shards or half-written stays behind.
        assert sorted(prefix.parent.iterdir()) == sorted(family.files)


def test_shards_of_an_older_save_go(prefix):
    for name in ("m.ckpt.data-00000-of-00002", "m.ckpt.data-00001-of-00002", "m.ckpt2.index"):
        (prefix.parent / name).write_bytes(b"old")
    checkpoints.write(prefix, VALUES, overwrite=True)
    assert sorted(path.name for path in prefix.parent.iterdir()) == [
        "m.ckpt.data-00000-of-00001",
        "m.ckpt.index",
        "m.ckpt2.index",
    ]


def test_files_that_only_look_like_shards_stay(prefix):
    """Records are sharded under names like those of V1 checkpoints."""
    records = prefix.with_name("m.ckpt-00000-of-00002")
    records.write_bytes(b"records")
    notes = prefix.with_name("notes")
    notes.write_bytes(b"text")
    checkpoints.write(prefix, VALUES, overwrite=True)
    checkpoints.write(notes, VALUES)
    assert records.read_bytes() == b"records"
    assert notes.read_bytes() == b"text"
    with pytest.raises(OutputExistsError, match="notes is already there"):
        checkpoints.write(notes, VALUES, version="v1")
    with pytest.raises(OutputExistsError, match="is a directory and is not replaced"):
        checkpoints.write(prefix.parent, VALUES, version="v1", overwrite=True)


def test_a_checkpoint_may_be_read_while_it_is_replaced(prefix, same):
    with checkpoints.open(prefix) as saved:
        before = saved["bias"]
        halved = {name: saved[name] for name in saved if name != "flags"}
        checkpoints.write(prefix, halved, overwrite=True)
        assert same(before, VALUES["bias"])
    with checkpoints.open(prefix) as saved:
        assert "flags" not in saved
        assert same(saved["label"], VALUES["label"])


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("old_version", [None, "v1", "v2"])
def test_killed_at_any_moment_the_family_is_old_new_or_absent(
    tmp_path, killed_at, version, old_version
):
    """The process dies before its n-th operation on a name, for every n."""
    old, new = {"old": np.zeros(2)}, {"new": np.ones(3), "newer": np.ones(1)}
    seen = set()
    for moment in range(12):
        prefix = tmp_path / str(moment) / "m.ckpt"
        if old_version:
            checkpoints.write(prefix, old, version=old_version)
        operations = [(Path, name) for name in ("replace", "unlink", "rename")]
        with killed_at(moment, *operations, (os, "fsync")) as killed:
            checkpoints.write(prefix, new, version=version, overwrite=True)
        try:
            with checkpoints.open(prefix) as saved:
                names = sorted(saved)
                for name in names:
                    saved[name]
        except (NotFoundError, CheckpointError) as error:
            assert "no checkpoint" in str(error) or "index is missing" in str(error)
            names = []
        assert names in (["old"], ["new", "newer"], [])
        assert killed.is_set() or names == ["new", "newer"]
        seen.add(tuple(names))
        # Doing it again completes.
        checkpoints.write(prefix, new, version=version, overwrite=True)
        assert sorted(checkpoints.open(prefix)) == ["new", "newer"]
        if not killed.is_set():
            break
    assert ("new", "newer") in seen
    assert old_version is None or ("old",) in seen


def test_words_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such version"):
        checkpoints.write(tmp_path / "m", {}, version="v3")
    with pytest.raises(UsageError, match="needs a name"):
        checkpoints.write("", {})


def test_a_checkpoint_of_10_gb_opens_without_reading_it(tmp_path):
    """A sparse file, and an index that declares it."""
    prefix = tmp_path / "m"
    count = 10 * 2**30 // 4
    header = BundleHeaderProto(num_shards=1)
    entry = BundleEntryProto(dtype=1, size=4 * count)
    entry.shape.dim.add(size=count)
    with Path(f"{prefix}.index").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [header.SerializeToString()])
        table.add(b"huge", [entry.SerializeToString()])
        table.finish()
    with data_file(prefix).open("wb") as file:
        file.truncate(4 * count)
    tracemalloc.start()
    try:
        with checkpoints.open(prefix, verify_checksums=False) as saved:
            assert saved.variables["huge"].num_elements == count
            assert saved["huge"][-1] == 0.0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
