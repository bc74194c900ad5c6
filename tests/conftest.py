"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

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
