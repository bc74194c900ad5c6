"""V2 checkpoints: an index table and the tensors' bytes in one or several .data files.

Layout:
  PREFIX.index: a table (checkpoints.table). The empty key holds a BundleHeaderProto: number of
    shards, byte order, version. Every other key is a variable's name and holds a
    BundleEntryProto: dtype, shape, shard, offset, size, masked CRC-32C. The entry of a
    partitioned variable has slices instead of a place; each slice has an entry of its own under
    the key that checkpoints.ordered_code makes of name and extents.
  PREFIX.data-00000-of-00001, ...: values in C order, in the header's byte order, one tensor
    behind the other; strings as in checkpoints.string_block.

Source:
  TensorFlow's tensorflow/core/util/tensor_bundle and tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from checkpoints import dtypes
from checkpoints.checksum import crc32c, unmask
from checkpoints.errors import (
    BrokenFileError,
    CheckpointError,
    NotFoundError,
    SlimtuneError,
    UnsupportedError,
)
from checkpoints.mapped import map_file
from checkpoints.messages import BundleEntryProto, BundleHeaderProto
from checkpoints.names import OBJECT_ATTRIBUTES
from checkpoints.ordered_code import WHOLE, decode_slice_key, encode_slice_key
from checkpoints.string_block import decode_strings
from checkpoints.table import Table
from checkpoints.tensors import (
    Array,
    Extents,
    Shape,
    Variable,
    as_index,
    check_tiling,
    describe,
    extents_shape,
    from_little_endian,
    from_strings,
    little_endian_bytes,
    lower_first,
    read_extents,
    read_shape,
)

HEADER_KEY = b""
VERSION = 1
"""The version that TensorFlow's writer states, and the newest that is read."""
LITTLE_ENDIAN, BIG_ENDIAN = 0, 1
MAX_SHARDS = 100_000
"""Five digits are all a file name has room for."""

_SLICE_KEY_START = b"\x00"
_INDEX_NEXT_STEP = "The index was damaged or not written by TensorFlow. Copy or download it again."
_DATA_NEXT_STEP = (
    "The other variables can still be read. Copy or download the file again to have all."
)


def index_path(prefix: Path) -> Path:
    """PREFIX.index."""
    return prefix.with_name(f"{prefix.name}.index")


def data_path(prefix: Path, shard: int, num_shards: int) -> Path:
    """PREFIX.data-00000-of-00001 and its like."""
    return prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{num_shards:05d}")


@dataclass(frozen=True)
class Entry:
    """Where the values of a tensor, or of one slice of it, lie.

    Attributes:
      key: the key in the index.
      dtype: of the values.
      shape: of the tensor or slice.
      shard: which .data file.
      offset: where in the file, in bytes.
      size: how many bytes.
      crc: the unmasked checksum of them.
    """

    key: bytes
    dtype: dtypes.DType
    shape: Shape
    shard: int
    offset: int
    size: int
    crc: int


class Bundle:
    """A V2 checkpoint that is open. Only the index has been read; values come when asked for.

    Attributes:
      variables: by name, in the order of the index.
      num_shards: how many .data files the header declares.
      left_out: what an object keeps beside variables and is no number or string, as the state
        of an iterator: key -> the name of its dtype.
    """

    def __init__(self, prefix: Path, verify_checksums: bool = True) -> None:
        """Reads the index.

        Raises:
          CheckpointError: the index contradicts itself; names variable and offset.
          UnsupportedError: it holds what is no number or string, or is of a later version.
        """
        self._prefix = prefix
        self._index = index_path(prefix)
        self._verify_checksums = verify_checksums
        self._shards: dict[int, memoryview] = {}
        self._sound: set[bytes] = set()
        table = Table(map_file(self._index), self._index, verify_checksums)
        items = iter(table)
        self.num_shards, self._big_endian = self._read_header(next(items, None))
        self._entries: dict[bytes, Entry] = {}
        self._slices: dict[str, list[tuple[Extents, Extents]]] = {}
        self.variables: dict[str, Variable] = {}
        self.left_out: dict[str, str] = {}
        for key, value in items:
            self._read_entry(key, value)
        self._check_overlaps()

    def read(self, name: str) -> Array:
        """The values of one variable; a read-only view of the file where that can be.

        Raises:
          CheckpointError: its bytes are missing or do not match their checksum.
        """
        if name not in self._slices:
            return self._read_tensor(name, self._entries[name.encode("utf-8")])
        variable = self.variables[name]
        pieces = self._pieces(name)
        try:
            check_tiling(variable.shape, [extents for extents, _ in pieces])
        except BrokenFileError as error:
            raise self._index_error(name, error) from error
        # Every piece is looked at before the whole is allocated, which may be far larger than
        # the file if the index lies.
        arrays = [(extents, self._read_tensor(name, entry)) for extents, entry in pieces]
        whole = np.empty(variable.shape, variable.dtype)
        for extents, array in arrays:
            whole[as_index(extents)] = array
        whole.flags.writeable = False
        return whole

    def tensor_bytes(self, name: str) -> memoryview:
        """The values of a variable of numbers, in C order, little-endian; of the file if it can be."""
        entry = self._entries.get(name.encode("utf-8"))
        if entry is not None and not self._big_endian and name not in self._slices:
            return self._checked(name, entry)
        return little_endian_bytes(self.read(name))

    def places(self, name: str) -> list[Entry]:
        """Where the values of a variable lie: one place, or one a slice.

        Raises:
          CheckpointError: a slice has no entry.
        """
        if name not in self._slices:
            return [self._entries[name.encode("utf-8")]]
        return [entry for _, entry in self._pieces(name)]

    def num_bytes(self, name: str) -> int:
        """How many bytes the index says the values of a variable take; 0 if they are in slices."""
        return self._entries[name.encode("utf-8")].size

    def _read_header(self, first: tuple[bytes, memoryview] | None) -> tuple[int, bool]:
        if first is None or first[0] != HEADER_KEY:
            raise CheckpointError(
                f"{self._index}: the table does not begin with the header of a V2 checkpoint.",
                next_step="Name the checkpoint by its prefix, or by the V1 file itself.",
            )
        try:
            header = BundleHeaderProto.FromString(bytes(first[1]))
        except DecodeError as error:
            raise CheckpointError(
                f"{self._index}: the header cannot be read.", next_step=_INDEX_NEXT_STEP
            ) from error
        if header.version.min_consumer > VERSION:
            raise UnsupportedError(
                f"{self._index}: the checkpoint needs a later reader.",
                expected=f"version {VERSION} or earlier",
                received=header.version.min_consumer,
            )
        if not 0 < header.num_shards < MAX_SHARDS:
            raise CheckpointError(
                f"{self._index}: the header declares an impossible number of .data files.",
                expected=f"1 to {MAX_SHARDS - 1}",
                received=header.num_shards,
                next_step=_INDEX_NEXT_STEP,
            )
        if header.endianness not in (LITTLE_ENDIAN, BIG_ENDIAN):
            raise CheckpointError(
                f"{self._index}: the header declares a byte order that there is not.",
                expected=f"{LITTLE_ENDIAN} or {BIG_ENDIAN}",
                received=header.endianness,
                next_step=_INDEX_NEXT_STEP,
            )
        return header.num_shards, header.endianness == BIG_ENDIAN

    def _read_entry(self, key: bytes, value: memoryview) -> None:
        is_slice = key.startswith(_SLICE_KEY_START)
        name = repr(key)
        try:
            name = name if is_slice else key.decode("utf-8")
            proto = BundleEntryProto.FromString(bytes(value))
            if OBJECT_ATTRIBUTES in name and dtypes.is_valueless(proto.dtype):
                self.left_out[name] = dtypes.name_of_number(proto.dtype)
                return
            dtype = dtypes.of_number(proto.dtype)
            shape = read_shape(proto.shape)
            slices = [read_extents(part, shape) for part in proto.slices]
            if is_slice or not slices or _has_own_values(slices):
                self._check_place(proto, dtype, shape)
        except (DecodeError, UnicodeDecodeError) as error:
            raise CheckpointError(
                f"{self._index}: the entry {name} cannot be read.", next_step=_INDEX_NEXT_STEP
            ) from error
        except SlimtuneError as error:
            raise self._index_error(name, error) from error
        self._entries[key] = Entry(
            key, dtype, shape, proto.shard_id, proto.offset, proto.size, unmask(proto.crc32c)
        )
        if not is_slice:
            self.variables[name] = describe(name, dtype, shape)
            if slices:
                self._slices[name] = slices

    def _check_place(self, proto: BundleEntryProto, dtype: dtypes.DType, shape: Shape) -> None:
        """Refuses a place that no writer gives values of this dtype and shape."""
        if not 0 <= proto.shard_id < self.num_shards:
            raise BrokenFileError(
                "The values lie in a .data file that the header does not declare.",
                expected=f"a number below {self.num_shards}",
                received=proto.shard_id,
            )
        if proto.offset < 0 or proto.size < 0:
            raise BrokenFileError(
                "The place of the values is negative.",
                received=f"{proto.size} bytes at offset {proto.offset}",
            )
        # A string takes a byte for its length at least.
        fewest = math.prod(shape) * (1 if dtype.is_string else dtype.numpy.itemsize)
        if proto.size < fewest or (proto.size > fewest and not dtype.is_string):
            raise BrokenFileError(
                "The size of the values does not fit their shape.",
                expected=f"{'at least ' if dtype.is_string else ''}{fewest} bytes for"
                f" {dtype.name} {list(shape)}",
                received=f"{proto.size} bytes at offset {proto.offset}",
            )

    def _check_overlaps(self) -> None:
        """No two tensors may share bytes: the sum of what is read stays below the files' size."""
        partitioned = {
            name.encode("utf-8")
            for name, slices in self._slices.items()
            if not _has_own_values(slices)
        }
        placed = sorted(
            (
                entry
                for entry in self._entries.values()
                if entry.size and entry.key not in partitioned
            ),
            key=lambda entry: (entry.shard, entry.offset),
        )
        for first, second in itertools.pairwise(placed):
            if first.shard == second.shard and second.offset < first.offset + first.size:
                raise CheckpointError(
                    f"{self._index}: the bytes of {_shown(second.key)} overlap those of"
                    f" {_shown(first.key)} in .data file {first.shard}.",
                    expected=f"an offset from {first.offset + first.size} on",
                    received=second.offset,
                    next_step=_INDEX_NEXT_STEP,
                )

    def _pieces(self, name: str) -> list[tuple[Extents, Entry]]:
        """The slices of a partitioned variable: extents, and where the values lie."""
        key = name.encode("utf-8")
        variable = self._entries[key]
        pieces = []
        for written, extents in self._slices[name]:
            entry = (
                variable
                if _is_whole(written)
                else self._entries.get(encode_slice_key(key, written))
            )
            if (
                entry is None
                or entry.shape != extents_shape(extents)
                or entry.dtype.number != variable.dtype.number
            ):
                raise self._index_error(
                    name,
                    BrokenFileError(
                        f"The slice {[list(extent) for extent in written]} has no entry that fits.",
                        received="none"
                        if entry is None
                        else f"{entry.dtype.name} {list(entry.shape)}",
                    ),
                )
            pieces.append((extents, entry))
        return pieces

    def _read_tensor(self, name: str, entry: Entry) -> Array:
        if entry.dtype.is_string:
            return self._read_strings(name, entry)
        data = self._checked(name, entry)
        return from_little_endian(data, entry.dtype.numpy, entry.shape, self._big_endian)

    def _checked(self, name: str, entry: Entry) -> memoryview:
        """The bytes of a tensor of numbers, compared with their checksum when first asked for."""
        data = self._data(name, entry)
        if self._verify_checksums and entry.key not in self._sound:
            if crc32c(data) != entry.crc:
                raise self._data_error(name, entry, "the checksum does not match the bytes")
            self._sound.add(entry.key)
        return data

    def _data(self, name: str, entry: Entry) -> memoryview:
        """The bytes of an entry, which lie inside the file."""
        if not entry.size:
            return memoryview(b"")
        if entry.shard not in self._shards:
            path = data_path(self._prefix, entry.shard, self.num_shards)
            try:
                self._shards[entry.shard] = map_file(path)
            except NotFoundError as error:
                raise self._data_error(name, entry, "the file is missing") from error
        shard = self._shards[entry.shard]
        if entry.offset + entry.size > len(shard):
            raise self._data_error(name, entry, f"the file ends at byte {len(shard)}")
        return shard[entry.offset : entry.offset + entry.size]

    def _read_strings(self, name: str, entry: Entry) -> Array:
        crc = entry.crc if self._verify_checksums else None
        try:
            values = decode_strings(
                self._data(name, entry), math.prod(entry.shape), crc, self._big_endian
            )
        except CheckpointError:
            raise
        except BrokenFileError as error:
            raise self._data_error(name, entry, error.message) from error
        return from_strings(values, entry.shape)

    def _index_error(self, name: str, error: SlimtuneError) -> SlimtuneError:
        kind = type(error) if isinstance(error, UnsupportedError) else CheckpointError
        return kind(
            f"{self._index}: variable {name}: {lower_first(error.message)}",
            expected=error.expected,
            received=error.received,
            next_step=error.next_step or _INDEX_NEXT_STEP,
        )

    def _data_error(self, name: str, entry: Entry, what: str) -> CheckpointError:
        path = data_path(self._prefix, entry.shard, self.num_shards)
        return CheckpointError(
            f"{path}: variable {name} (bytes {entry.offset} to {entry.offset + entry.size})"
            f" cannot be read: {lower_first(what).rstrip('.')}.",
            next_step=_DATA_NEXT_STEP,
        )


def _is_whole(written: Extents) -> bool:
    """Whether a slice, as it is written, is all of its variable: it has no entry of its own then."""
    return all(length == WHOLE for _, length in written)


def _has_own_values(slices: list[tuple[Extents, Extents]]) -> bool:
    return any(_is_whole(written) for written, _ in slices)


def _shown(key: bytes) -> str:
    """A key for people: the name, and the slice where it is one."""
    if not key.startswith(_SLICE_KEY_START):
        return key.decode("utf-8", "replace")
    try:
        name, extents = decode_slice_key(key)
    except BrokenFileError:
        return repr(key)
    return f"{name.decode('utf-8', 'replace')} {[list(extent) for extent in extents]}"
