"""The figures as people read them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scripts.bench.table import (
    HEADINGS,
    format_ratio,
    format_seconds,
    markdown_table,
    remarks,
    rich_table,
    rows,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00345, "3.45 ms"),
        (0.0342, "34.2 ms"),
        (0.2, "200 ms"),
        (3.614, "3.61 s"),
        (124.3, "124 s"),
    ],
)
def test_seconds_have_three_digits(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.854, "0.85x"), (9.996, "10.0x"), (35.21, "35.2x"), (99.97, "100x")]
)
def test_ratios_have_three_digits(ratio, text):
    assert format_ratio(ratio) == text


def test_one_row_a_contender(report):
    ours, peer = "slimtune inspect", "the peer's [tool]"
    assert rows(report) == [
        ("list", ours, "200 ms", "100 ms - 300 ms", "20 MB", "", ""),
        ("", peer, "4.00 s", "3.00 s - 5.00 s", "500 MB", "20.0x (>= 12x)", "25.0x"),
        ("read", "slimtune step", "2.00 s", "2.00 s - 2.00 s", "100 MB", "", ""),
        (
            "",
            "faster peer",
            "1.00 s",
            "1.00 s - 1.00 s",
            "500 MB",
            "0.50x (below 1x)",
            "5.00x (>= 4x)",
        ),
        ("freeze", ours, "500 ms", "500 ms - 500 ms", "150 MB", "", ""),
        ("", peer, "failed", "", "", "", ""),
    ]


def test_remarks_name_the_jobs_the_checks_and_the_failures(report):
    assert remarks(report) == [
        "list: list a checkpoint; found equal: 388 variables",
        "read: read a checkpoint",
        "freeze: freeze a graph",
        "freeze FAILED. the peer's [tool]: A program failed: peer",
    ]


def test_the_markdown_table_has_the_machine_above_and_a_cell_a_heading(report):
    text = markdown_table(report)
    lines = text.splitlines()
    machine = "Example CPU, 2 cores, 8 GiB, Python 3.11.7, slimtune 0.1.0"
    assert lines[0] == f"{machine}; 2026-01-02T03:04:05+00:00."
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 6
    assert {line.count("|") for line in table} == {len(HEADINGS) + 1}
    assert lines[-1].startswith("- freeze FAILED.")


def test_the_terminal_shows_names_with_brackets_as_they_are(report):
    console = Console(file=io.StringIO(), width=140)
    console.print(rich_table(report))
    shown = console.file.getvalue()
    assert "the peer's [tool]" in shown
    assert "20.0x (>= 12x)" in shown
    assert "failed" in shown
