"""The figures in rows, for the terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.bench.machine import machine_line
from scripts.bench.result import CaseResult, ContenderResult, Report

if TYPE_CHECKING:
    from rich.text import Text

HEADINGS = ("tool", "median", "range", "memory", "time ratio", "memory ratio")
"""Of one contender; ratios are the peer's figure over slimtune's, beside them their targets."""

INDENT = "  "


def terminal_table(report: Report) -> Text:
    """A block of lines a case: failures are red, missed targets yellow."""
    from rich.text import Text

    cells = [[row_of(case, result) for result in case.contenders] for case in report.cases]
    every = [HEADINGS, *(row for rows in cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    text = Text(_aligned(HEADINGS, widths), style="dim")
    for case, rows in zip(report.cases, cells, strict=True):
        text.append(f"\n{case.case.name}", style="not dim bold")
        text.append(f": {case.case.title}", style="not dim")
        for result, row in zip(case.contenders, rows, strict=True):
            text.append(f"\n{_aligned(row, widths)}", style=f"not dim {_colour(case, result)}")
        for remark in remarks(case):
            colour = "red" if case.failures else "green"
            text.append("".join(f"\n{INDENT}{line}" for line in remark.splitlines()), style=colour)
    for name, reason in report.left_out.items():
        text.append(f"\n{name}", style="not dim bold")
        text.append(f": left out: {reason}", style="not dim yellow")
    return text


def markdown_table(report: Report) -> str:
    """The same rows, with the machine and the date above and what was checked below."""
    load = f"load {report.machine['load']} at the start"
    lines = [f"{machine_line(report.machine)}; {load}; {report.date}.", ""]
    lines.append(f"| case | {' | '.join(HEADINGS)} |")
    lines.append("|---|---|" + "---:|" * (len(HEADINGS) - 1))
    for case in report.cases:
        for index, result in enumerate(case.contenders):
            name = case.case.name if index == 0 else ""
            lines.append(f"| {name} | {' | '.join(row_of(case, result))} |")
    lines.append("")
    for case in report.cases:
        told = [case.case.title, *(" ".join(remark.split()) for remark in remarks(case))]
        lines.append(f"- {case.case.name}: {'; '.join(told)}")
    lines += [f"- {name}: left out: {reason}" for name, reason in report.left_out.items()]
    return "\n".join(lines) + "\n"


def row_of(case: CaseResult, result: ContenderResult) -> tuple[str, ...]:
    """The cells under HEADINGS."""
    if not result.measured:
        return (result.contender.name, "failed", "", "", "", "")
    ratio = case.ratio(result)
    name = result.contender.name
    return (
        name if result.times == 1 else f"{name} ({result.times} x a part)",
        format_seconds(result.seconds),
        format_range(*result.spread) if len(result.runs) > 1 else "",
        format_bytes(result.peak_bytes),
        "" if ratio is None else _with_target(ratio.time, ratio.peer.target),
        "" if ratio is None else _with_target(ratio.memory, ratio.peer.memory_target),
    )


def remarks(case: CaseResult) -> list[str]:
    """How much a second, what was found equal, or everything that failed."""
    told = [] if case.equal is None else [f"equal: {case.equal}"]
    rates = [format_rate(case, result) for result in case.contenders]
    if all(rates):
        told.insert(0, ", ".join(rates))
    return told + [f"FAILED. {failure}" for failure in case.failures]


def format_rate(case: CaseResult, result: ContenderResult) -> str:
    """Name and rate: "slimtune 35.2 pictures/s"; empty where the case counts nothing."""
    rate = case.per_second(result)
    if rate is None or case.case.items is None:
        return ""
    return f"{result.contender.name} {_three_digits(rate)} {case.case.items[1]}/s"


def format_seconds(seconds: float) -> str:
    """Three digits: "34.2 ms", "3.61 s", "124 s"."""
    return _in_unit(seconds, seconds)


def format_range(fastest: float, slowest: float) -> str:
    """Both in the unit of the larger: "34.2-36.0 ms"."""
    return f"{_in_unit(fastest, slowest).split()[0]}-{_in_unit(slowest, slowest)}"


def format_bytes(size: int) -> str:
    """Whole megabytes of 10^6 bytes."""
    return f"{size / 1e6:.0f} MB"


def format_ratio(ratio: float) -> str:
    """Three digits and an x: "0.85x", "35.2x", "124x"."""
    return f"{_three_digits(ratio)}x"


def _in_unit(seconds: float, of: float) -> str:
    return f"{_three_digits(seconds * 1000)} ms" if of < 1 else f"{_three_digits(seconds)} s"


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"


def _with_target(ratio: float, target: float | None) -> str:
    if target is None:
        return format_ratio(ratio)
    return f"{format_ratio(ratio)} {'>=' if ratio >= target else '<'} {target:g}x"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    """The first cell to the left, figures to the right."""
    first, *others = zip(cells, widths, strict=True)
    figures = [cell.rjust(width) for cell, width in others]
    return " ".join([INDENT + first[0].ljust(first[1]), *figures]).rstrip()


def _colour(case: CaseResult, result: ContenderResult) -> str:
    if result.failure is not None or case.check_failure is not None:
        return "red"
    ratio = case.ratio(result)
    return "yellow" if ratio is not None and ratio.met is False else ""
