"""The figures as people read them. Of one run there is no range."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scripts.bench.table import (
    format_range,
    format_ratio,
    format_seconds,
    markdown_table,
    row_of,
    terminal_table,
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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [((0.0342, 0.36), "34.2-360 ms"), ((0.5, 1.25), "0.50-1.25 s"), ((10, 124.3), "10.0-124 s")],
)
def test_a_range_is_in_the_unit_of_the_slowest(seconds, text):
    assert format_range(*seconds) == text


def test_one_row_a_contender(report):
    ours, peer = "slimtune inspect", "the peer's [tool]"
    assert [row_of(case, result) for case in report.cases for result in case.contenders] == [
        (ours, "200 ms", "100-300 ms", "20 MB", "", ""),
        (peer, "4.00 s", "3.00-5.00 s", "500 MB", "20.0x >= 12x", "25.0x"),
        ("slimtune step", "2.00 s", "", "100 MB", "", ""),
        ("faster peer", "1.00 s", "", "500 MB", "0.50x < 1x", "5.00x >= 4x"),
        (ours, "500 ms", "", "150 MB", "", ""),
        (peer, "failed", "", "", "", ""),
    ]


def test_the_terminal_shows_a_block_a_case_within_80_columns(report):
    report.cases[1].check_failure = "1 is not\n2"
    console = Console(file=io.StringIO(), width=80)
    console.print(terminal_table(report))
    assert (
        console.file.getvalue()
        == """\
  tool              median       range memory   time ratio memory ratio
list: list a checkpoint
  slimtune inspect  200 ms  100-300 ms  20 MB
  the peer's [tool] 4.00 s 3.00-5.00 s 500 MB 20.0x >= 12x        25.0x
  equal: 388 variables
read: read a checkpoint
  slimtune step     2.00 s             100 MB
  faster peer       1.00 s             500 MB
  FAILED. The results differ: 1 is not
  2
freeze: freeze a graph
  slimtune inspect  500 ms             150 MB
  the peer's [tool] failed
  FAILED. the peer's [tool]: A program failed: peer
"""
    )


def test_what_was_left_out_stands_below(report):
    report.left_out = {"timm-all": "no torch"}
    assert terminal_table(report).plain.endswith("\ntimm-all: left out: no torch")
    assert markdown_table(report).endswith("\n- timm-all: left out: no torch\n")


def test_failures_are_red_and_missed_targets_yellow(report):
    text = terminal_table(report)
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans}
    (failed,) = [style for line, style in styles.items() if line.endswith("failed")]
    (missed,) = [style for line, style in styles.items() if line.startswith("faster peer")]
    (reached,) = [style for line, style in styles.items() if "20.0x" in line]
    assert "red" in failed
    assert "yellow" in missed
    assert "red" not in reached and "yellow" not in reached


def test_the_markdown_table_has_the_machine_above_and_the_checks_below(report):
    assert (
        markdown_table(report)
        == """\
Example CPU, 2 cores, 8 GiB, Python 3.11.7, slimtune 0.1.0; load 0.25 at the start; 2026-01-02T03:04:05+00:00.

| case | tool | median | range | memory | time ratio | memory ratio |
|---|---|---:|---:|---:|---:|---:|
| list | slimtune inspect | 200 ms | 100-300 ms | 20 MB |  |  |
|  | the peer's [tool] | 4.00 s | 3.00-5.00 s | 500 MB | 20.0x >= 12x | 25.0x |
| read | slimtune step | 2.00 s |  | 100 MB |  |  |
|  | faster peer | 1.00 s |  | 500 MB | 0.50x < 1x | 5.00x >= 4x |
| freeze | slimtune inspect | 500 ms |  | 150 MB |  |  |
|  | the peer's [tool] | failed |  |  |  |  |

- list: list a checkpoint; equal: 388 variables
- read: read a checkpoint
- freeze: freeze a graph; FAILED. the peer's [tool]: A program failed: peer
"""
    )
