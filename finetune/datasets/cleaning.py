"""Cleaning many picture files in worker processes. Only short answers cross between them.

The workers are plain processes that read batches of paths and write answers, a line of JSON
each. Unlike multiprocessing's they never run the caller's script again, so that a script needs
no guard, and a notebook or a program read from stdin works as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from checkpoints.cores import available_cores
from checkpoints.errors import DataError
from finetune.cloud.paths import Place, as_place
from finetune.datasets.picture_formats import PictureError
from finetune.datasets.pictures import clean_bytes
from finetune.datasets.sources import read_item

_BATCH = 16
_FEW_PICTURES = 64
"""So few are cleaned before a second process would have started."""

_WAITING_BATCHES = 4
"""Batches a worker may have before it; their answers fit into a pipe."""

_DETAIL_LENGTH = 200
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from finetune.datasets.cleaning import serve; serve()"
)


class Cleaned(NamedTuple):
    """A usable picture.

    Attributes:
      item: its place in the list of paths.
      digest: the `content_digest` of what the source holds of it.
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
    root: Place,
    paths: Sequence[str],
    spool: Path | None,
    processes: int | None,
    max_side: int | None,
    reader: str = "files",
) -> Iterator[Cleaned | Rejected]:
    """Cleans pictures and answers in their order, a few batches ahead.

    Args:
      root: what the paths are relative to.
      paths: of the source's items.
      spool: an empty directory for re-encoded pictures, or None where only the answers count.
      processes: worker processes; None: as many as there are cores, none for few pictures.
      max_side: as for `finetune.datasets.pictures.clean`.
      reader: of the source: what opens one item.

    Raises:
      DataError: a worker process died.
    """
    if processes is None:
        processes = 1 if len(paths) <= _FEW_PICTURES else available_cores()
    job = Job(str(root), None if spool is None else str(spool), max_side, reader)
    starts = range(0, len(paths), _BATCH)
    processes = min(processes, len(starts))
    if processes <= 1:
        for start in starts:
            yield from clean_batch(job, start, paths[start : start + _BATCH])
        return
    workers = [_Worker() for _ in range(processes)]
    waiting: deque[_Worker] = deque()
    try:
        for number, start in enumerate(starts):
            worker = workers[number % processes]
            worker.ask(job, start, paths[start : start + _BATCH])
            waiting.append(worker)
            if len(waiting) >= processes * _WAITING_BATCHES:
                yield from waiting.popleft().answers()
        while waiting:
            yield from waiting.popleft().answers()
    finally:
        for worker in workers:
            worker.stop()


class Job(NamedTuple):
    """What is the same for all pictures, as it is told to workers; the names are `clean_all`'s."""

    root: str
    spool: str | None
    max_side: int | None
    reader: str


class _Worker:
    """A process that cleans batches in the order in which they were asked for."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._asked: deque[Sequence[str]] = deque()

    def ask(self, job: Job, start: int, paths: Sequence[str]) -> None:
        line = json.dumps([job, start, paths])
        self._asked.append(paths)
        pipe = pipe_of(self._process.stdin)
        try:
            pipe.write(line.encode("ascii") + b"\n")
            pipe.flush()
        except BrokenPipeError:
            # It has died; `answers` finds no line and says so.
            return

    def answers(self) -> Iterator[Cleaned | Rejected]:
        line = pipe_of(self._process.stdout).readline()
        paths = self._asked.popleft()
        if not line:
            raise DataError(
                "A worker process died while it cleaned pictures.",
                expected=f"an answer about {paths[0]} to {paths[-1]}",
                received=f"exit {self._process.wait()}",
                next_step="Use one process (--processes 1) to see at which picture.",
            )
        yield from decode_answers(line)

    def stop(self) -> None:
        """Ends the process; what it still does, nobody waits for."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe_of(pipe).close()
        self._process.wait()


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """The pipe, which is there because it was asked for."""
    if pipe is None:
        raise DataError("A worker process has no pipe.")
    return pipe


def serve() -> None:
    """What a worker process does: a batch from stdin, its answers to stdout, until stdin ends."""
    # An interrupt reaches the whole process group; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not stand between the answers.
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        job, start, paths = json.loads(line)
        cleaned = clean_batch(Job(*job), start, paths)
        answers.write(encode_answers(cleaned) + b"\n")
        answers.flush()


def encode_answers(answers: Sequence[Cleaned | Rejected]) -> bytes:
    """Answers as a line of JSON, without its end."""
    return json.dumps(answers, default=bytes.hex).encode("ascii")


def decode_answers(line: bytes) -> Iterator[Cleaned | Rejected]:
    """What `encode_answers` was given."""
    for answer in json.loads(line):
        if len(answer) == len(Rejected._fields):
            yield Rejected(*answer)
            continue
        yield decode_cleaned(answer)


def decode_cleaned(answer: Sequence[Any]) -> Cleaned:
    """A Cleaned of what it is in JSON."""
    picture = Cleaned(*answer)
    return picture._replace(
        digest=bytes.fromhex(answer[1]),
        encoding=bytes.fromhex(answer[2]),
        format=sys.intern(picture.format),
        changes=tuple(sys.intern(change) for change in picture.changes),
    )


def content_digest(data: bytes) -> bytes:
    """The first 16 bytes of the SHA-256: pictures of the same one are the same."""
    return hashlib.sha256(data).digest()[:16]


def clean_batch(job: Job, start: int, paths: Sequence[str]) -> list[Cleaned | Rejected]:
    """Cleans pictures, the first of which has the place `start` in the source."""
    return [_clean_one(job, start + place, path) for place, path in enumerate(paths)]


def _clean_one(job: Job, item: int, path: str) -> Cleaned | Rejected:
    root = as_place(job.root)
    try:
        data = read_item(job.reader, root, path)
        picture = clean_bytes(str(root / path), data, job.max_side)
    except PictureError as error:
        return Rejected(item, error.kind, error.detail[:_DETAIL_LENGTH])
    digest = content_digest(data)
    spool_name, offset, encoding = "", 0, b""
    if not data.startswith(picture.encoded):
        encoding = content_digest(picture.encoded)
        if job.spool is not None:
            spool_name = f"{os.getpid()}"
            with Path(job.spool, spool_name).open("ab") as file:
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
