"""The hidden names under which outputs are written before they get their own.

A name says whose it is: `.NAME.HOST PROCESS CHANCE.partial`, without the blanks: 4, 6 and 6
hexadecimal digits. What a process that was killed left behind is known by that, and removed when
the same place is written next.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

PARTIAL = re.compile(
    r"\.(?P<name>[^/]{1,255})\.(?P<host>[0-9a-f]{4})(?P<process>[0-9a-f]{6})[0-9a-f]{6}\.partial"
)
"""A temporary name; names of files have no more than 255 bytes."""

# A checkpoint's files lie in a directory of a temporary name, and have the checkpoint's name there.
# In a message a full stop after a word begins no name: a sentence before one stays whole, and a
# name of a million full stops, which a file may hold, does not take minutes.
_IN_A_PATH = re.compile(r"(?<![\w.])" + PARTIAL.pattern + r"(/(?P=name)(?![^\s.:,;'\"\-]))?")


def temporary_name(name: str) -> str:
    """A hidden name for an output of that name, which nobody else uses."""
    return f".{name}.{_host()}{os.getpid():06x}{os.urandom(3).hex()}.partial"


def without_temporary_names(text: str) -> str:
    """A path or a message as a person knows it: temporary names become what they stand for."""
    return _IN_A_PATH.sub(lambda found: found["name"], text)


def leftovers(path: Path) -> list[Path]:
    """What processes of this machine that are no more left half-written for an output."""
    begin = f".{path.name}."
    try:
        names = [entry.name for entry in os.scandir(path.parent) if entry.name.startswith(begin)]
    except OSError:  # there is no such directory yet, or nobody may look into it
        return []
    found = []
    for name in names:
        match = PARTIAL.fullmatch(name)
        if match is None or match["name"] != path.name or match["host"] != _host():
            continue
        if not is_alive(int(match["process"], 16)):
            found.append(path.with_name(name))
    return found


def remove_leftovers(path: Path) -> None:
    """Removes what `leftovers` finds."""
    import shutil

    for left in leftovers(path):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _host() -> str:
    # Every command loads this module, and the module platform takes its time.
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return f"{zlib.crc32(name.encode('utf-8', 'replace')) & 0xFFFF:04x}"


def is_alive(process: int) -> bool:
    """Whether a process of this machine is there, whoever it belongs to."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True
