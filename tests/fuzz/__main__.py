"""Mutated inputs for readers: `python tests/fuzz READER ... --seed 0 --first 0 --count 200000`."""

from __future__ import annotations

import argparse
import sys
import time

from fuzzing.readers import READERS
from fuzzing.runner import run


def main() -> int:
    """Prints what was found, and how many inputs there were; 1 where something was."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("readers", nargs="+", choices=[*READERS, "all"], metavar="READER")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, default=1000)
    wanted = parser.parse_args()
    num_found = 0
    for name in READERS if "all" in wanted.readers else wanted.readers:
        started = time.perf_counter()
        found = run(READERS[name], range(wanted.first, wanted.first + wanted.count), wanted.seed)
        seconds = time.perf_counter() - started
        counts = f"{name}: {wanted.count} inputs, {len(found)} findings, {seconds:.0f} s\n"
        sys.stdout.write("\n".join([*map(str, found), counts]))
        sys.stdout.flush()
        num_found += len(found)
    return 1 if num_found else 0


if __name__ == "__main__":
    sys.exit(main())
