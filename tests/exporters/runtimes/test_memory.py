"""A conversion that does not fit into memory is refused before it begins."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.errors import UnsupportedError
from exporters.freezing import prepare
from exporters.graph import as_graph
from exporters.runtimes import memory
from exporters.runtimes.memory import available_bytes, refuse_too_large


@pytest.fixture
def frozen(builder):
    """A constant of 4,000 bytes, and a variable of as many."""
    builder.const("constant", np.zeros(1000, np.float32))
    builder.add("VariableV2", "variable", dtype=np.dtype("float32"), shape=(1000,))
    builder.add("Add", "out", "constant", "variable", T=np.dtype("float32"))
    values = {"variable": np.zeros(1000, np.float32)}
    return prepare(as_graph(builder.graph_def), values, outputs=["out"])


@pytest.mark.parametrize(("form", "times"), [("tflite", 25), ("onnx", 7)])
def test_it_is_refused_by_what_it_would_take(frozen, form, times, monkeypatch):
    monkeypatch.setattr(memory, "START_BYTES", 0)
    monkeypatch.setattr(memory, "SMALL_BYTES", 0)
    refuse_too_large(frozen, form, "m", available=times * 8_200)
    with pytest.raises(UnsupportedError, match="not enough memory") as caught:
        refuse_too_large(frozen, form, "m", available=times * 8_000)
    assert str(caught.value).startswith(f"m: there is not enough memory to write a {form} model")
    assert caught.value.received == "0.0 GB available"


def test_small_weights_are_never_refused(frozen):
    refuse_too_large(frozen, "tflite", "m", available=0)


def test_what_the_system_says(tmp_path):
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    group.mkdir()
    assert available_bytes(meminfo, group) is None
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\nSwapFree: 1000 kB\n")
    assert available_bytes(meminfo, group) == 6000 * 1024
    (group / "memory.max").write_text("max\n")
    assert available_bytes(meminfo, group) == 6000 * 1024
    (group / "memory.max").write_text("5000000\n")
    (group / "memory.stat").write_text("anon 2000000\nfile 2500000\n")
    assert available_bytes(meminfo, group) == 3_000_000
    (group / "memory.stat").write_text("anon 7000000\n")
    assert available_bytes(meminfo, group) == 0
