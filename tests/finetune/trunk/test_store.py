"""The store of features: keys, whole or absent shards, damage, strangers, and its limit (case D8)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from finetune.trunk import store as stores
from finetune.trunk.store import FeatureStore

ROOT = Path(__file__).resolve().parents[3]


def keys(*numbers, view=0):
    return [(bytes([number]) * 32, view) for number in numbers]


def rows(*numbers, shape=(1, 1, 3)):
    size = int(np.prod(shape))
    return np.stack(
        [number + np.arange(size, dtype=np.float32).reshape(shape) / 7 for number in numbers]
    )


def make(tmp_path, what="trunk a", shape=(1, 1, 3), dtype=np.float32):
    return FeatureStore({"trunk": what}, shape, dtype, tmp_path)


def test_what_was_written_is_found_by_another_process_and_is_the_same(tmp_path):
    store = make(tmp_path)
    assert store.find(keys(1, 2, 3)) == keys(1, 2, 3)
    store.write(keys(1, 3), rows(1, 3))
    again = make(tmp_path)
    assert again.find(keys(3, 2, 1)) == keys(2)
    np.testing.assert_array_equal(again.read(keys(3, 1)), rows(3, 1))
    assert again.read(keys(3, 1)).dtype == np.float32


def test_other_weights_views_and_pictures_are_other_keys(tmp_path):
    make(tmp_path).write(keys(1), rows(1))
    assert make(tmp_path, what="trunk b").find(keys(1)) == keys(1)
    assert make(tmp_path).find(keys(1, view=1)) == keys(1, view=1)
    assert make(tmp_path).find(keys(2)) == keys(2)
    assert make(tmp_path).find(keys(1)) == []


def test_bfloat16_takes_half_and_comes_back_as_it_was(tmp_path):
    store = make(tmp_path, shape=(2, 2, 4), dtype=ml_dtypes.bfloat16)
    assert store.record_bytes == 32 + 4 + 4 + 2 * 16
    values = rows(1, 2, shape=(2, 2, 4)).astype(ml_dtypes.bfloat16)
    store.write(keys(1, 2), values)
    again = make(tmp_path, shape=(2, 2, 4), dtype=ml_dtypes.bfloat16)
    assert again.find(keys(1, 2)) == []
    np.testing.assert_array_equal(again.read(keys(2, 1)), values[::-1].astype(np.float32))


def test_a_shard_is_an_array_that_numpy_reads(tmp_path):
    store = make(tmp_path)
    store.write(keys(5), rows(5))
    (file,) = store.directory.glob("*.features.npy")
    shard = np.load(file, allow_pickle=False)
    assert shard.dtype.names == ("picture", "view", "checksum", "activations")
    assert shard[0]["picture"].tobytes() == bytes([5]) * 32
    np.testing.assert_array_equal(shard["activations"], rows(5))


def test_a_damaged_record_is_absent_and_told_of(tmp_path, heard):
    store = make(tmp_path)
    store.write(keys(1, 2), rows(1, 2))
    (file,) = store.directory.glob("*.features.npy")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    again = make(tmp_path)
    assert again.find(keys(1, 2), heard) == keys(2)
    assert heard.said == [f"{file}: 1 records are damaged and are computed again."]
    again.write(keys(2), rows(2))
    assert make(tmp_path).find(keys(1, 2)) == []


@pytest.mark.parametrize("content", [b"", b"not an array", b"cut"])
def test_files_that_are_no_shards_are_left_alone(tmp_path, heard, content):
    store = make(tmp_path)
    store.write(keys(1), rows(1))
    (shard,) = store.directory.glob("*.features.npy")
    content = shard.read_bytes()[:-3] if content == b"cut" else content
    foreign = store.directory / f"mine{stores.SUFFIX}"
    foreign.write_bytes(content)
    (store.directory / "notes.txt").write_text("mine")
    assert make(tmp_path).find(keys(1), heard) == []
    assert heard.said == [f"{foreign} is no shard of stored features and is not used."]
    assert foreign.read_bytes() == content
    assert (store.directory / "notes.txt").read_text() == "mine"


def test_an_array_of_another_kind_is_no_shard(tmp_path, heard):
    store = make(tmp_path)
    store.write(keys(1), rows(1))
    np.save(store.directory / f"other{stores.SUFFIX}", np.zeros(3))
    assert make(tmp_path).find(keys(1), heard) == []
    assert len(heard.said) == 1


WRITER = """
import sys, numpy as np
from pathlib import Path
from finetune.trunk import store as stores
real = np.save
def stuck(file, array, **named):
    real(file, array[:1], **named)
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
np.save = stuck
store = stores.FeatureStore({"trunk": "trunk a"}, (1, 1, 3), np.float32, Path(sys.argv[1]))
store.write([(bytes([n]) * 32, 0) for n in (1, 2)], np.zeros((2, 1, 1, 3), np.float32))
"""


def test_a_writer_killed_in_the_middle_leaves_nothing_that_counts(tmp_path):
    """Case D8."""
    make(tmp_path).write(keys(7), rows(7))
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    store = make(tmp_path)
    assert store.find(keys(7, 1, 2)) == keys(1, 2)
    store.write(keys(1, 2), rows(1, 2))
    assert make(tmp_path).find(keys(1, 2, 7)) == []


def test_room_is_foretold_and_the_longest_unused_go_first(tmp_path, monkeypatch):
    big = (1, 1, 250)
    old, newer = make(tmp_path, "old", big), make(tmp_path, "newer", big)
    for age, store in ((200, old), (100, newer)):
        store.write(keys(1, 2), rows(1, 2, shape=big))
        (store.directory / "notes.txt").write_text("mine")
        os.utime(store.directory, (10**9 - age, 10**9 - age))
    one = old.record_bytes
    assert one == 40 + 1000
    monkeypatch.setenv(stores.LIMIT_VARIABLE, str(5.5 * one / 1e9))
    mine = make(tmp_path, "mine", big)
    assert mine.make_room(6) is None
    assert mine.make_room(2) is not None
    assert make(tmp_path, "old", big).find(keys(1, 2)) == keys(1, 2)
    assert make(tmp_path, "newer", big).find(keys(1, 2)) == []
    assert (old.directory / "notes.txt").read_text() == "mine"


def test_without_room_on_the_disk_there_is_none(tmp_path, monkeypatch):
    usage = stores.shutil._ntuple_diskusage(10**6, 10**6, 1000)
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda place: usage)
    store = make(tmp_path, shape=(1, 1, 250))
    assert store.make_room(1) is None


def test_a_store_that_another_process_removes_meanwhile(tmp_path, monkeypatch):
    big = (1, 1, 250)
    mine, gone = make(tmp_path, "mine", big), make(tmp_path, "gone", big)
    mine.write(keys(1), rows(1, shape=big))
    monkeypatch.setattr(stores, "_stores", lambda root: [mine.directory, gone.directory])
    monkeypatch.setenv(stores.LIMIT_VARIABLE, str(1.5 * mine.record_bytes / 1e9))
    assert make(tmp_path, "new", big).make_room(1) == mine.record_bytes
    assert make(tmp_path, "mine", big).find(keys(1)) == keys(1)


def test_a_cache_that_may_only_be_read_is_used(tmp_path, monkeypatch):
    make(tmp_path).write(keys(1), rows(1))

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "utime", refuse)
    assert make(tmp_path).find(keys(1)) == []
