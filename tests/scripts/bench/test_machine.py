"""Facts about the machine, from files like those of Linux."""

from __future__ import annotations

import os
import platform

from scripts.bench.machine import describe_machine, machine_line

CPUINFO = """\
processor\t: 0
model name\t: Example CPU @ 2.0 GHz
flags\t\t: fpu avx2 avx512_bf16 amx_tile avx512
processor\t: 1
model name\t: Another
"""


def test_processor_flags_and_memory_are_read(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "meminfo").write_text("MemTotal:       8388608 kB\nMemFree: 1 kB\n")
    machine = describe_machine(tmp_path / "cpuinfo", tmp_path / "meminfo")
    assert machine["cpu"] == "Example CPU @ 2.0 GHz"
    assert machine["flags"] == ["avx2", "avx512_bf16", "amx_tile"]
    assert machine["memory_bytes"] == 8 * 2**30
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["versions"]["python"] == platform.python_version()
    assert machine["versions"]["slimtune"] is not None
    line = machine_line(machine)
    assert line.startswith(f"Example CPU @ 2.0 GHz, {machine['cores']} cores, 8 GiB, Python 3.")


def test_a_system_without_these_files_is_described_all_the_same(tmp_path):
    machine = describe_machine(tmp_path / "absent", tmp_path / "absent")
    assert machine["cpu"]
    assert machine["flags"] == []
    assert machine["memory_bytes"] is None
    assert "GiB" not in machine_line(machine)
