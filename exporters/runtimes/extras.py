"""Packages that slimtune does without until somebody needs them."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

from checkpoints.errors import UnsupportedError

EXTRAS = {
    "ai_edge_litert": "litert",
    "apache_beam": "beam",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "tf2onnx": "onnx",
}
"""Package -> the extra of slimtune that brings it."""


def is_installed(package: str) -> bool:
    """Whether a package is there, without loading it."""
    return importlib.util.find_spec(package) is not None


def refuse_missing(*packages: str) -> None:
    """Raises UnsupportedError where packages of extras are not installed, without loading them."""
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        raise _missing(missing)


def load_extra(module: str) -> Any:
    """Imports a module of a package that an extra brings.

    Raises:
      UnsupportedError: it is not installed; the message says how to.
    """
    refuse_missing(module.partition(".")[0])
    with warnings.catch_warnings():
        # What others deprecate among themselves is nothing that our users could change.
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def _missing(packages: list[str]) -> UnsupportedError:
    extras = sorted({EXTRAS[name] for name in packages})
    return UnsupportedError(
        f"This needs {' and '.join(packages)}, which slimtune does without otherwise.",
        received="not installed",
        next_step=f"pip install 'slimtune[{','.join(extras)}]'",
    )
