"""The figures as a table, for the terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.bench.machine import machine_line
from scripts.bench.result import CaseResult, ContenderResult, Ratio, Report

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = (
    "case",
    "tool",
    "median",
    "fastest - slowest",
    "peak memory",
    "time ratio",
    "memory ratio",
)
"""The last two are the peer's figure over slimtune's."""


def rich_table(report: Report) -> Table:
    """One row a contender; failures are red, missed targets yellow."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in HEADINGS[:2] else "right")
    styles = [_style(case, result) for case in report.cases for result in case.contenders]
    for row, style in zip(rows(report), styles, strict=True):
        table.add_row(*map(escape, row), style=style)
    return table


def markdown_table(report: Report) -> str:
    """The same rows, with the machine, the date and the checks around them."""
    lines = [f"{machine_line(report.machine)}; {report.date}.", ""]
    lines.append(f"| {' | '.join(HEADINGS)} |")
    lines.append("|---|---|" + "---:|" * (len(HEADINGS) - 2))
    lines += [f"| {' | '.join(row)} |" for row in rows(report)]
    lines += ["", *(f"- {line}" for line in remarks(report))]
    return "\n".join(lines) + "\n"


def rows(report: Report) -> list[tuple[str, ...]]:
    """The cells under HEADINGS, one row a contender."""
    found: list[tuple[str, ...]] = []
    for case in report.cases:
        for index, result in enumerate(case.contenders):
            name = case.case.name if index == 0 else ""
            found.append((name, result.contender.name, *_figures(case, result)))
    return found


def remarks(report: Report) -> list[str]:
    """What the cells leave open: what each case is, what was checked, what failed."""
    lines = []
    for case in report.cases:
        line = f"{case.case.name}: {case.case.title}"
        if case.equal is not None:
            line += f"; found equal: {case.equal}"
        lines.append(line)
        lines += [f"{case.case.name} FAILED. {failure}" for failure in case.failures]
    return lines


def format_seconds(seconds: float) -> str:
    """Three digits: "34.2 ms", "3.61 s", "124 s"."""
    if seconds < 1:
        return f"{_three_digits(seconds * 1000)} ms"
    return f"{_three_digits(seconds)} s"


def format_ratio(ratio: float) -> str:
    """Three digits and an x: "0.85x", "35.2x", "124x"."""
    return f"{_three_digits(ratio)}x"


def _figures(case: CaseResult, result: ContenderResult) -> tuple[str, ...]:
    if not result.measured:
        return ("failed", "", "", "", "")
    fastest, slowest = result.spread
    ratio = case.ratio(result)
    return (
        format_seconds(result.seconds),
        f"{format_seconds(fastest)} - {format_seconds(slowest)}",
        f"{result.peak_bytes / 1e6:.0f} MB",
        "" if ratio is None else _with_target(ratio.time, ratio.peer.target),
        "" if ratio is None else _with_target(ratio.memory, ratio.peer.memory_target),
    )


def _with_target(ratio: float, target: float | None) -> str:
    if target is None:
        return format_ratio(ratio)
    return f"{format_ratio(ratio)} ({'>=' if ratio >= target else 'below'} {target:g}x)"


def _style(case: CaseResult, result: ContenderResult) -> str | None:
    if result.failure is not None or case.check_failure is not None:
        return "red"
    ratio: Ratio | None = case.ratio(result)
    return "yellow" if ratio is not None and ratio.met is False else None


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"
