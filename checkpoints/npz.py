"""npz: a zip archive with one .npy file a variable.

Layout:
  NAME.npy for every variable: the .npy header (dtype, order, shape) and the values. Members
    that are stored are read from where they lie in the mapped file; deflated ones are inflated
    when they are asked for.
  __metadata__.npy, where there is something to say: JSON as bytes, an object with `metadata`
    (text by key) and `dtypes` (variable -> TensorFlow's name of a dtype that numpy lacks, whose
    bits stand in the archive as dtype V1 or V2).

Source:
  numpy.lib.format, and PKWARE's APPNOTE.TXT for the archive.
"""

from __future__ import annotations

import errno
import io
import json
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints import dtypes
from checkpoints.errors import (
    BrokenFileError,
    CheckpointError,
    SlimtuneError,
    UnsupportedError,
)
from checkpoints.mapped import map_file
from checkpoints.npy_header import HEAD_BYTES, read_npy_header
from checkpoints.tensors import (
    Array,
    Shape,
    Variable,
    describe,
    from_strings,
    little_endian_bytes,
)

ENDING = ".npy"
METADATA_NAME = "__metadata__"
MAX_METADATA_BYTES = 1 << 26

LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Of a member: signature, length of its name, length of what else stands before its bytes."""

_LOCAL_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 1
# Deflate makes at most 1032 bytes of one.
_LARGEST_GROWTH = 1032
_NEXT_STEP = "Copy or download the file again."
_AS_NUMBERS = "Leave it out (--exclude REGEX), or save it as numbers or strings of fixed width."


@dataclass(frozen=True)
class Member:
    """One .npy file in the archive.

    Attributes:
      name: the variable's.
      start: where its bytes begin in the archive.
      stored: how many bytes there are in the archive.
      size: how many there are once they are inflated.
      is_deflated: whether they are deflated.
      crc: the CRC-32 of the inflated bytes.
      values_start: where in the inflated bytes the values begin.
      dtype: numpy's dtype of the values in the file.
      is_fortran: whether the first index changes fastest.
      shape: of the array.
    """

    name: str
    start: int
    stored: int
    size: int
    is_deflated: bool
    crc: int
    values_start: int
    dtype: np.dtype[Any]
    is_fortran: bool
    shape: Shape


class _Mapped(io.RawIOBase):
    """A file's bytes as a file, for what reads files only; nothing is copied before it is read."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._position, len(self._data))[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, "before the beginning of the file")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._data[self._position : self._position + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class NpzFile:
    """An npz file that is open. Only the list of members and their headers have been read.

    Attributes:
      variables: by name, in the order of the archive.
      metadata: what the file says beside the variables.
      unreadable: members that are no variables -> why.
    """

    def __init__(self, path: Path, verify_checksums: bool = True) -> None:
        """Reads the headers.

        Raises:
          CheckpointError: the archive contradicts itself; names the member.
          UnsupportedError: of every member: it is encrypted, holds Python objects, or has a
            dtype that TensorFlow lacks. Where others can be read, they are.
        """
        self._path = path
        self._verify_checksums = verify_checksums
        self._data = map_file(path)
        self._members: dict[str, Member] = {}
        self.unreadable: dict[str, SlimtuneError] = {}
        for info in self._infos():
            try:
                member = self._member(info)
            except UnsupportedError as error:
                self.unreadable[info.filename.removesuffix(ENDING)] = error
                continue
            if member.name in self._members:
                raise self._error(member.name, BrokenFileError("it is there twice"))
            self._members[member.name] = member
        self._check_overlaps()
        self.metadata, extended = self._read_metadata(self._members.pop(METADATA_NAME, None))
        self._dtypes: dict[str, dtypes.DType] = {}
        for name, member in self._members.items():
            try:
                self._dtypes[name] = self._dtype(member, extended.get(name))
            except UnsupportedError as error:
                self.unreadable[name] = error
        if self.unreadable and not self._dtypes:
            raise next(iter(self.unreadable.values()))
        self.variables: dict[str, Variable] = {
            name: describe(name, dtype, self._members[name].shape)
            for name, dtype in self._dtypes.items()
        }

    def read(self, name: str) -> Array:
        """The values of one variable; a read-only view of the file where that can be.

        Raises:
          CheckpointError: its bytes are damaged.
        """
        member, dtype = self._members[name], self._dtypes[name]
        flat = self._values(member)
        if dtype.is_string:
            return from_strings(self._strings(member, flat), member.shape)
        if flat.dtype.kind == "V" and flat.dtype.names is None:
            flat = flat.view(dtype.numpy)
        # In the machine's byte order and aligned, as compiled code wants it.
        flat = flat.astype(dtype.numpy, copy=not flat.flags.aligned)
        flat.flags.writeable = False
        return flat.reshape(member.shape, order="F" if member.is_fortran else "C")

    def tensor_bytes(self, name: str) -> memoryview:
        """The values of a variable of numbers, in C order, little-endian."""
        return little_endian_bytes(self.read(name))

    def _infos(self) -> list[zipfile.ZipInfo]:
        try:
            # Of the file that is mapped: another may have its name by now.
            with zipfile.ZipFile(_Mapped(self._data)) as archive:
                return [info for info in archive.infolist() if not info.filename.endswith("/")]
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise CheckpointError(
                f"{self._path}: the list of the archive's members cannot be read.",
                received=error,
                next_step="The file was cut or damaged. Copy or download it again.",
            ) from error

    def _member(self, info: zipfile.ZipInfo) -> Member:
        name = info.filename.removesuffix(ENDING)
        try:
            if not info.filename.endswith(ENDING):
                raise UnsupportedError("it is no .npy file", expected="only arrays")
            if info.flag_bits & _ENCRYPTED:
                raise UnsupportedError("it is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise UnsupportedError(
                    f"its compression {info.compress_type} is not read",
                    expected="stored or deflated members, as numpy writes them",
                )
            start = self._start(info)
            is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
            # Before anything of that size is made.
            most = info.compress_size * (_LARGEST_GROWTH if is_deflated else 1)
            if info.file_size > most or (not is_deflated and info.file_size != most):
                raise BrokenFileError(
                    "its sizes do not fit",
                    received=f"{info.file_size} bytes in {info.compress_size}",
                )
            stored = self._data[start : start + info.compress_size]
            # A header is not longer than this, deflated or not.
            head = stored[:HEAD_BYTES]
            head = _inflated(head, HEAD_BYTES) if is_deflated else head
            values_start, dtype, is_fortran, shape = read_npy_header(bytes(head))
            if dtype.hasobject:
                raise UnsupportedError(
                    "it holds pickled Python objects, which are never opened",
                    expected="numbers, booleans, or strings of fixed width",
                )
            num_bytes = math.prod(shape) * dtype.itemsize
            if values_start + num_bytes != info.file_size:
                raise BrokenFileError(
                    "its size does not fit dtype and shape",
                    expected=f"{num_bytes} bytes for {dtype} {list(shape)}",
                    received=f"{info.file_size - values_start} bytes",
                )
        except SlimtuneError as error:
            raise self._error(name, error) from error
        return Member(
            name,
            start,
            info.compress_size,
            info.file_size,
            is_deflated,
            info.CRC,
            values_start,
            dtype,
            is_fortran,
            shape,
        )

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Where a member's bytes begin, behind the header that stands before them."""
        header = bytes(self._data[info.header_offset : info.header_offset + LOCAL_HEADER.size])
        if len(header) < LOCAL_HEADER.size or not header.startswith(_LOCAL_SIGNATURE):
            raise BrokenFileError(f"there is no member at byte {info.header_offset}")
        _, name_bytes, extra_bytes = LOCAL_HEADER.unpack(header)
        start: int = info.header_offset + LOCAL_HEADER.size + name_bytes + extra_bytes
        if start + info.compress_size > len(self._data):
            raise BrokenFileError(
                "it reaches beyond the end of the file",
                expected=f"an end at or before byte {len(self._data)}",
                received=start + info.compress_size,
            )
        return start

    def _check_overlaps(self) -> None:
        """No two members may share bytes: what is read in all is no more than what is there."""
        end = 0
        for member in sorted(self._members.values(), key=lambda member: member.start):
            if member.stored and member.start < end:
                raise self._error(
                    member.name, BrokenFileError("its bytes overlap those of another member")
                )
            end = max(end, member.start + member.stored)

    def _dtype(self, member: Member, extended: str | None) -> dtypes.DType:
        """The dtype of a member's values, which numpy may not have."""
        try:
            if member.dtype.kind != "V" or member.dtype.names is not None:
                return dtypes.of_numpy(member.dtype)
            if extended is None:
                raise UnsupportedError(
                    f"its dtype {member.dtype} says nothing of what its bits mean",
                    expected=f"the dtype's name in {METADATA_NAME}, as slimtune writes it",
                )
            dtype = dtypes.of_name(extended)
            if dtype.is_string or dtype.numpy.itemsize != member.dtype.itemsize:
                raise BrokenFileError(
                    f"its dtype cannot be {extended}",
                    expected=f"{member.dtype.itemsize} bytes a value",
                )
        except SlimtuneError as error:
            raise self._error(member.name, error) from error
        return dtype

    def _read_metadata(self, member: Member | None) -> tuple[dict[str, str], dict[str, str]]:
        """Metadata and the names of dtypes that numpy lacks."""
        if member is None:
            return {}, {}
        try:
            if member.dtype.kind not in "SU" or member.shape or member.size > MAX_METADATA_BYTES:
                raise BrokenFileError("it is no text")
            (text,) = self._strings(member, self._values(member))
            said = json.loads(text)
            parts = [said.get(key, {}) for key in ("metadata", "dtypes")]
        except (ValueError, RecursionError, AttributeError) as error:
            raise self._error(METADATA_NAME, BrokenFileError("it is no JSON object")) from error
        except BrokenFileError as error:
            raise self._error(METADATA_NAME, error) from error
        if not all(isinstance(part, dict) and _is_text(part) for part in parts):
            raise self._error(METADATA_NAME, BrokenFileError("it is not text by key"))
        return parts[0], parts[1]

    def _values(self, member: Member) -> npt.NDArray[Any]:
        """The values in the order of the file, in its dtype, as a 1-D array."""
        data = self._data[member.start : member.start + member.stored]
        try:
            if member.is_deflated:
                data = _inflated(data, member.size)
                if len(data) != member.size:
                    raise BrokenFileError("its deflated bytes end early")
            if self._verify_checksums and zlib.crc32(data) != member.crc:
                raise BrokenFileError("the checksum does not match the bytes")
        except BrokenFileError as error:
            raise self._error(member.name, error) from error
        count = math.prod(member.shape)
        if not count:
            return np.empty(0, member.dtype)
        values: npt.NDArray[Any] = np.frombuffer(data, member.dtype, count, member.values_start)
        return values

    def _strings(self, member: Member, flat: npt.NDArray[Any]) -> list[bytes]:
        """Bytes, or text as UTF-8, in C order."""
        if member.is_fortran:
            flat = flat.reshape(member.shape, order="F").reshape(-1)
        if flat.dtype.kind == "S":
            values: list[bytes] = flat.tolist()
            return values
        # numpy's own way to text does not survive what is no text.
        data, width = flat.astype(flat.dtype.newbyteorder("<")).tobytes(), flat.dtype.itemsize
        try:
            return [
                data[start : start + width].decode("utf-32-le").rstrip("\0").encode("utf-8")
                for start in range(0, len(data), width)
            ]
        except UnicodeError as error:
            raise self._error(member.name, BrokenFileError("it holds no valid text")) from error

    def _error(self, name: str, error: SlimtuneError) -> SlimtuneError:
        kind = UnsupportedError if isinstance(error, UnsupportedError) else CheckpointError
        message = error.message[0].lower() + error.message[1:].rstrip(".")
        return kind(
            f"{self._path}: variable {name} cannot be read: {message}.",
            expected=error.expected,
            received=error.received,
            next_step=error.next_step or (_NEXT_STEP if kind is CheckpointError else _AS_NUMBERS),
        )


def _inflated(data: memoryview, limit: int) -> memoryview:
    """Deflated bytes inflated, at most `limit` of them."""
    try:
        return memoryview(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, limit))
    except zlib.error as error:
        raise BrokenFileError(f"its deflated bytes are damaged ({error})") from error


def _is_text(part: dict[str, Any]) -> bool:
    return all(isinstance(value, str) for value in part.values())
