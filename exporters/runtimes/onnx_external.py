"""Files beside an ONNX model that hold tensors of it: which it names, and whether it may.

Source:
  Field numbers as in ONNX's onnx.proto; its page on external data: locations are relative to
  the model's folder, and do not lead out of it. ONNX Runtime before 1.24 follows any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from checkpoints.errors import BrokenFileError, listed
from checkpoints.mapped import map_file
from checkpoints.wire import LENGTH_DELIMITED, Field, scan

_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external data"},
}  # fmt: skip
"""Message -> number of a field -> the message in it, as far as tensors lie there."""

_KEY, _VALUE = 1, 2


def refuse_files_elsewhere(path: Path) -> None:
    """Sees that a model takes tensors from files in its own folder alone.

    Raises:
      BrokenFileError: a file's name leads elsewhere, by itself or through a link, or the model
        is cut or damaged.
    """
    folder = path.parent.resolve()
    elsewhere = [
        repr(name)
        for name in dict.fromkeys(external_files(path))
        if "\0" in name or not (folder / name).resolve().is_relative_to(folder)
    ]
    if elsewhere:
        raise BrokenFileError(
            f"{path} takes tensors from files that are not in its folder:\n{listed(elsewhere)}",
            expected="names of files beside the model",
            next_step="Do not use it unless you know who made it; onnx.save_model makes one file.",
        )


def external_files(path: Path) -> Iterator[str]:
    """Names of the files that a model's tensors are in, as the model has them.

    Raises:
      BrokenFileError: the model is cut or damaged.
    """
    try:
        yield from _external_files(map_file(path))
    except BrokenFileError as error:
        raise BrokenFileError(f"{path} is no whole ONNX model.", received=error) from error


def _external_files(data: memoryview) -> Iterator[str]:
    waiting = deque([("model", 0, len(data))])
    while waiting:
        kind, start, end = waiting.popleft()
        for field in scan(data, start, end):
            inside = _INSIDE[kind].get(field.number)
            if inside is None or field.wire_type != LENGTH_DELIMITED:
                continue
            if inside == "external data":
                texts = {
                    part.number: _text(data, part) for part in scan(data, field.start, field.end)
                }
                if texts.get(_KEY) == "location":
                    yield texts.get(_VALUE, "")
            else:
                waiting.append((inside, field.start, field.end))


def _text(data: memoryview, field: Field) -> str:
    return str(data[field.start : field.end], "utf-8", "surrogateescape")
