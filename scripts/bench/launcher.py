"""Starts one program, waits for it, and notes its time and memory. Run as a program itself.

It stands between the benchmark and what is measured because the kernel counts the memory of
whoever starts a program to that program's peak: this one holds some 8 MB.

    python -I -S launcher.py REPORT PROGRAM [ARGUMENT ...]

REPORT gets {"exit_code", "seconds", "cpu_seconds", "peak_bytes"} as JSON.
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    """Runs the program; its streams are this program's own."""
    report, program = sys.argv[1], sys.argv[2:]
    start = time.perf_counter()
    try:
        child = os.posix_spawnp(program[0], program, os.environ)
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start

    import json  # after the child has been measured, so that it costs it nothing
    from pathlib import Path

    figures = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        # Linux counts in KiB, macOS in bytes.
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    Path(report).write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
