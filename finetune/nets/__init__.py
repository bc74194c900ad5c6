"""Nets: their builders, and graphs made of them. Records of them stand in checkpoints.published."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "BuiltNet": "finetune.nets.build",
    "build_net": "finetune.nets.build",
    "inference_graph": "finetune.nets.build",
    "net_variables": "finetune.nets.build",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
