"""Converters that take many times the weights: told beforehand, not by a kill in the middle."""

from __future__ import annotations

from pathlib import Path

from checkpoints.errors import UnsupportedError
from checkpoints.messages import NodeDef
from exporters.freezing import FrozenGraph
from exporters.variables import FrozenVariable

TIMES = {"tflite": 25, "onnx": 7}
"""Form -> bytes of memory for each byte of weights, verification included; measured."""

START_BYTES = 10**9
"""TensorFlow and the rest, whatever the net."""

SMALL_BYTES = 64 * 10**6
"""Weights for which any machine that runs TensorFlow is large enough."""

_UNLIMITED = "max"


def refuse_too_large(
    frozen: FrozenGraph, form: str, label: str, available: int | None = None
) -> None:
    """Raises UnsupportedError where a conversion would not fit into memory.

    Args:
      frozen: what is to be converted.
      form: "tflite" or "onnx".
      label: how messages call the destination.
      available: bytes that are free; left out, what the system says.
    """
    weights = sum(map(_num_bytes, frozen.nodes()))
    needed = START_BYTES + TIMES[form] * weights
    free = available_bytes() if available is None else available
    if weights <= SMALL_BYTES or free is None or needed <= free:
        return
    raise UnsupportedError(
        f"{label}: there is not enough memory to write a {form} model"
        f" of {weights / 1e6:,.0f} MB of weights.",
        expected=f"about {needed / 1e9:.1f} GB, as its converter copies them many times",
        received=f"{free / 1e9:.1f} GB available",
        next_step="End other programs, or convert on a larger machine"
        + (" or to .onnx, which takes less." if form == "tflite" else "; .pb takes less."),
    )


def _num_bytes(node: NodeDef | FrozenVariable) -> int:
    if isinstance(node, FrozenVariable):
        return node.num_bytes
    return node.ByteSize() if node.op == "Const" else 0


def available_bytes(
    meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """What this process may still take, swap included: of the system's memory and its group's.

    Returns:
      None where the system does not tell.
    """
    found = []
    try:
        fields = dict(
            line.split(":", 1) for line in meminfo.read_text("utf-8").splitlines() if ":" in line
        )
        kibibytes = [int(fields[name].split()[0]) for name in ("MemAvailable", "SwapFree")]
        found.append(1024 * sum(kibibytes))
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        limit = (cgroup / "memory.max").read_text("utf-8").strip()
        if limit != _UNLIMITED:
            stat = dict(map(str.split, (cgroup / "memory.stat").read_text("utf-8").splitlines()))
            # The rest of what the group holds is files' contents, which give way.
            found.append(max(0, int(limit) - int(stat["anon"])))
    except (OSError, KeyError, ValueError):
        pass
    return min(found, default=None)
