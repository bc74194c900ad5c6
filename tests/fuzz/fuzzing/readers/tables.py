"""V1 and V2 checkpoints, whose checksums are made right again, and the state file."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from random import Random
from typing import Any

import cramjam
import numpy as np

import checkpoints
from checkpoints import family
from checkpoints.checksum import crc32c, mask
from checkpoints.messages import (
    BundleEntryProto,
    BundleHeaderProto,
    CheckpointState,
    SavedTensorSlices,
    TrackableObjectGraph,
)
from checkpoints.names import OBJECT_GRAPH_KEY
from checkpoints.slicing import Slicing
from checkpoints.table import FOOTER_BYTES, MAGIC, TRAILER_BYTES, Table, TableWriter
from checkpoints.wire import encode_varint, read_varint
from fuzzing.mutation import mutate_bytes, mutate_message, mutate_text
from fuzzing.reader import Files, Reader
from fuzzing.reading import checkpoint_reads, refusals, written

_INDEX, _DATA, _V1 = "m.index", "m.data-00000-of-00001", "m"
_STATE = "checkpoint"
_HANDLES = (b"\0\0", b"\xff\xff\xff\xff\x0f\x01", b"\x00" + b"\xff" * 9 + b"\x01", b"\x80")


def _values() -> dict[str, Any]:
    return {
        "net/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
        "net/bn/moving_mean": np.zeros(2, np.float32),
        "net/bn/moving_variance": np.ones(2, np.float32),
        "global_step": np.int64(7),
        "labels": np.array([b"red", b"", b"blue"], object),
        "flags": np.array([True, False]),
    }


def _object_values() -> dict[str, Any]:
    graph = TrackableObjectGraph()
    root = graph.nodes.add()
    for number, name in enumerate(("kernel", "bias"), 1):
        root.children.add(node_id=number, local_name=name)
        graph.nodes.add().attributes.add(
            name="VARIABLE_VALUE",
            full_name=f"dense/{name}",
            checkpoint_key=f"{name}/.ATTRIBUTES/VARIABLE_VALUE",
        )
    slot = root.slot_variables.add(
        original_variable_node_id=1, slot_name="m", slot_variable_node_id=2
    )
    slot.SetInParent()
    text = np.empty((), object)
    text[()] = graph.SerializeToString()
    names = ("kernel", "bias")
    values = {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": np.float32([1, 2]) for name in names}
    return {**values, OBJECT_GRAPH_KEY: text}


def _seeds(version: str) -> list[Files]:
    def write(values: dict[str, Any], slicing: Slicing | None = None) -> Files:
        return written(
            lambda folder: checkpoints.write(folder / "m", values, version=version, slicing=slicing)
        )

    seeds = [write(_values()), write(_values(), Slicing(2)), write({"v": np.float32([1, 2, 3])})]
    return [*seeds, write(_object_values())] if version == "v2" else seeds


def _items(table: bytes) -> dict[bytes, bytes]:
    return {key: bytes(value) for key, value in Table(memoryview(table), Path("table"))}


def _as_table(items: dict[bytes, bytes]) -> bytes:
    file = io.BytesIO()
    writer = TableWriter(file)
    for key in sorted(items):
        writer.add(key, [items[key]])
    writer.finish()
    return file.getvalue()


def _change_blocks(table: bytes, random: Random) -> bytes:
    """A table whose blocks are changed and whose checksums and places are right all the same."""
    footer = table[-FOOTER_BYTES:]
    place, numbers = 0, []
    for _ in range(4):
        number, place = read_varint(footer, place, len(footer))
        numbers.append(number)
    blocks = [
        table[: numbers[0] - TRAILER_BYTES],
        table[numbers[0] : numbers[0] + numbers[1]],
        table[numbers[2] : numbers[2] + numbers[3]],
    ]
    changed = random.choice((0, 0, 0, 2))
    blocks[changed] = mutate_bytes(blocks[changed], random)
    result, handles = b"", b""
    for block in blocks:
        kind = b"\0"
        if random.random() < 0.1:
            kind, block = b"\1", bytes(cramjam.snappy.compress_raw(block))
            if random.random() < 0.5:
                block = mutate_bytes(block, random)
        handle = encode_varint(len(result)) + encode_varint(len(block))
        handles = handle if block is blocks[0] else handles + handle
        result += block + kind + struct.pack("<I", mask(crc32c(block + kind)))
    if random.random() < 0.05:
        handles = handles[: random.randrange(6)] + random.choice(_HANDLES)
    return result + handles.ljust(FOOTER_BYTES - len(MAGIC), b"\0")[:40] + MAGIC


def _change_entries(items: dict[bytes, bytes], head: Any, other: Any, random: Random) -> None:
    """Changes a key or two or the messages behind them."""
    for _ in range(random.choice((1, 1, 2))):
        key = random.choice(list(items))
        if random.random() < 0.12:
            items[mutate_bytes(key, random)] = items.pop(key)
            if not items:
                return
        elif random.random() < 0.05:
            del items[key]
            if not items:
                return
        elif random.random() < 0.2:
            items[key] = mutate_bytes(items[key], random)
        else:
            items[key] = mutate_message(other if key else head)(items[key], random)


def _change_v2(files: Files, random: Random) -> Files:
    if random.random() < 0.25:
        return {**files, _INDEX: _change_blocks(files[_INDEX], random)}
    items = _items(files[_INDEX])
    if random.random() < 0.5:
        _change_entries(items, BundleHeaderProto, BundleEntryProto, random)
        return {**files, _INDEX: _as_table(items)}
    # The values of one variable, with the checksum that its entry has to have.
    key = random.choice([key for key in items if key])
    entry = BundleEntryProto.FromString(items[key])
    data = files[_DATA]
    values = data[entry.offset : entry.offset + entry.size]
    if key == OBJECT_GRAPH_KEY.encode() and random.random() < 0.8:
        # One string: its length, the checksum of that, its bytes.
        _, start = read_varint(values, 0, len(values))
        text = mutate_message(TrackableObjectGraph)(values[start + 4 :], random)
        word = struct.pack("<I", len(text))
        stored = struct.pack("<I", mask(crc32c(word)))
        values = encode_varint(len(text)) + stored + text
        entry.crc32c = mask(crc32c(text, crc32c(stored, crc32c(word))))
    else:
        values = mutate_bytes(values, random)
        entry.crc32c = mask(crc32c(values))
    entry.offset, entry.size = len(data), len(values)
    items[key] = entry.SerializeToString()
    return {**files, _INDEX: _as_table(items), _DATA: data + values}


def _change_v1(files: Files, random: Random) -> Files:
    if random.random() < 0.3:
        return {**files, _V1: _change_blocks(files[_V1], random)}
    items = _items(files[_V1])
    _change_entries(items, SavedTensorSlices, SavedTensorSlices, random)
    return {**files, _V1: _as_table(items)}


def _state_seeds() -> list[Files]:
    names = ["m-1", "m-2", "/elsewhere/m-3"]
    states = [
        CheckpointState(model_checkpoint_path="m-2", all_model_checkpoint_paths=names),
        CheckpointState(model_checkpoint_path="m"),
    ]
    index = written(lambda folder: checkpoints.write(folder / "m-2", {"v": np.float32([1])}))
    times = (
        "all_model_checkpoint_timestamps: 1.5e9\nlast_preserved_timestamp: 1.4e9\nlater { a: 1 }\n"
    )
    return [{_STATE: (str(state) + times).encode(), **index} for state in states]


def _read_state(directory: Path) -> None:
    for read in (family.read_state, family.latest, family.resolve):
        with refusals():
            read(directory)


def _open_latest(directory: Path) -> None:
    with refusals():
        checkpoints.open(directory / _STATE)


READERS = (
    Reader("v1", lambda: _seeds("v1"), checkpoint_reads(_V1), whole=_change_v1),
    Reader("v2", lambda: _seeds("v2"), checkpoint_reads("m"), whole=_change_v2),
    Reader(
        "state", _state_seeds, (_read_state, _open_latest), {_STATE: mutate_text, "*": mutate_bytes}
    ),
)
