"""The figures as a picture: how many times a peer's time and memory are those of slimtune."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.files import atomic_file
from scripts.bench.machine import machine_line
from scripts.bench.result import CaseResult, ContenderResult, Ratio, Report
from scripts.bench.table import format_bytes, format_ratio, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIME_COLOUR, MEMORY_COLOUR, TARGET_COLOUR = "#1f6f8b", "#a9c7d3", "#d1495b"
WIDTH_INCHES, ROW_INCHES, FRAME_INCHES, DOTS_PER_INCH = 10.0, 0.95, 1.9, 150

BAR = 0.34
"""Height of a bar; a row is 1 high and holds two."""


def write_plot(report: Report, path: Path) -> None:
    """Writes a PNG: per case and peer a bar for time and one for memory, on a logarithmic axis.

    Args:
      report: what was measured; contenders that failed or differ stand in it without bars.
      path: the PNG; replaced if it is there.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pairs = [(case, peer) for case in report.cases for peer in case.contenders[1:]]
    height = FRAME_INCHES + ROW_INCHES * max(len(pairs), 1)
    figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    for row, (case, peer) in enumerate(pairs):
        _draw_row(axes, row, case, peer)
    _dress(axes, report, pairs)
    figure.suptitle(
        "Time and memory of peers, as multiples of slimtune's",
        fontsize=14,
        fontweight="bold",
    )
    axes.set_title(f"{machine_line(report.machine)}; {report.date[:10]}", fontsize=9, color="0.35")
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": "slimtune bench"})
    with atomic_file(path) as file:
        file.write(picture.getvalue())


def _draw_row(axes: Axes, row: int, case: CaseResult, peer: ContenderResult) -> None:
    ratio = case.ratio(peer)
    if ratio is None:
        word = "failed" if case.check_failure is None else "results differ"
        axes.text(1.03, row, word, va="center", color=TARGET_COLOUR, fontweight="bold")
        return
    ours = case.ours
    times = f"{format_seconds(ours.seconds)} against {format_seconds(peer.seconds)}"
    rates = [case.per_second(one) for one in (ours, peer)]
    if case.case.items is not None and None not in rates:
        times += f"; {rates[0]:.3g} and {rates[1]:.3g} {case.case.items[1]}/s"
    memory = f"{format_bytes(ours.peak_bytes)} against {format_bytes(peer.peak_bytes)}"
    _draw_bar(axes, row - BAR / 2, ratio.time, ratio.peer.target, TIME_COLOUR, times)
    _draw_bar(axes, row + BAR / 2, ratio.memory, ratio.peer.memory_target, MEMORY_COLOUR, memory)


def _draw_bar(
    axes: Axes, middle: float, ratio: float, target: float | None, colour: str, figures: str
) -> None:
    """A bar from 1 to the ratio, what it stands for beside it, and the target as a stroke."""
    axes.barh(middle, ratio - 1, height=BAR * 0.94, left=1, color=colour, zorder=2)
    if target is not None:
        ends = [middle - BAR / 2, middle + BAR / 2]
        axes.plot([target, target], ends, color=TARGET_COLOUR, linewidth=2.5, zorder=3)
    missed = target is not None and ratio < target
    axes.annotate(
        f"$\\bf{{{format_ratio(ratio)}}}$   {figures}{', target missed' if missed else ''}",
        (max(ratio, target or 1, 1), middle),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=TARGET_COLOUR if missed else "black",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        zorder=5,
    )


def _dress(axes: Axes, report: Report, pairs: list[tuple[CaseResult, ContenderResult]]) -> None:
    """Scales, labels, legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ratios = [ratio for case in report.cases for ratio in case.ratios]
    lowest, highest = _range(ratios)
    axes.set_xscale("log")
    # The figures beside the longest bar need some room of their own.
    room = 1.5 if all(case.case.items is None for case in report.cases) else 1.9
    left, right = lowest * 0.8, highest * (highest / lowest) ** 0.45 * room
    axes.set_xlim(left, right)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(left, right)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.axvline(1, color="0.2", linewidth=1, zorder=4)
    axes.grid(axis="x", which="major", color="0.88", zorder=0)
    axes.set_ylim(max(len(pairs), 1) - 0.5, -0.5)
    axes.set_yticks(
        range(len(pairs)),
        [f"{case.case.title}\nagainst {peer.contender.name}" for case, peer in pairs],
    )
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    rounds = "one round" if report.repetitions == 1 else f"medians over {report.repetitions} rounds"
    axes.set_xlabel(f"peer / slimtune, {rounds}; more is better for slimtune")
    handles: list[Any] = [
        Patch(color=TIME_COLOUR, label="wall time"),
        Patch(color=MEMORY_COLOUR, label="peak memory"),
        Line2D([], [], color=TARGET_COLOUR, linewidth=2.5, label="target"),
    ]
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def _ticks(left: float, right: float) -> list[float]:
    """Round numbers between two, the fewer the further they are apart."""
    steps = (1.0, 2.0, 5.0) if right > 10 * left else (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0)
    ticks = [step * 10.0**power for power in range(-3, 6) for step in steps]
    return [tick for tick in ticks if left <= tick <= right]


def _range(ratios: list[Ratio]) -> tuple[float, float]:
    """The smallest and largest value to be shown; 1 is always among them."""
    values = [1.0]
    for ratio in ratios:
        values += [ratio.time, ratio.memory]
        values += [t for t in (ratio.peer.target, ratio.peer.memory_target) if t is not None]
    return min(values), max(values)
