"""V1 checkpoints: tables that hold the values themselves.

Layout:
  One table, or one a shard (checkpoints.table). The empty key holds a SavedTensorSlices message
  whose `meta` lists, for every tensor, name, dtype, shape and slices. Every other key is made by
  checkpoints.ordered_code of a tensor's name and one slice's extents, and holds a
  SavedTensorSlices whose `data.data` is a TensorProto with nothing but the numbers: packed
  float_val, double_val, int_val and so on. Floating-point numbers are little-endian; integers
  and booleans are varints; half_val holds the 16 bits of a number as a varint.

Source:
  TensorFlow's tensorflow/core/util/saved_tensor_slice.proto and saved_tensor_slice_util.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from checkpoints import dtypes
from checkpoints.errors import BrokenFileError, CheckpointError, SlimtuneError, UnsupportedError
from checkpoints.mapped import map_file
from checkpoints.messages import SavedSliceMeta, SavedTensorSlices
from checkpoints.ordered_code import encode_slice_key
from checkpoints.table import Table
from checkpoints.tensor_values import raw_values, read_string_values, read_values
from checkpoints.tensors import (
    Array,
    Extents,
    Variable,
    as_index,
    check_tiling,
    describe,
    extents_shape,
    from_strings,
    little_endian_bytes,
    lower_first,
    read_extents,
    read_shape,
)
from checkpoints.wire import LENGTH_DELIMITED, scan

META_KEY = b""
VERSION = 1
"""The newest version that is read, and the one that is written."""

DATA_FIELD, VALUES_FIELD = 2, 3
"""SavedTensorSlices.data and SavedSlice.data."""

_NEXT_STEP = "The other variables can still be read. Copy or download the file again to have all."


@dataclass(frozen=True)
class Piece:
    """One slice of a variable.

    Attributes:
      table: the number of the file.
      key: the key in its table.
      extents: start and length in every dimension.
    """

    table: int
    key: bytes
    extents: Extents


class SavedSlices:
    """A V1 checkpoint that is open. Only the lists of contents have been read.

    Attributes:
      variables: by name, in the order of the lists.
    """

    def __init__(self, files: Sequence[Path], verify_checksums: bool = True) -> None:
        """Reads every file's list of contents.

        Raises:
          CheckpointError: a list is broken or contradicts another.
          UnsupportedError: it holds what is no number or string, or is of a later version.
        """
        self._files = files
        self._tables: list[Table] = []
        self._pieces: dict[str, list[Piece]] = {}
        self._dtypes: dict[str, dtypes.DType] = {}
        self.variables: dict[str, Variable] = {}
        for number, file in enumerate(files):
            table = Table(map_file(file), file, verify_checksums)
            self._tables.append(table)
            self._read_contents(number, table.get(META_KEY))

    def read(self, name: str) -> Array:
        """The values of one variable; a read-only view of the file where that can be.

        Raises:
          CheckpointError: its bytes are missing or damaged.
        """
        variable = self.variables[name]
        pieces = self._pieces[name]
        if len(pieces) == 1 and extents_shape(pieces[0].extents) == variable.shape:
            return self._read_piece(name, pieces[0])
        try:
            check_tiling(variable.shape, [piece.extents for piece in pieces])
        except BrokenFileError as error:
            raise self._error(name, pieces[0].table if pieces else 0, error) from error
        # Every piece is looked at before the whole is allocated, which may be far larger than
        # the files if the list lies.
        arrays = [(piece.extents, self._read_piece(name, piece)) for piece in pieces]
        whole = np.empty(variable.shape, variable.dtype)
        for extents, array in arrays:
            whole[as_index(extents)] = array
        whole.flags.writeable = False
        return whole

    def tensor_bytes(self, name: str) -> memoryview:
        """The values of a variable of numbers, in C order, little-endian; of the file if it can be."""
        pieces, variable = self._pieces[name], self.variables[name]
        if len(pieces) == 1 and extents_shape(pieces[0].extents) == variable.shape:
            values = self._values(name, pieces[0])
            try:
                raw = raw_values(values, self._dtypes[name], variable.shape)
            except BrokenFileError as error:
                raise self._error(name, pieces[0].table, error) from error
            if raw is not None:
                return raw
        return little_endian_bytes(self.read(name))

    def _read_contents(self, number: int, value: memoryview | None) -> None:
        file = self._files[number]
        if value is None:
            raise CheckpointError(f"{file}: the list of contents is missing.")
        try:
            contents = SavedTensorSlices.FromString(bytes(value))
        except DecodeError as error:
            raise CheckpointError(f"{file}: the list of contents cannot be read.") from error
        if not contents.HasField("meta"):
            raise CheckpointError(
                f"{file}: the table is not a V1 checkpoint.",
                expected="a list of contents under the empty key",
                received="perhaps the index of a V2 checkpoint, which must be called PREFIX.index",
            )
        meta = contents.meta
        if meta.versions.min_consumer > VERSION:
            raise UnsupportedError(
                f"{file}: the checkpoint needs a later reader.",
                expected=f"version {VERSION} or earlier",
                received=meta.versions.min_consumer,
            )
        for tensor in meta.tensor:
            try:
                self._add(number, tensor)
            except SlimtuneError as error:
                kind = UnsupportedError if isinstance(error, UnsupportedError) else CheckpointError
                raise kind(
                    f"{file}: variable {tensor.name}: {lower_first(error.message)}",
                    expected=error.expected,
                    received=error.received,
                ) from error

    def _add(self, number: int, tensor: SavedSliceMeta) -> None:
        name = tensor.name
        dtype, shape = dtypes.of_number(tensor.type), read_shape(tensor.shape)
        variable = describe(name, dtype, shape)
        known = self.variables.setdefault(name, variable)
        if known != variable:
            raise BrokenFileError(
                "Two files contradict each other.",
                expected=f"{known.dtype_name} {list(known.shape)}",
                received=f"{variable.dtype_name} {list(shape)}",
            )
        self._dtypes[name] = dtype
        pieces = self._pieces.setdefault(name, [])
        for part in tensor.slice:
            written, extents = read_extents(part, shape)
            key = encode_slice_key(name.encode("utf-8"), written)
            pieces.append(Piece(number, key, extents))

    def _read_piece(self, name: str, piece: Piece) -> Array:
        dtype, shape = self._dtypes[name], extents_shape(piece.extents)
        values = self._values(name, piece)
        try:
            if dtype.is_string:
                return from_strings(read_string_values(values, shape), shape)
            return read_values(values, dtype, shape)
        except BrokenFileError as error:
            raise self._error(name, piece.table, error) from error

    def _values(self, name: str, piece: Piece) -> memoryview:
        """The TensorProto of one slice."""
        table = self._tables[piece.table]
        try:
            record = table.get(piece.key)
            if record is None:
                raise BrokenFileError("The values are not in the file whose list names them.")
            saved_slice = _submessage(record, DATA_FIELD)
            return _submessage(saved_slice, VALUES_FIELD)
        except BrokenFileError as error:
            raise self._error(name, piece.table, error) from error

    def _error(self, name: str, table: int, error: BrokenFileError) -> CheckpointError:
        file = self._files[table]
        # The table names the file itself.
        message = lower_first(error.message.removeprefix(f"{file}: "))
        return CheckpointError(
            f"{file}: variable {name} cannot be read: {message}",
            expected=error.expected,
            received=error.received,
            next_step=_NEXT_STEP,
        )


def _submessage(message: memoryview, number: int) -> memoryview:
    """The bytes of the message in a field; nothing where the field is not there."""
    found = message[:0]
    for field in scan(message):
        if field.number == number and field.wire_type == LENGTH_DELIMITED:
            found = message[field.start : field.end]
    return found
