"""safetensors: a header of JSON, and the values behind it.

Layout (numbers little-endian):
  the length of the header (uint64); the header, a JSON object: name -> dtype, shape and
    data_offsets (begin and end, counted from the end of the header), and `__metadata__` -> text
    by key; the values in C order, without gaps. There are no checksums.

Source:
  https://github.com/safetensors/safetensors, whose library checks the header here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import CheckpointError, UnsupportedError, counted, listed
from checkpoints.files import atomic_file
from checkpoints.mapped import map_file
from checkpoints.mapping import as_key
from checkpoints.tensors import (
    MAX_RANK,
    Array,
    Variable,
    describe,
    from_little_endian,
    is_addressable,
    little_endian_bytes,
)

METADATA_NAME = "__metadata__"

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "complex64": "C64",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
}
"""TensorFlow's name -> the format's, in the library's order: the last are written first."""
_NAMES = {code: name for name, code in _CODES.items()}
# Libraries before 0.7 refuse a file that holds one.
_NOT_WRITTEN = {"complex64"}


class SafetensorsFile:
    """A safetensors file that is open. Only the header has been read.

    Attributes:
      variables: by name, in the order of the values.
      metadata: what `__metadata__` says.
    """

    def __init__(self, path: Path) -> None:
        """Reads the header.

        Raises:
          CheckpointError: it contradicts itself or the file's size.
          UnsupportedError: a dtype has no counterpart in TensorFlow; names the variable.
        """
        self._path = path
        header = self._read_header()
        self.metadata: dict[str, str] = header.pop(METADATA_NAME, None) or {}
        self.variables: dict[str, Variable] = {}
        self._places: dict[str, tuple[int, int]] = {}
        for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
            entry = header[name]
            self._places[name] = (entry["data_offsets"][0], entry["data_offsets"][1])
            self.variables[name] = self._variable(name, entry["dtype"], tuple(entry["shape"]))

    def read(self, name: str) -> Array:
        """The values of one variable; a read-only view of the file where that can be."""
        variable = self.variables[name]
        return from_little_endian(self.tensor_bytes(name), variable.dtype, variable.shape)

    def tensor_bytes(self, name: str) -> memoryview:
        """The values of a variable, in C order, little-endian; of the file."""
        start, end = self._places[name]
        return self._values[start:end]

    def _read_header(self) -> dict[str, Any]:
        """The header, which the format's own library has found sound."""
        from safetensors import SafetensorError, safe_open

        try:
            # That sizes, shapes, dtypes and offsets fit is seen here; only names may be repeated.
            with safe_open(self._path, framework="numpy"):
                data = map_file(self._path)
        except SafetensorError as error:
            raise CheckpointError(
                f"{self._path}: the header cannot be read.",
                received=error,
                next_step="The file was cut or damaged. Copy or download it again.",
            ) from error
        start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        self._values = data[start:]
        header: dict[str, Any] = json.loads(
            bytes(data[_LENGTH_BYTES:start]), object_pairs_hook=self._unique
        )
        return header

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(f"{self._path}: the header names {twice!r} twice.")
        return found

    def _variable(self, name: str, code: str, shape: tuple[int, ...]) -> Variable:
        if code not in _NAMES:
            raise UnsupportedError(
                f"{self._path}: variable {name}: TensorFlow has no dtype for {code}.",
                expected=", ".join(_NAMES),
                received=code,
            )
        dtype = dtypes.of_name(_NAMES[code])
        if len(shape) > MAX_RANK or not is_addressable(shape, dtype.numpy.itemsize):
            raise UnsupportedError(
                f"{self._path}: variable {name} cannot be an array.",
                expected=f"at most {MAX_RANK} dimensions, and no more than there are addresses",
                received=list(shape),
            )
        return describe(name, dtype, shape)


def write_safetensors(
    path: Path,
    variables: Sequence[Variable],
    read: Callable[[str], Array],
    metadata: Mapping[str, str],
) -> None:
    """Writes a safetensors file, byte for byte as the format's own library does.

    Args:
      path: the file.
      variables: what is written; the format has an order of its own.
      read: gives the values of a variable by its name; one at a time is held.
      metadata: text that goes into `__metadata__`.

    Raises:
      UnsupportedError: a variable's dtype is not one of the format's; all such are named, and
        nothing is written.
    """
    _refuse_unfit(path, variables)
    ranks = {name: -rank for rank, name in enumerate(_CODES)}
    ordered = sorted(
        variables, key=lambda variable: (ranks[variable.dtype_name], as_key(variable.name))
    )
    header: dict[str, Any] = {METADATA_NAME: dict(sorted(metadata.items()))} if metadata else {}
    end = 0
    for variable in ordered:
        start, end = end, end + variable.num_elements * variable.dtype.itemsize
        header[variable.name] = {
            "dtype": _CODES[variable.dtype_name],
            "shape": list(variable.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % _ALIGNMENT)
    with atomic_file(path) as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
        for variable in ordered:
            file.write(little_endian_bytes(np.asarray(read(variable.name))))


def _refuse_unfit(path: Path, variables: Sequence[Variable]) -> None:
    problems = [
        f"{variable.name}: {variable.dtype_name}"
        for variable in variables
        if variable.dtype_name not in _CODES or variable.dtype_name in _NOT_WRITTEN
    ]
    problems += [
        f"{variable.name}: the name is the format's own"
        for variable in variables
        if variable.name == METADATA_NAME
    ]
    if problems:
        raise UnsupportedError(
            f"{path}: {counted(len(problems), 'variable')} cannot be kept in a safetensors file:\n"
            f"{listed(problems)}",
            expected=", ".join(name for name in _CODES if name not in _NOT_WRITTEN),
            next_step="Leave them out (--exclude REGEX), or write a V2 checkpoint, which holds all.",
        )
