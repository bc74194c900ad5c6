"""Cleaning many picture files in worker processes. Only short answers cross between them."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from checkpoints.errors import DataError
from finetune.picture_formats import PictureError
from finetune.pictures import clean_bytes, read_picture_file

_BATCH = 16
_FEW_PICTURES = 64
"""So few are cleaned before a second process would have started."""

_WAITING_BATCHES = 4
_DIGEST_BYTES = 16


class Cleaned(NamedTuple):
    """A usable picture.

    Attributes:
      item: its place in the list of paths.
      digest: the first 16 bytes of the SHA-256 of its file.
      encoding: of the stored bytes where they differ from the file's, else empty.
      format: "jpeg" or "png".
      height: in pixels.
      width: in pixels.
      size: of the stored bytes.
      changes: what was done to it.
      spool: the file in the spool directory that holds the stored bytes; empty where they are
        the first `size` bytes of the picture's own file.
      offset: where in that file.
    """

    item: int
    digest: bytes
    encoding: bytes
    format: str
    height: int
    width: int
    size: int
    changes: tuple[str, ...]
    spool: str
    offset: int


class Rejected(NamedTuple):
    """A picture that cannot be used.

    Attributes:
      item: its place in the list of paths.
      kind: as in PictureError.
      detail: the reason.
    """

    item: int
    kind: str
    detail: str


def clean_all(
    root: Path,
    paths: Sequence[str],
    spool: Path | None,
    processes: int | None,
    max_side: int | None,
) -> Iterator[Cleaned | Rejected]:
    """Cleans files and answers in their order, a few batches ahead.

    Args:
      root: what the paths are relative to.
      paths: the files.
      spool: an empty directory for re-encoded pictures, or None where only the answers count.
      processes: worker processes; None: as many as there are cores, none for few pictures.
      max_side: as for `finetune.pictures.clean`.

    Raises:
      DataError: a worker process died.
    """
    batches = [(start, paths[start : start + _BATCH]) for start in range(0, len(paths), _BATCH)]
    if processes is None:
        processes = 1 if len(paths) <= _FEW_PICTURES else available_cores()
    processes = min(processes, len(batches))
    if processes <= 1:
        for start, batch in batches:
            yield from _clean_batch(str(root), start, batch, spool, max_side)
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_ignore_interrupts
    ) as pool:
        waiting: deque[Future[list[Cleaned | Rejected]]] = deque()
        try:
            for start, batch in batches:
                waiting.append(pool.submit(_clean_batch, str(root), start, batch, spool, max_side))
                if len(waiting) >= processes * _WAITING_BATCHES:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool as err:
            raise DataError(
                "A worker process died while it cleaned pictures.",
                expected='enough memory; in a script of your own, if __name__ == "__main__":',
                received=err,
                next_step="Use one process (--processes 1) to see where it stops.",
            ) from err
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def available_cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ignore_interrupts() -> None:
    # An interrupt reaches the whole process group; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _clean_batch(
    root: str, start: int, paths: Sequence[str], spool: Path | None, max_side: int | None
) -> list[Cleaned | Rejected]:
    return [
        _clean_one(root, start + place, path, spool, max_side) for place, path in enumerate(paths)
    ]


def _clean_one(
    root: str, item: int, path: str, spool: Path | None, max_side: int | None
) -> Cleaned | Rejected:
    full = Path(root, path)
    try:
        data = read_picture_file(full)
        picture = clean_bytes(str(full), data, max_side)
    except PictureError as error:
        return Rejected(item, error.kind, error.detail)
    digest = hashlib.sha256(data).digest()[:_DIGEST_BYTES]
    spool_name, offset, encoding = "", 0, b""
    if not data.startswith(picture.encoded):
        encoding = hashlib.sha256(picture.encoded).digest()[:_DIGEST_BYTES]
        if spool is not None:
            spool_name = f"{os.getpid()}"
            with (spool / spool_name).open("ab") as file:
                offset = file.tell()
                file.write(picture.encoded)
    return Cleaned(
        item,
        digest,
        encoding,
        picture.format,
        picture.height,
        picture.width,
        len(picture.encoded),
        picture.changes,
        spool_name,
        offset,
    )
