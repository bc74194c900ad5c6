"""Runs and times one Step. Run as a program: `python -m scripts.bench.step FUNCTION REPEAT [ARGUMENT ...]`."""

from __future__ import annotations

import importlib
import json
import sys
import time


def main() -> None:
    """Prints {"seconds": [...], "result": ...} as the last line of stdout."""
    name, repeat, *arguments = sys.argv[1:]
    module, _, function = name.partition(":")
    step = getattr(importlib.import_module(module), function)(*arguments)
    step()
    seconds = []
    for _ in range(int(repeat)):
        start = time.perf_counter()
        result = step()
        seconds.append(time.perf_counter() - start)
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "result": result}) + "\n")


if __name__ == "__main__":
    main()
