"""How slimtune starts LiteRT's interpreter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkpoints.cores import available_cores
from checkpoints.errors import BrokenFileError
from exporters.runtimes import tflite_runner


@pytest.mark.parametrize(("asked", "given"), [(None, available_cores()), (1, 1), (3, 3)])
def test_it_runs_on_all_cores_unless_told_otherwise(tmp_path, monkeypatch, asked, given):
    started = []

    def interpreter(model_path, num_threads):
        started.append(num_threads)
        raise ValueError("no model")

    fake = SimpleNamespace(Interpreter=interpreter)
    monkeypatch.setattr(tflite_runner, "load_extra", lambda module: fake)
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3")
    with pytest.raises(BrokenFileError, match="Received: no model"):
        tflite_runner.TfliteRunner(path, asked)
    assert started == [given]
