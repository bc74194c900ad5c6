"""Fixtures that every test may use."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real pictures and models that lies beside the repository.

    On a user's machine it is absent and the test skips; where SLIMTUNE_REQUIRE_SHARED is
    set, its absence fails.
    """
    folder = Path(os.environ.get("SLIMTUNE_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        if os.environ.get("SLIMTUNE_REQUIRE_SHARED"):
            pytest.fail(f"SLIMTUNE_REQUIRE_SHARED is set and {folder}/data is not there.")
        pytest.skip("the shared pictures and models are not beside this repository")
    return folder


@pytest.fixture
def http_server() -> Iterator[Any]:
    """A web server on 127.0.0.1 that serves bytes and misbehaves as told: tests/http_server.py."""
    name = "slimtune_http_server"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, REPOSITORY / "tests/http_server.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    with sys.modules[name].serve() as server:
        yield server


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
