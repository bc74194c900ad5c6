"""Fixtures of the tests of checkpoints/."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Heard:
    """A Progress that remembers what it was told.

    Attributes:
      said: the lines.
      total: of the last task.
      advanced: what tasks advanced by.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.total: int | None = None
        self.advanced: list[int] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def note(self, text: str) -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        self.advanced.append(amount)

    @contextmanager
    def task(self, description: str, total: int | None, unit: str = "") -> Iterator[Heard]:
        self.total = total
        yield self


@pytest.fixture
def heard() -> Heard:
    return Heard()
