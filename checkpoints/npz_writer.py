"""Writing npz files: one pass over the values, every array aligned so that it can be mapped."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import UnsupportedError, counted, listed
from checkpoints.files import atomic_file
from checkpoints.npz import ENDING, LOCAL_HEADER, METADATA_NAME
from checkpoints.tensors import Array, Variable, as_strings

_ALIGNMENT = 64
# The field that says a member is larger than 4 GiB, and the head of the one that only fills up.
_ZIP64_BYTES, _FILLER_HEAD_BYTES = 20, 4
_FILLER_ID = 0xD935
_PIECE_BYTES = 1 << 22


def write_npz(
    path: Path,
    variables: Sequence[Variable],
    read: Callable[[str], Array],
    metadata: Mapping[str, str],
) -> None:
    """Writes an npz file that numpy.load reads; the same bytes for the same values.

    Strings become numpy's bytes of fixed width. Values of a dtype that numpy lacks (bfloat16,
    float8, 4 and 2 bits) become plain bits, as numpy.save makes of them, and the dtype's name
    stands in `__metadata__`.

    Args:
      path: the file.
      variables: what is written, in the order of the file.
      read: gives the values of a variable by its name; one at a time is held.
      metadata: text that goes into `__metadata__`.

    Raises:
      UnsupportedError: a variable does not fit into an npz; all such are named, and nothing is
        written.
    """
    widths = _refuse_unfit(path, variables, read)
    said = {
        "metadata": dict(metadata),
        "dtypes": {
            variable.name: variable.dtype_name for variable in variables if _is_extended(variable)
        },
    }
    with atomic_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        if any(said.values()):
            text = json.dumps(said, ensure_ascii=False).encode("utf-8")
            _write(archive, file, METADATA_NAME, np.array(text))
        for variable in variables:
            value = np.asarray(read(variable.name))
            if variable.name in widths:
                pieces = _fixed_width(as_strings(value, variable.name), widths[variable.name])
                dtype = np.dtype(f"S{widths[variable.name]}")
                _write_pieces(archive, file, variable, dtype, pieces)
            elif _is_extended(variable):
                _write(archive, file, variable.name, value.view(f"V{value.itemsize}"))
            else:
                _write(archive, file, variable.name, value)


def _refuse_unfit(
    path: Path, variables: Sequence[Variable], read: Callable[[str], Array]
) -> dict[str, int]:
    """The widths of the variables of strings; nothing that numpy would change is let through."""
    problems = []
    widths = {}
    for variable in variables:
        if variable.name == METADATA_NAME or "\0" in variable.name:
            problems.append(f"{variable.name!r}: cannot be the name of an array in an npz")
        elif variable.dtype_name == "string":
            values = as_strings(read(variable.name), variable.name)
            if any(value.endswith(b"\0") for value in values):
                problems.append(f"{variable.name}: a string ends in a zero byte, which numpy drops")
            widths[variable.name] = max(1, *map(len, values)) if values else 1
    if problems:
        raise UnsupportedError(
            f"{path}: {counted(len(problems), 'variable')} cannot be kept in an npz:\n"
            f"{listed(problems)}",
            next_step="Leave them out (--exclude REGEX), or write a V2 checkpoint, which holds all.",
        )
    return widths


def _is_extended(variable: Variable) -> bool:
    return dtypes.of_name(variable.dtype_name).is_extended


def _fixed_width(values: list[bytes], width: int) -> Iterator[bytes]:
    """Strings filled up with zero bytes, some at a time: one long one makes all wide."""
    rows = max(1, _PIECE_BYTES // width)
    for start in range(0, len(values), rows):
        yield np.array(values[start : start + rows], f"S{width}").tobytes()


def _write(archive: zipfile.ZipFile, file: IO[bytes], name: str, value: Array) -> None:
    with archive.open(_info(file, name), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, value, (1, 0), allow_pickle=False)


def _write_pieces(
    archive: zipfile.ZipFile,
    file: IO[bytes],
    variable: Variable,
    dtype: np.dtype[Any],
    pieces: Iterator[bytes],
) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": variable.shape,
    }
    with archive.open(_info(file, variable.name), "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for piece in pieces:
            member.write(piece)


def _info(file: IO[bytes], name: str) -> zipfile.ZipInfo:
    """A member without a time, so placed that its values lie at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(f"{name}{ENDING}")
    name_bytes = len(info.filename.encode("utf-8"))
    start = file.tell() + LOCAL_HEADER.size + name_bytes + _ZIP64_BYTES + _FILLER_HEAD_BYTES
    filler = -start % _ALIGNMENT
    info.extra = _FILLER_ID.to_bytes(2, "little") + filler.to_bytes(2, "little") + bytes(filler)
    return info
