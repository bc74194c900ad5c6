"""Graphs as files: read any, prune, freeze, write, verify.

The file half does not import TensorFlow. Names load their module on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS: dict[str, str] = {
    "GraphRunner": "exporters.runtime",
    "Metadata": "exporters.metadata",
    "ModelOptions": "exporters.options",
    "convert": "exporters.conversion",
    "diff": "exporters.inspecting.graph_diff",
    "freeze": "exporters.api",
    "inspect": "exporters.inspecting.inspection",
    "read_graph": "exporters.graph",
    "read_metadata": "exporters.metadata",
    "thaw": "exporters.api",
    "verify": "exporters.inspecting.graph_check",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
