"""docs/classic.md says of every flag of every script what it does here."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from scripts.classic.flags import Idle, Refused
from scripts.commands.classic import SUBCOMMANDS

PAGE = Path(__file__).resolve().parents[3] / "docs/classic.md"


def test_every_script_has_its_section_in_the_order_of_the_table():
    assert re.findall(r"(?m)^## (.+)$", PAGE.read_text("utf-8")) == list(SUBCOMMANDS)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_flag_is_there_with_its_reason(name):
    section = re.split(r"(?m)^## ", PAGE.read_text("utf-8").split(f"\n## {name}\n")[1])[0]
    listed = re.search(r"(?s)\nFlags: (.+?)\.\n", section)
    rows = re.findall(r"(?m)^\| (`--.+) \|$", section)
    flags = importlib.import_module(SUBCOMMANDS[name]).FLAGS
    idle = [flag for flag in flags if isinstance(flag, Idle)]
    refused = [flag for flag in flags if isinstance(flag, Refused)]
    works = [flag for flag in flags if not isinstance(flag, Idle | Refused)]
    assert re.findall(r"`--(\w+)`", listed[1]) == [flag.name for flag in works]
    assert rows == [
        *(f"`--{flag.name}` | {flag.help}" for flag in idle),
        *(f"`--{flag.name}` | {flag.help} | {flag.instead}" for flag in refused),
    ]
    assert "Today" in section
