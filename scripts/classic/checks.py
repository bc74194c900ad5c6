"""What is wrong with a script's flags before it does anything: empty words, numbers, paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.errors import NotFoundError, SlimtuneError, UsageError

if TYPE_CHECKING:
    from scripts.classic.flags import Flag

_READ = {
    "file": "a file",
    "graph": "a file with a graph",
    "directory": "a directory",
    "dataset": "a dataset's directory",
}
"""What a flag names that is read -> what is expected there."""


def check_flags(flags: Sequence[Flag], values: Mapping[str, Any]) -> None:
    """Looks at the values of all flags that have an effect.

    Raises:
      UsageError: a word is empty that names something, or a number is none or out of range.
      NotFoundError: there is nothing where a file or a directory is to be read.
      SlimtuneError: something else is where a file or a directory is to be read or written.
    """
    for flag in flags:
        value = values[flag.name]
        if isinstance(value, str) and not value:
            _refuse_empty(flag)
        elif isinstance(value, float) and not math.isfinite(value):
            raise UsageError(
                f"--{flag.name} is no finite number.",
                expected="a number, as in 0.5",
                received=f"--{flag.name}={value}",
                next_step=f"Without the flag it is {flag.default}.",
            )
        elif flag.least is not None and value is not None and value < flag.least:
            raise UsageError(
                f"--{flag.name} counts from {flag.least}.",
                expected=f"a number from {flag.least}",
                received=f"--{flag.name}={value}",
                next_step="Say a higher one, or leave the flag out.",
            )
    for flag in flags:
        if flag.path and values[flag.name]:
            _check_path(flag, Path(values[flag.name]))


def _refuse_empty(flag: Flag) -> None:
    is_name = flag.required or flag.default not in ("", None)
    if is_name or (flag.path and flag.default is None):
        raise UsageError(
            f"--{flag.name} is empty and names nothing.",
            expected=f"--{flag.name}={'PATH' if flag.path else 'NAME'}",
            received=f"--{flag.name}=",
            next_step="Say it." if flag.required else "Say it, or leave the flag out.",
        )


def _check_path(flag: Flag, path: Path) -> None:
    received = f"--{flag.name}={path}"
    if flag.path in _READ:
        expected = _READ[flag.path]
        if not path.exists():
            raise NotFoundError(
                f"{path} is not there.",
                expected=expected,
                received=received,
                next_step=f"Name what is there: --{flag.name}=PATH",
            )
        own = path / "inference_graph.pb"
        if flag.path == "graph" and path.is_dir() and own.is_file():
            raise UsageError(
                f"{path} is a run, not a graph.",
                expected=expected,
                received=received,
                next_step=f"--{flag.name}={own}",
            )
        if path.is_dir() if flag.path == "file" else flag.path == "directory" and path.is_file():
            _refuse_kind(path, expected, received, flag)
    elif flag.path in ("output", "output directory"):
        if flag.path == "output" and path.is_dir():
            _refuse_kind(path, "a file, or a name that is free", received, flag)
        if flag.path == "output directory" and path.is_file():
            _refuse_kind(path, "a directory, or a name that is free", received, flag)
        for parent in path.parents:
            if parent.is_file():
                _refuse_kind(parent, "a directory", received, flag)


def _refuse_kind(path: Path, expected: str, received: str, flag: Flag) -> None:
    kind = "a directory" if path.is_dir() else "a file"
    raise SlimtuneError(
        f"{path} is {kind}.",
        expected=expected,
        received=received,
        next_step=f"Name another place: --{flag.name}=PATH",
    )
