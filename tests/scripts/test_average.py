from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from scripts.main import main


@pytest.fixture
def average(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["average", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.fixture
def sources(tmp_path):
    return [
        checkpoints.write(
            tmp_path / f"m.ckpt-{step}",
            {"w": np.array([step], np.float32), "global_step": np.array(step), "n": np.array(step)},
        ).prefix
        for step in (20, 10)
    ]


def test_json(average, sources, tmp_path):
    code, out, err = average(*sources, tmp_path / "mean.ckpt", "--json")
    result = json.loads(out)
    size = sum(path.stat().st_size for path in tmp_path.glob("mean.ckpt.*"))
    assert code == 0
    assert result == {
        "path": str(tmp_path / "mean.ckpt"),
        "form": "v2",
        "sources": [str(path) for path in sources],
        "newest": str(sources[0]),
        "averaged": 1,
        "taken": ["n"],
        "not_finite": {},
        "step": 20,
        "bytes": size,
        "notes": [f"Of variables without a mean 1 differ; they are those of {sources[0]}:\n  n"],
    }
    assert "those of" in err
    with checkpoints.open(tmp_path / "mean.ckpt") as saved:
        assert saved["w"].tolist() == [15.0] and saved["n"] == saved["global_step"] == 20


def test_text(average, sources, tmp_path):
    code, out, _ = average(*sources, tmp_path / "my mean", "--to", "v1")
    assert code == 0
    assert out.splitlines() == [
        f"{tmp_path / 'my mean'}: the mean of 2 checkpoints, 1 variable averaged, step 20, 0.0 MB",
        f"Next: slimtune inspect '{tmp_path / 'my mean'}'",
    ]
    code, _, err = average(*sources, tmp_path / "my mean", "--to", "v1")
    assert code == 1 and "already there" in err
    assert average(*sources, tmp_path / "my mean", "--to", "v1", "--overwrite")[0] == 0


def test_wrong_usage(average, sources, tmp_path):
    assert average(sources[0], tmp_path / "mean.ckpt")[0] == 2
    assert average(*sources, tmp_path / "mean.ckpt", "--to", "pb")[0] == 2
    assert not list(tmp_path.glob("mean*"))
