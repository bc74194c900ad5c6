"""`finetune.data.sample` does what `slimtune data sample` does."""

from __future__ import annotations

import pytest

from checkpoints.errors import UsageError
from finetune import data


def test_digits_from_python(tmp_path):
    drawn = data.sample("digits", tmp_path / "digits", per_class=6, seed=3)
    assert (drawn.count, drawn.classes) == (60, tuple("0123456789"))
    assert data.read_idx(tmp_path / "digits/t10k-labels-idx1-ubyte").shape == (10,)


@pytest.mark.parametrize(
    ("what", "options"),
    [("cats", {}), ("digits", {"per_class": 0}), ("flowers", {"seed": "1"})],
)
def test_nonsense_is_refused(tmp_path, what, options):
    with pytest.raises(UsageError):
        data.sample(what, tmp_path / "out", **options)
