"""Runs and times one Step. Run as a program: `python -m scripts.bench.step FUNCTION REPEAT [ARGUMENT ...]`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from typing import Any


def main() -> None:
    """Prints {"seconds": [...], "result": ...} as the last line of stdout."""
    name, repeat, *arguments = sys.argv[1:]
    module, _, function = name.rpartition(":")
    step = getattr(_load(module), function)(*arguments)
    step()
    seconds = []
    for _ in range(int(repeat)):
        start = time.perf_counter()
        result = step()
        seconds.append(time.perf_counter() - start)
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "result": result}) + "\n")


def _load(module: str) -> Any:
    """A module by its name, or by its path where that ends in .py."""
    if not module.endswith(".py"):
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location("step_of_a_file", module)
    if spec is None or spec.loader is None:
        raise ImportError(module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    main()
