"""What is known of the usable pictures of a large source, in 70 bytes each."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, overload

from finetune.datasets.cleaning import Cleaned

_ROW = struct.Struct("<q16s16sIIqqIII")
"""Item, digest, encoding, height, width, size, offset; places of format, changes and spool."""

_ITEM_AND_DIGEST = struct.Struct("<q16s")


class CleanedPictures(Sequence[Cleaned]):
    """Cleaned pictures in the order in which they were added.

    A Cleaned takes five times as much memory as its row here, and 100,000 of them show.
    """

    def __init__(self) -> None:
        """Holds none."""
        self._rows = bytearray()
        self._values: list[Any] = []
        self._places: dict[Any, int] = {}

    def append(self, picture: Cleaned) -> None:
        """Adds one."""
        shared = (self._shared(v) for v in (picture.format, picture.changes, picture.spool))
        self._rows += _ROW.pack(
            picture.item,
            picture.digest,
            picture.encoding,
            picture.height,
            picture.width,
            picture.size,
            picture.offset,
            *shared,
        )

    def _shared(self, value: Any) -> int:
        """The place of one of the few values that many pictures have in common."""
        place = self._places.setdefault(value, len(self._values))
        if place == len(self._values):
            self._values.append(value)
        return place

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    @overload
    def __getitem__(self, place: int) -> Cleaned: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Cleaned]: ...
    def __getitem__(self, place: int | slice) -> Cleaned | Sequence[Cleaned]:
        if isinstance(place, slice):
            return self.picked(range(*place.indices(len(self))))
        if not 0 <= place < len(self):
            raise IndexError(place)
        item, digest, encoding, height, width, size, offset, *shared = _ROW.unpack_from(
            self._rows, place * _ROW.size
        )
        kind, changes, spool = (self._values[shared_place] for shared_place in shared)
        # A picture that is kept as it is has no digest of its own encoding.
        encoding = encoding if any(encoding) else b""
        return Cleaned(item, digest, encoding, kind, height, width, size, changes, spool, offset)

    def item(self, place: int) -> int:
        """The picture's place in the source."""
        return int(_ITEM_AND_DIGEST.unpack_from(self._rows, place * _ROW.size)[0])

    def digest(self, place: int) -> bytes:
        """The digest of the picture's file."""
        found: bytes = _ITEM_AND_DIGEST.unpack_from(self._rows, place * _ROW.size)[1]
        return found

    def by_digest(self) -> Sequence[int]:
        """The places in the order of the digests; pictures of one digest as they were added."""
        # By the first byte first: sorting all at once would hold all their digests once more.
        buckets = [array("q") for _ in range(256)]
        for place in range(len(self)):
            buckets[self.digest(place)[0]].append(place)
        order = array("q")
        for bucket in buckets:
            order.extend(sorted(bucket, key=self.digest))
        return order

    def repeated(self) -> Iterator[list[int]]:
        """The places of pictures with the same digest, in groups of two and more."""
        groups = (list(places) for _, places in groupby(self.by_digest(), self.digest))
        return iter(sorted(places for places in groups if len(places) > 1))

    def picked(self, places: Sequence[int]) -> Sequence[Cleaned]:
        """Some of them, in the order given."""
        return _Picked(self, places)


class _Picked(Sequence[Cleaned]):
    """Pictures of a CleanedPictures, made when they are asked for."""

    def __init__(self, pictures: CleanedPictures, places: Sequence[int]) -> None:
        self._pictures = pictures
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Cleaned: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Cleaned]: ...
    def __getitem__(self, place: int | slice) -> Cleaned | Sequence[Cleaned]:
        if isinstance(place, slice):
            return _Picked(self._pictures, self._places[place])
        return self._pictures[self._places[place]]
