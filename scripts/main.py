"""The command `slimtune`: the table of its verbs, and what holds from its first moment on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

COMMANDS: dict[str, str] = {
    "inspect": "scripts.commands.inspect",
    "verify": "scripts.commands.verify",
    "diff": "scripts.commands.diff",
    "average": "scripts.commands.average",
    "nets": "scripts.commands.nets",
    "download": "scripts.commands.download",
    "data": "scripts.commands.data",
    "plan": "scripts.commands.plan",
    "train": "scripts.commands.train",
    "evaluate": "scripts.commands.evaluate",
    "convert": "scripts.commands.convert",
    "formats": "scripts.commands.formats",
    "predict": "scripts.commands.predict",
    "features": "scripts.commands.features",
    "compare": "scripts.commands.compare",
    "mnist": "scripts.commands.mnist",
    "report": "scripts.commands.report",
    "demo": "scripts.commands.demo",
    "classic": "scripts.commands.classic",
    "bench": "scripts.commands.bench",
    "doctor": "scripts.commands.doctor",
    "completion": "scripts.commands.completion",
}
"""Verb -> the module that holds it as `command`, loaded when its help or itself is wanted."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb and exits: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    try:
        # Loading takes a while, in which somebody may change their mind.
        from scripts.command_line import run

        # A checkpoint of 100,000 variables is a million objects and no cycle. To look for cycles
        # after every 700 new ones, as Python does, took a fifth of the time.
        gc.set_threshold(50_000, 20, 20)
        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
