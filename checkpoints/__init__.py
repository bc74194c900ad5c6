"""Variables as files: every checkpoint form read, written, compared, matched with a net.

Nothing here imports TensorFlow. Names load their module on first use, so that importing
the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "Checkpoint": "checkpoints.api",
    "Family": "checkpoints.family",
    "SavedVariables": "checkpoints.mapping",
    "Selection": "checkpoints.selection",
    "Slicing": "checkpoints.slicing",
    "Variable": "checkpoints.tensors",
    "average": "checkpoints.averaging",
    "diff": "checkpoints.comparing",
    "download": "checkpoints.downloading",
    "latest": "checkpoints.family",
    "open": "checkpoints.api",
    "resolve": "checkpoints.family",
    "select": "checkpoints.selection",
    "verify": "checkpoints.verifying",
    "write": "checkpoints.api",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
