"""Runs mutated inputs through a reader in this process, under limits of time and memory."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from checkpoints.errors import SlimtuneError, VerificationError
from fuzzing.reader import Files, Reader

SECONDS = 2.0
"""What one input may take of a processor."""

WAITING = 15
"""So many times that by the clock: other programs may have the processor meanwhile."""

MEMORY = 256 << 20
"""What one input may take in address space; no input is as large as a tenth of it."""

_BATCH = 500
_PAGE = resource.getpagesize()


class Finding(NamedTuple):
    """An input on which a reader did something else than answer or raise an error of ours."""

    reader: str
    seed: int
    number: int
    what: str
    trace: str

    def __str__(self) -> str:
        again = (
            f"python tests/fuzz {self.reader} --seed {self.seed} --first {self.number} --count 1"
        )
        return f"{self.what}\n{self.trace}Again: {again}\n"


class _TooLongError(BaseException):
    """No Exception, so that nothing on the way takes it for one of its own."""


def files_of(reader: Reader, seeds: list[Files], seed: int, number: int) -> Files:
    """The files of one input: the same for the same seed and number."""
    random = Random(f"{reader.name} {seed} {number}")
    return reader.mutated(random.choice(seeds), seeds, random)


def run(reader: Reader, numbers: Iterable[int], seed: int = 0) -> list[Finding]:
    """Gives inputs to a reader; returns what was found, one finding a kind."""
    seeds = reader.seeds()
    found: dict[str, Finding] = {}
    place = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as folder,
        _alarm(),
        _limited() as renew,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        for done, number in enumerate(numbers):
            if done % _BATCH == 0:
                renew()
            # A directory of its own: files that are kept by name, size and time are never mixed up.
            directory = f"{folder}/{number}"
            files = files_of(reader, seeds, seed, number)
            _write(directory, files)
            error = _error_of(reader.reads[number % len(reader.reads)], Path(directory))
            if error is not None:
                kind, trace = error
                found.setdefault(kind, Finding(reader.name, seed, number, kind, trace))
            _remove(directory, files)
    return list(found.values())


def _write(directory: str, files: Files) -> None:
    os.mkdir(directory)  # noqa: PTH102 - os is several times as fast here, and so below
    for name, data in files.items():
        if "/" in name:
            os.makedirs(f"{directory}/{name.rpartition('/')[0]}", exist_ok=True)  # noqa: PTH103
        with open(f"{directory}/{name}", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(data)


def _remove(directory: str, files: Files) -> None:
    try:
        for name in files:
            os.unlink(f"{directory}/{name}")  # noqa: PTH108
        os.rmdir(directory)  # noqa: PTH106
    except OSError:
        # A directory in it, or what a reader wrote.
        shutil.rmtree(directory)


def _error_of(read: Callable[[Path], None], directory: Path) -> tuple[str, str] | None:
    """What a reader raised that it may not raise: its kind, by class and place; and all of it."""
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WAITING * SECONDS)
        try:
            read(directory)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except VerificationError as error:
        return _described(error)
    except SlimtuneError as error:
        str(error).encode("utf-8", "surrogateescape")
        return None
    except (Exception, _TooLongError) as error:  # noqa: BLE001 - these are the findings
        return _described(error)
    return None


def _described(error: BaseException) -> tuple[str, str]:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((f for f in reversed(frames) if "/site-packages/" not in f.filename), frames[-1])
    kind = f"{type(error).__name__} in {Path(last.filename).name}, {last.name}, line {last.lineno}"
    return kind, "".join(traceback.format_exception(error)[-12:])[-3000:]


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise _TooLongError(f"more than {SECONDS:g} s")

    before = {number: signal.signal(number, ring) for number in (signal.SIGALRM, signal.SIGPROF)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _limited() -> Iterator[Any]:
    """Limits the address space to what there is now and MEMORY more, anew on each call."""
    before = resource.getrlimit(resource.RLIMIT_AS)

    def renew() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))

    try:
        yield renew
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
