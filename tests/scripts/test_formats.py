"""`slimtune formats`."""

from __future__ import annotations

import re

import pytest

from exporters.forms import FORMS
from scripts.main import main


def test_the_table_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main(["formats"])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    heading = next(line for line in lines if line.startswith("from"))
    assert heading.split() == ["from", "\\", "to", *FORMS]
    assert max(map(len, lines)) <= 80
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    row = next(line for line in lines if re.match(r"v2 .* x ", line))
    assert row.split() == ["v2", *("x" * len(FORMS))]
