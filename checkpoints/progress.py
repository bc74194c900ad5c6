"""How long work tells that it goes on. The command line draws it; the library is silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Task(Protocol):
    """One piece of work under way."""

    def advance(self, amount: int = 1) -> None:
        """Says that `amount` more units are done."""

    def note(self, text: str) -> None:
        """Sets the short text shown beside the bar, as in "loss 0.31"."""


class Progress(Protocol):
    """Where work says how far it is."""

    def say(self, text: str) -> None:
        """One line worth knowing: a choice made, a name resolved, a file skipped."""

    @contextmanager
    def task(self, description: str, total: int | None, unit: str = "") -> Iterator[Task]:
        """A task of `total` units (None: unknown); `unit` is a plural, or "bytes"."""
        ...


class _Silent:
    def say(self, text: str) -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    @contextmanager
    def task(self, description: str, total: int | None, unit: str = "") -> Iterator[Task]:
        yield self


SILENT: Progress = _Silent()
"""Says nothing: the default of every library function."""


class Notes:
    """A Progress that keeps what it is told, and passes it on.

    Attributes:
      lines: what was said.
    """

    def __init__(self, progress: Progress = SILENT) -> None:
        self.lines: list[str] = []
        self.task = progress.task
        self._progress = progress

    def say(self, text: str) -> None:
        """Keeps a line, and passes it on."""
        self.lines.append(text)
        self._progress.say(text)
