"""What the figures were measured on: processor, memory, versions. Loads none of what it names."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from checkpoints.cores import available_cores

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8")
"""Instruction sets that move the figures."""

DISTRIBUTIONS = ("slimtune", "tensorflow", "keras", "tf-slim", "numpy", "protobuf")


def describe_machine(
    cpuinfo: Path = Path("/proc/cpuinfo"), meminfo: Path = Path("/proc/meminfo")
) -> dict[str, Any]:
    """Facts that go into the JSON beside the figures.

    Returns:
      cpu: the model's name; cores: how many this process may use; flags: those of FLAGS the
      processor has; memory_bytes; system; load: the one-minute load average; versions: name ->
      version, None where it is not installed.
    """
    cpu = _fields(cpuinfo)
    memory = _fields(meminfo).get("MemTotal", "").split()
    has = set(cpu.get("flags", "").split())
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "flags": [flag for flag in FLAGS if flag in has],
        "memory_bytes": int(memory[0]) * 1024 if memory else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in DISTRIBUTIONS},
        },
    }


def machine_line(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    parts = [f"{machine['cpu']}, {machine['cores']} cores"]
    if machine["memory_bytes"]:
        parts.append(f"{machine['memory_bytes'] / 2**30:.0f} GiB")
    parts.append(f"Python {machine['versions']['python']}")
    parts += [
        f"{name} {machine['versions'][key]}"
        for name, key in (("TensorFlow", "tensorflow"), ("slimtune", "slimtune"))
        if machine["versions"][key]
    ]
    return ", ".join(parts)


def _fields(path: Path) -> dict[str, str]:
    """`name : value` lines of a file under /proc; of several of one name the first."""
    fields: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, separator, value = line.partition(":")
            if separator:
                fields.setdefault(name.strip(), value.strip())
    return fields


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
