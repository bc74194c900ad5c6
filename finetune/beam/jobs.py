"""Numbered jobs: their orders and answers, in files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import checkpoints.errors
from checkpoints.errors import AccessError, DataError, SlimtuneError
from checkpoints.progress import Task
from finetune.beam.options import BeamOptions
from finetune.beam.pipeline import ANSWERS, ERRORS, ORDERS, Work, file_of, run_pipeline
from finetune.cloud.paths import CloudPath, Place
from finetune.cloud.places import list_names, new_file, remove_below

_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_BETWEEN_LISTINGS = 20.0
"""In cloud storage, where listing costs."""


class Jobs:
    """Jobs of one kind. Their orders are written first, then all are run, then answers are read."""

    def __init__(self, folder: Place, options: BeamOptions) -> None:
        """Keeps files in `folder`, which all workers reach."""
        self._folder = folder
        self._options = options
        self._sizes: list[int] = []

    def add(self, order: Iterable[bytes], size: int) -> None:
        """Writes the next job's order, lines without ends; `size` is what it counts for in `run`."""
        with new_file(file_of(self._folder, ORDERS, len(self._sizes))) as file:
            for line in order:
                file.write(line + b"\n")
        self._sizes.append(size)

    def run(self, work: Work, settings: dict[str, Any], task: Task) -> None:
        """Has all jobs done.

        Args:
          work: does one of them.
          settings: what is the same for all, as it may stand in JSON.
          task: is advanced by the size of each job that is done.

        Raises:
          SlimtuneError: what a job raised, the first by number.
          DataError: Beam gave up.
        """
        with self._advancing(task):
            run_pipeline(work, settings, self._folder, len(self._sizes), self._options)
        self._raise_errors()

    def answers(self) -> Iterator[Iterator[bytes]]:
        """The lines of each job's answer, in order."""
        for number in range(len(self._sizes)):
            with file_of(self._folder, ANSWERS, number).open("rb") as file:
                yield (line.rstrip(b"\n") for line in file)

    def remove(self) -> None:
        """Removes all files."""
        for kind in (ORDERS, ANSWERS, ERRORS):
            remove_below(self._folder / kind)

    def _raise_errors(self) -> None:
        names = sorted(list_names(self._folder / ERRORS))
        if names:
            with (self._folder / ERRORS / names[0]).open("rb") as file:
                told = json.loads(file.read())
            raise _as_error(told)

    @contextmanager
    def _advancing(self, task: Task) -> Iterator[None]:
        """Looks meanwhile which answers are there: not every engine tells how far it is."""
        seen: set[str] = set()

        def look() -> None:
            # What keeps it from looking keeps the jobs from their work, and they tell it.
            with suppress(SlimtuneError, OSError):
                new = set(list_names(self._folder / ANSWERS)) - seen
                seen.update(new)
                task.advance(sum(self._sizes[int(name)] for name in new))

        def look_again() -> None:
            is_far = isinstance(self._folder, CloudPath)
            seconds = _SECONDS_BETWEEN_LISTINGS if is_far else _SECONDS_BETWEEN_LOOKS
            while not ended.wait(seconds):
                look()

        ended = threading.Event()
        thread = threading.Thread(target=look_again, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        look()


def _as_error(told: dict[str, Any]) -> SlimtuneError:
    """The error that `as_json` was of."""
    kind: type[SlimtuneError] = getattr(checkpoints.errors, told["type"], DataError)
    parts = {"expected": told["expected"], "next_step": told["next"]}
    if issubclass(kind, AccessError):
        return kind(told["message"], OSError(None, told["received"]), **parts)
    return kind(told["message"], received=told["received"], **parts)
