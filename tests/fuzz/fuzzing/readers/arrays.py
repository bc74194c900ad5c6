"""npz and safetensors files."""

from __future__ import annotations

import io
import json
import zipfile
from random import Random
from typing import Any

import numpy as np

import checkpoints
from fuzzing.mutation import mutate_bytes, mutate_json, mutate_text, one_of
from fuzzing.reader import Files, Reader
from fuzzing.reading import checkpoint_reads, written

_NPZ, _SAFETENSORS = "m.npz", "m.safetensors"
_HEADER_BYTES = 10


def _seeds(name: str) -> list[Files]:
    def write(values: dict[str, Any], metadata: dict[str, str]) -> Files:
        return written(lambda folder: checkpoints.write(folder / name, values, metadata=metadata))

    import ml_dtypes

    numbers = {
        "net/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
        "step": np.int64(7),
        "half": np.array([1, 2], ml_dtypes.bfloat16),
        "none": np.zeros((0, 3), np.uint8),
    }
    seeds = [write(numbers, {"slimtune": "1", "é": "x"}), write({"v": np.float32([1, 2])}, {})]
    if name == _NPZ:
        seeds += [write({"text": np.array([b"red", b"blue"], object)}, {"a": "b"}), _foreign_npz()]
    return seeds


def _foreign_npz() -> Files:
    """As numpy itself writes one: deflated, in Fortran's order, with text, objects and fields."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        a=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        text=np.array(["red", "blå"]),
        fields=np.zeros(2, [("x", "<f4"), ("y", ">i2")]),
        big=np.arange(3, dtype=">i4"),
    )
    return {_NPZ: file.getvalue()}


def _change_npz(files: Files, random: Random) -> Files:
    """Changes headers and values of members; the archive is whole."""
    with zipfile.ZipFile(io.BytesIO(files[_NPZ])) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(list(members))
        data = members[name]
        end = data.find(b"\n") + 1
        chance = random.random()
        if chance < 0.55:
            head = mutate_text(data[_HEADER_BYTES:end], random)
            if random.random() < 0.8:
                head = head[:-1].rstrip(b" ") + b"\n"
            length = len(head).to_bytes(4, "little")[:2]
            data = data[: _HEADER_BYTES - 2] + length + head + data[end:]
        elif name == "__metadata__.npy" and chance < 0.9:
            text = mutate_json(data[end:].rstrip(b"\0"), random)
            buffer = io.BytesIO()
            np.save(buffer, np.array(text, np.bytes_) if text else np.array(b"x"))
            data = buffer.getvalue()
        else:
            data = data[:end] + mutate_bytes(data[end:], random)
        members[
            random.choice((name, name, name, "x.npy", "__metadata__.npy", "a/b\0.npy", ".npy"))
        ] = data
    file = io.BytesIO()
    kind = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(file, "w", kind, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, kind)
    return {_NPZ: file.getvalue()}


def _change_safetensors(data: bytes, random: Random) -> bytes:
    """Changes the header; its length is right."""
    length = int.from_bytes(data[:8], "little")
    text, values = data[8 : 8 + length], data[8 + length :]
    mutate = one_of(mutate_json, mutate_text, _move_ranges)
    text = mutate(text, random)
    if random.random() < 0.2:
        values = mutate_bytes(values, random)
    return len(text).to_bytes(8, "little") + text + values


def _move_ranges(text: bytes, random: Random) -> bytes:
    """Other shapes, dtypes and places, which may fit each other."""
    header = json.loads(text)
    entry = random.choice([value for key, value in header.items() if key != "__metadata__"])
    match random.randrange(3):
        case 0:
            entry["shape"] = [
                random.choice((0, 1, 2, 3, 2**31, 2**62, 2**64))
                for _ in range(random.randrange(40))
            ]
        case 1:
            entry["dtype"] = random.choice(
                (
                    "BOOL",
                    "U8",
                    "F8_E8M0",
                    "F4",
                    "F6_E2M3",
                    "F8_E4M3FNUZ",
                    "C64",
                    "F64",
                    "I64",
                    "X",
                    "",
                )
            )
        case _:
            entry["data_offsets"] = [
                random.choice((0, 1, 4, 24, 32, 2**40, 2**64 - 1)) for _ in range(2)
            ]
    return json.dumps(header).encode()


READERS = (
    Reader("npz", lambda: _seeds(_NPZ), checkpoint_reads(_NPZ), whole=_change_npz),
    Reader(
        "safetensors",
        lambda: _seeds(_SAFETENSORS),
        checkpoint_reads(_SAFETENSORS),
        {_SAFETENSORS: _change_safetensors},
    ),
)
