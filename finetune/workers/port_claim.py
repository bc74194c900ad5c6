"""Which process of a machine has which port, agreed on before any listens.

A port cannot say so itself: gRPC lets several servers share one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

_CLAIMS: list[IO[bytes]] = []
"""Files that are locked as long as this process lives."""


def claim_port(port: int) -> bool:
    """Takes a port for this process until it ends; False where another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows, where one list cannot name several processes of a machine
        return True
    file = (Path(tempfile.gettempdir()) / f"slimtune-port-{port}.lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _CLAIMS.append(file)
    return True
