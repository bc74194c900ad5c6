"""Drawn pictures to try everything with, and the small net that was pretrained on others."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS: dict[str, str] = {
    "Drawn": "finetune.sample.drawn",
    "write_digits": "finetune.sample.digits",
    "write_flowers": "finetune.sample.flowers",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
