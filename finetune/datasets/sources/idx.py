"""The IDX files that MNIST comes in, packed with gzip or not.

An IDX file: two zero bytes, the type (8: uint8), the number of dimensions, each dimension as
four bytes, then the values; all big-endian. A directory holds pictures and labels of `train` and
of `t10k`. The first twelfth of the training pictures validates: of MNIST's 60,000 the first
5,000, so that 55,000 train. Format: docs/formats/idx-and-cifar.md.
"""

from __future__ import annotations

import functools
import gzip
import re
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.errors import DataError, NotFoundError
from checkpoints.progress import SILENT, Progress
from finetune.datasets.dataset import SPLITS
from finetune.datasets.labels import LABELS_FILE, read_labels_file
from finetune.datasets.picture_formats import PictureError
from finetune.datasets.sources import Source, SourceItem
from finetune.datasets.sources.names import number_names, safe_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

VALIDATION_SHARE = 12
"""One training picture in so many validates: 5,000 of MNIST's 60,000."""

_FILE = re.compile(r"(train|t10k|test)-(images[-.]idx3|labels[-.]idx1)-ubyte(\.gz)?")
_MOST_UNPACKED = 1032
"""Bytes that one byte of gzip can stand for."""

_Key = tuple[Path, int, int]


def recognises(path: Path) -> bool:
    """Whether a directory holds a file named as MNIST's are."""
    return path.is_dir() and bool(_find_files(path))


def read_source(root: Path, depth: int = 1, progress: Progress = SILENT) -> Source:
    """Reads the labels; pictures are cut out when they are wanted.

    Raises:
      DataError: a file is missing or damaged, or pictures and labels do not fit.
    """
    files = _find_files(root)
    items: list[SourceItem] = []
    lines: list[str] = []
    highest = 0
    for part in sorted({part for part, _ in files}, reverse=True):
        images, labels = _pair(root, part, files)
        (count, height, width), _ = _of_rank(images, 3, "pictures")
        (num_labels,), values = _of_rank(labels, 1, "labels")
        if count != num_labels:
            raise DataError(
                f"{images} and {labels} do not fit together.",
                expected=f"{count} labels for {count} pictures",
                received=f"{num_labels} labels",
                next_step="Get both files from the same place.",
            )
        held_back = count // VALIDATION_SHARE if part == "train" else 0
        for number, label in enumerate(values):
            split = "test" if part != "train" else "val" if number < held_back else "train"
            items.append(SourceItem(f"{images.name}:{number}", label, split))
            highest = max(highest, label)
        lines.append(f"  {images.name}  {count} pictures of {height} x {width}")
    if not items:
        raise DataError(f"{root}: the IDX files hold no pictures.", next_step="Get others.")
    splits = {item.split for item in items}
    return Source(
        root=root,
        name=safe_name(root),
        classes=_class_names(root, highest),
        items=items,
        splits=tuple(split for split in SPLITS if split in splits),
        ignored=(),
        outline="\n".join([f"{root}/", *lines]),
        described="IDX files",
        reader="idx",
    )


def read_item(root: Path, path: str) -> bytes:
    """One picture, as the bytes of a grey PGM file.

    Raises:
      PictureError: the file is no longer what it was.
    """
    name, _, number = path.rpartition(":")
    try:
        (count, height, width), values = _of_rank(root / name, 3, "pictures")
    except DataError as err:
        raise PictureError(str(root / path), "damaged", err.message) from err
    start = int(number) * height * width
    if int(number) >= count:
        raise PictureError(str(root / path), "damaged", "is no longer in the file")
    return b"P5 %d %d 255\n" % (width, height) + values[start : start + height * width]


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The values of an IDX file of bytes, packed with gzip or not.

    Returns:
      uint8, not to be written to: [count, height, width] of pictures, [count] of labels.

    Raises:
      NotFoundError: the file is not there.
      DataError: it is no IDX file, cut, too long, or of other values than bytes.
    """
    import numpy as np

    shape, values = _contents(_key(Path(path)))
    return np.frombuffer(values, np.uint8).reshape(shape)


def _find_files(root: Path) -> dict[tuple[str, str], Path]:
    """(train or t10k, images or labels) -> file; one that is not packed is preferred."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(root.iterdir(), reverse=True):
        match = _FILE.fullmatch(path.name)
        if match and path.is_file():
            found["train" if match[1] == "train" else "t10k", match[2][:6]] = path
    return found


def _pair(root: Path, part: str, files: dict[tuple[str, str], Path]) -> tuple[Path, Path]:
    images, labels = files.get((part, "images")), files.get((part, "labels"))
    if images is None or labels is None:
        missing = f"{part}-images-idx3-ubyte" if images is None else f"{part}-labels-idx1-ubyte"
        raise DataError(
            f"{root} lacks {missing}.",
            expected="pictures and labels, packed with gzip or not",
            received=str((images or labels or root).name),
            next_step="Put the file there, or move the other one away.",
        )
    return images, labels


def _class_names(root: Path, highest: int) -> tuple[str, ...]:
    """The lines of labels.txt where there is one, else the numbers."""
    path = root / LABELS_FILE
    if not path.is_file():
        return number_names(highest)
    names = read_labels_file(path)
    if highest >= len(names):
        raise DataError(
            f"{path} names {len(names)} classes; the labels go up to {highest}.",
            expected=f"{highest + 1} lines or more",
            next_step="Correct or remove it; without it classes are called by their numbers.",
        )
    return names


def _key(path: Path) -> _Key:
    try:
        status = path.stat()
    except FileNotFoundError as err:
        raise NotFoundError(f"{path} is not there.") from err
    if path.is_dir():
        raise DataError(
            f"{path} is a directory.", expected="one IDX file", next_step="Name a file inside it."
        )
    return path, status.st_size, status.st_mtime_ns


def _of_rank(path: Path, rank: int, what: str) -> tuple[tuple[int, ...], bytes]:
    """Shape and values of a file that must have so many dimensions."""
    shape, values = _contents(_key(path))
    if len(shape) != rank:
        raise DataError(
            f"{path} does not hold {what}.",
            expected=f"{rank} dimensions" if rank > 1 else "1 dimension",
            received=f"{len(shape)}: {' x '.join(map(str, shape))}",
            next_step="Look whether the files of pictures and of labels have each other's names.",
        )
    return shape, values


@functools.lru_cache(maxsize=4)
def _contents(key: _Key) -> tuple[tuple[int, ...], bytes]:
    """Shape and values of a file. Kept while the file is as it was, for its pictures come singly."""
    path, size, _ = key
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:3] != b"\0\0\x08" or head[3] not in (1, 3):
                raise _broken(
                    path,
                    "is no IDX file of bytes",
                    "00 00 08 and 01 or 03",
                    f"a file that begins with {head.hex(' ') or 'nothing'}",
                )
            dimensions = file.read(4 * head[3])
            if len(dimensions) < 4 * head[3]:
                raise _broken(path, "is cut", "its dimensions", "the end of the file")
            shape = struct.unpack(f">{head[3]}I", dimensions)
            expected = functools.reduce(int.__mul__, shape)
            if expected > size * (_MOST_UNPACKED if path.suffix == ".gz" else 1):
                raise _broken(path, "is cut", f"{expected} bytes for {shape}", f"{size} bytes")
            values = file.read(expected + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as err:
        raise _broken(path, "is cut or damaged", "gzip to its end", str(err)) from err
    if len(values) != expected:
        received = f"{len(values)} bytes" if len(values) < expected else "more bytes"
        raise _broken(path, "has another length", f"{expected} bytes for {shape}", received)
    return shape, values


def _broken(path: Path, what: str, expected: str, received: str) -> DataError:
    return DataError(
        f"{path} {what}.", expected=expected, received=received, next_step="Get the file again."
    )
