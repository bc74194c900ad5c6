"""The sorted string table: keys and values in sorted blocks, with an index and a footer.

V2 checkpoints keep their index in one, V1 checkpoints everything. Reading looks at the footer
and the index block; a data block is read, and its checksum compared, when a key in it is
asked for. Values are views of the mapped file unless the block is compressed.

Layout (numbers little-endian):
  blocks: entries, then the offsets of the restart points (uint32 each), then their count
    (uint32); an entry is three varints (bytes shared with the key before, further bytes of the
    key, bytes of the value), these bytes, the value. At a restart point nothing is shared.
  behind each block: its compression (one byte: 0 none, 1 Snappy) and the masked CRC-32C of
    block and that byte (uint32).
  the index block: for each data block a key at or after its last one; its offset and size as
    two varints.
  the footer, 48 bytes: offset and size of an empty block and of the index block as varints,
    zeros up to 40 bytes, the magic number (uint64).

Source:
  LevelDB's doc/table_format.md, and TensorFlow's tensorflow/core/lib/io.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from checkpoints.checksum import crc32c, mask, unmask
from checkpoints.errors import BrokenFileError, CheckpointError
from checkpoints.wire import encode_varint, read_varint

MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
FOOTER_BYTES = 48
TRAILER_BYTES = 5
BLOCK_BYTES = 262_144
"""A data block is closed when it has grown to this, as in TensorFlow's writer."""
RESTART_INTERVAL = 16

_UNCOMPRESSED, _SNAPPY = 0, 1
# The densest element of Snappy's format copies 64 bytes and takes 3.
_SNAPPY_LARGEST_GROWTH = 64 / 3


class _Handle(NamedTuple):
    """Where a block lies, its trailer not counted."""

    offset: int
    size: int


class Table:
    """One table in memory or in a mapped file, read when asked.

    Raises:
      CheckpointError: from every method, with the file and the offset, where the bytes
        contradict themselves.
    """

    def __init__(self, data: memoryview, file: Path, verify_checksums: bool = True) -> None:
        """Reads footer and index.

        Args:
          data: the whole file.
          file: its name, for messages.
          verify_checksums: whether a block's checksum is compared when the block is read.
        """
        self._data = data
        self._file = file
        self._verify_checksums = verify_checksums
        self._blocks: dict[int, dict[bytes, memoryview]] = {}
        if len(data) < FOOTER_BYTES or bytes(data[-8:]) != MAGIC:
            raise self._error(
                "the end is not that of a sorted string table",
                max(0, len(data) - FOOTER_BYTES),
                "The file was cut, or is no checkpoint. Copy or download it again.",
                expected=f"{FOOTER_BYTES} bytes that end in {MAGIC.hex(' ')}",
                received=_end_of(data),
            )
        footer = len(data) - FOOTER_BYTES
        position = footer
        try:
            for _ in range(2):
                offset, position = read_varint(data, position, len(data) - len(MAGIC))
                size, position = read_varint(data, position, len(data) - len(MAGIC))
        except BrokenFileError as error:
            raise self._error(f"the footer is damaged ({error.message})", footer) from error
        self._limit = footer
        index = self._entries(_Handle(offset, size))
        self._limit = offset
        self._last_keys, self._handles = self._read_index(index, offset)

    def __iter__(self) -> Iterator[tuple[bytes, memoryview]]:
        """All keys and values in order."""
        before: bytes | None = None
        for number in range(len(self._handles)):
            for key, value in self._block(number).items():
                if before is not None and key <= before:
                    raise self._error(
                        f"the key {key!r} does not come after {before!r}",
                        self._handles[number].offset,
                    )
                before = key
                yield key, value

    def get(self, key: bytes) -> memoryview | None:
        """The value of one key, or None where it is not there. Reads one block."""
        number = bisect_left(self._last_keys, key)
        return None if number == len(self._handles) else self._block(number).get(key)

    def _read_index(
        self, index: dict[bytes, memoryview], end: int
    ) -> tuple[list[bytes], list[_Handle]]:
        handles = []
        free = 0
        for key, value in index.items():
            try:
                offset, position = read_varint(value, 0, len(value))
                size, position = read_varint(value, position, len(value))
            except BrokenFileError as error:
                raise self._error(f"the index entry {key!r} is damaged", end) from error
            if offset < free or offset + size + TRAILER_BYTES > end:
                raise self._error(
                    f"the block that ends with {key!r} overlaps another or the index", offset
                )
            free = offset + size + TRAILER_BYTES
            handles.append(_Handle(offset, size))
        return list(index), handles

    def _block(self, number: int) -> dict[bytes, memoryview]:
        if number not in self._blocks:
            handle = self._handles[number]
            block = self._entries(handle)
            first, last = next(iter(block), None), next(reversed(block), None)
            if last is not None and first is not None:
                after = self._last_keys[number - 1] if number else None
                if last > self._last_keys[number] or (after is not None and first <= after):
                    raise self._error("a block holds keys of its neighbour", handle.offset)
            self._blocks[number] = block
        return self._blocks[number]

    def _entries(self, handle: _Handle) -> dict[bytes, memoryview]:
        """The keys and values of one block, checked against its checksum."""
        block = self._contents(handle)
        if len(block) < 4:
            raise self._error("a block is too short", handle.offset)
        num_restarts = int.from_bytes(block[-4:], "little")
        end = len(block) - 4 * (num_restarts + 1)
        if end < 0:
            raise self._error(
                f"a block of {len(block)} bytes declares {num_restarts} restart points",
                handle.offset,
            )
        entries: dict[bytes, memoryview] = {}
        key = b""
        position = 0
        while position < end:
            try:
                shared, start = read_varint(block, position, end)
                unshared, start = read_varint(block, start, end)
                num_bytes, start = read_varint(block, start, end)
            except BrokenFileError as error:
                raise self._error(f"an entry after {key!r} is damaged", handle.offset) from error
            value_start = start + unshared
            if shared > len(key) or value_start + num_bytes > end:
                raise self._error(f"the entry after {key!r} reaches beyond", handle.offset)
            before, key = key, key[:shared] + bytes(block[start:value_start])
            if entries and key <= before:
                raise self._error(f"the key {key!r} does not come after {before!r}", handle.offset)
            entries[key] = block[value_start : value_start + num_bytes]
            position = value_start + num_bytes
        return entries

    def _contents(self, handle: _Handle) -> memoryview:
        """The bytes of a block, decompressed where it is compressed."""
        end = handle.offset + handle.size
        if end + TRAILER_BYTES > self._limit:
            raise self._error(
                f"a block of {handle.size} bytes reaches beyond byte {self._limit}", handle.offset
            )
        stored = int.from_bytes(self._data[end + 1 : end + TRAILER_BYTES], "little")
        if self._verify_checksums and crc32c(self._data[handle.offset : end + 1]) != unmask(stored):
            raise self._error(
                "the checksum of a block does not match its bytes",
                handle.offset,
                "The file was damaged. Copy or download it again.",
            )
        contents = self._data[handle.offset : end]
        compression = self._data[end]
        if compression == _UNCOMPRESSED:
            return contents
        if compression == _SNAPPY:
            return self._decompress(contents, handle.offset)
        raise self._error(f"a block has the unknown compression {compression}", handle.offset)

    def _decompress(self, contents: memoryview, offset: int) -> memoryview:
        import cramjam

        try:
            declared, _ = read_varint(contents, 0, len(contents))
        except BrokenFileError as error:
            raise self._error("a compressed block has no length", offset) from error
        # Before decompressing, since that allocates what is declared.
        if declared > len(contents) * _SNAPPY_LARGEST_GROWTH:
            raise self._error(f"{len(contents)} compressed bytes declare to be {declared}", offset)
        try:
            return memoryview(cramjam.snappy.decompress_raw(contents)).toreadonly()
        except cramjam.DecompressionError as error:
            raise self._error(f"a block cannot be decompressed ({error})", offset) from error

    def _error(
        self, what: str, offset: int, next_step: str | None = None, **parts: str
    ) -> CheckpointError:
        message = f"{self._file}: {what} (at byte {offset})."
        return CheckpointError(message, next_step=next_step, **parts)


def _end_of(data: memoryview) -> str:
    if not data:
        return "an empty file"
    end = bytes(data[-len(MAGIC) :]).hex(" ")
    return end if len(data) >= FOOTER_BYTES else f"{len(data)} bytes that end in {end}"


class TableWriter:
    """Writes a table to a file; keys must come in order.

    The bytes are those of TensorFlow's writer without compression. At most one block of values
    is held, and these only by reference.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._offset = 0
        self._block = _BlockBuilder(RESTART_INTERVAL)
        self._index = _BlockBuilder(1)
        self._last_key: bytes | None = None
        self._pending: _Handle | None = None

    def add(self, key: bytes, value: Sequence[bytes | memoryview]) -> None:
        """Adds one entry; the value is given in pieces that are not copied.

        Raises:
          ValueError: the key does not come after the one before.
        """
        if self._last_key is not None:
            if key <= self._last_key:
                raise ValueError(f"The key {key!r} does not come after {self._last_key!r}.")
            if len(key) + sum(len(piece) for piece in value) >= 2 * BLOCK_BYTES:
                self._flush()
        if self._pending is not None and self._last_key is not None:
            self._add_to_index(_separator(self._last_key, key))
        self._block.add(key, value)
        self._last_key = key
        if self._block.estimated_bytes >= BLOCK_BYTES:
            self._flush()

    def finish(self) -> None:
        """Writes what is left, the index and the footer."""
        self._flush()
        metaindex = self._write_block(_BlockBuilder(RESTART_INTERVAL))
        if self._last_key is not None:
            self._add_to_index(_successor(self._last_key))
        index = self._write_block(self._index)
        handles = b"".join(encode_varint(number) for number in (*metaindex, *index))
        self._file.write(handles.ljust(FOOTER_BYTES - len(MAGIC), b"\0") + MAGIC)

    def _flush(self) -> None:
        if not self._block.is_empty:
            self._pending = self._write_block(self._block)
            self._block = _BlockBuilder(RESTART_INTERVAL)

    def _add_to_index(self, key: bytes) -> None:
        if self._pending is not None:
            self._index.add(key, [b"".join(encode_varint(number) for number in self._pending)])
            self._pending = None

    def _write_block(self, block: _BlockBuilder) -> _Handle:
        crc = 0
        size = 0
        for piece in block.finish():
            crc = crc32c(piece, crc)
            size += len(piece)
            self._file.write(piece)
        kind = bytes([_UNCOMPRESSED])
        self._file.write(kind + struct.pack("<I", mask(crc32c(kind, crc))))
        handle = _Handle(self._offset, size)
        self._offset += size + TRAILER_BYTES
        return handle


class _BlockBuilder:
    """Collects the entries of one block."""

    def __init__(self, restart_interval: int) -> None:
        self._restart_interval = restart_interval
        self._restarts = [0]
        self._since_restart = 0
        self._pieces: list[bytes | memoryview] = []
        self._num_bytes = 0
        self._last_key = b""

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    @property
    def estimated_bytes(self) -> int:
        return self._num_bytes + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: Sequence[bytes | memoryview]) -> None:
        if self._since_restart < self._restart_interval:
            shared = _shared_prefix(self._last_key, key)
        else:
            shared = 0
            self._restarts.append(self._num_bytes)
            self._since_restart = 0
        num_bytes = sum(len(piece) for piece in value)
        lengths = (shared, len(key) - shared, num_bytes)
        head = b"".join(encode_varint(length) for length in lengths) + key[shared:]
        self._pieces += [head, *value]
        self._num_bytes += len(head) + num_bytes
        self._since_restart += 1
        self._last_key = key

    def finish(self) -> list[bytes | memoryview]:
        restarts = struct.pack(f"<{len(self._restarts)}I", *self._restarts)
        return [*self._pieces, restarts + struct.pack("<I", len(self._restarts))]


def _shared_prefix(first: bytes, second: bytes) -> int:
    limit = min(len(first), len(second))
    for index in range(limit):
        if first[index] != second[index]:
            return index
    return limit


def _separator(first: bytes, second: bytes) -> bytes:
    """A short key from `first` on and before `second`."""
    shared = _shared_prefix(first, second)
    if shared < min(len(first), len(second)) and first[shared] + 1 < second[shared]:
        return first[:shared] + bytes([first[shared] + 1])
    return first


def _successor(key: bytes) -> bytes:
    """A short key from `key` on."""
    for index, byte in enumerate(key):
        if byte != 0xFF:
            return key[:index] + bytes([byte + 1])
    return key
