"""A checkpoint of ten gigabytes opens from its headers alone, in the memory of a small one.

The files are sparse: the values are a hole that nobody reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import checkpoints
from checkpoints import table as table_module
from checkpoints.messages import BundleEntryProto, BundleHeaderProto, SavedTensorSlices
from checkpoints.ordered_code import WHOLE, encode_slice_key
from checkpoints.table import BLOCK_BYTES, TableWriter
from checkpoints.wire import encode_header

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files and wait4")

LARGE, SMALL = 1 << 29, 1 << 7
"""How many float32 a variable has; five of the large ones take ten gigabytes."""
NUM_VARIABLES = 5


class Hole(NamedTuple):
    """Bytes that are not there; a file has a hole in their place."""

    num_bytes: int

    def __len__(self):
        return self.num_bytes


class SparseFile:
    """A file that passes over holes."""

    def __init__(self, file):
        self._file = file

    def write(self, piece):
        if isinstance(piece, Hole):
            self._file.seek(piece.num_bytes, os.SEEK_CUR)
        else:
            self._file.write(piece)


def write_v2(prefix, size):
    with prefix.with_name(f"{prefix.name}.index").open("wb") as file:
        table = TableWriter(file)
        table.add(b"", [BundleHeaderProto(num_shards=1).SerializeToString()])
        for number in range(NUM_VARIABLES):
            entry = BundleEntryProto(dtype=1, offset=number * 4 * size, size=4 * size)
            entry.shape.dim.add(size=size)
            table.add(f"layer_{number}/weights".encode(), [entry.SerializeToString()])
        table.finish()
    with prefix.with_name(f"{prefix.name}.data-00000-of-00001").open("wb") as file:
        file.truncate(NUM_VARIABLES * 4 * size)


def write_v1(prefix, size):
    size -= 64  # A message of two gigabytes or more cannot be.
    contents = SavedTensorSlices()
    records = {}
    for number in range(NUM_VARIABLES):
        name = f"layer_{number}/weights"
        tensor = contents.meta.tensor.add(name=name, type=1)
        tensor.shape.dim.add(size=size)
        tensor.slice.add().extent.add()
        packed = encode_header(5, 4 * size)
        data = encode_header(3, len(packed) + 4 * size) + packed
        head = encode_header(2, len(data) + 4 * size) + data
        # What shares a block with the list of contents has to have its checksum.
        values = Hole(4 * size) if 4 * size > BLOCK_BYTES else bytes(4 * size)
        records[encode_slice_key(name.encode(), [(0, WHOLE)])] = [head, values]
    with prefix.open("wb") as file:
        table = TableWriter(SparseFile(file))
        table.add(b"", [contents.SerializeToString()])
        for key in sorted(records):
            table.add(key, records[key])
        table.finish()


@pytest.fixture(params=["v1", "v2"])
def prefixes(request, tmp_path, monkeypatch):
    """The same five variables, large and small."""
    crc32c = table_module.crc32c
    monkeypatch.setattr(
        table_module,
        "crc32c",
        lambda piece, crc=0: crc if isinstance(piece, Hole) else crc32c(piece, crc),
    )
    write = {"v1": write_v1, "v2": write_v2}[request.param]
    made = {}
    for name, size in (("large", LARGE), ("small", SMALL)):
        made[name] = tmp_path / f"{name}.ckpt"
        write(made[name], size)
    return made


def inspected(prefix):
    """What `slimtune inspect` says, and the most memory its process took, in KiB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts", "inspect", str(prefix), "--json"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(text), usage.ru_maxrss


def test_ten_gigabytes_are_inspected_in_the_memory_of_a_small_file(prefixes):
    with checkpoints.open(prefixes["large"]) as saved:
        num_bytes = sum(path.stat().st_size for path in saved.family.files)
        assert num_bytes > 10e9
        on_disk = sum(path.stat().st_blocks * 512 for path in saved.family.files)
        assert on_disk < 1 << 20
        assert all(variable.shape[0] > LARGE - 100 for variable in saved.variables.values())
    large, large_memory = inspected(prefixes["large"])
    small, small_memory = inspected(prefixes["small"])
    assert large["parameters"] > 2.6e9
    assert [v["name"] for v in large["variables"]] == [v["name"] for v in small["variables"]]
    assert large_memory < small_memory + 4096
