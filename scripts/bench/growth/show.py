"""Growth as a table, and as a picture an axis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from checkpoints.files import atomic_file
from scripts.bench.growth.axes import Axis
from scripts.bench.growth.measure import Growth
from scripts.bench.table import format_bytes, format_seconds

COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#66a182", "#8d5a97", "#5c5c5c", "#d98c5f")
SIZE_INCHES, DOTS_PER_INCH = (9.0, 3.6), 100
FLAT = "flat"


def format_size(size: int, unit: str) -> str:
    """1,000; of bytes 10 MB or 10 GB."""
    if unit != "bytes":
        return f"{size:,}"
    return f"{size // 10**9} GB" if size >= 10**9 else f"{size // 10**6} MB"


def format_exponent(exponent: float | None) -> str:
    """Two digits, or that it does not grow."""
    return FLAT if exponent is None else f"{exponent:.2f}"


def markdown_table(axis: Axis, growths: Sequence[Growth]) -> str:
    """A row a job: time and memory at each size, and both exponents."""
    sizes = max((growth.sizes for growth in growths), key=len)
    heads = [format_size(size, axis.unit) for size in sizes]
    lines = [
        f"| {axis.unit} | {' | '.join(heads)} | time grows | memory grows |",
        "|---|" + "---:|" * (len(sizes) + 2),
    ]
    for growth in growths:
        cells = [
            f"{format_seconds(seconds)}, {format_bytes(peak)}"
            for seconds, peak in zip(growth.seconds, growth.peak_bytes, strict=True)
        ]
        cells += [""] * (len(sizes) - len(cells))
        grows = map(format_exponent, (growth.time_exponent, growth.memory_exponent))
        lines.append(f"| {growth.job} | {' | '.join([*cells, *grows])} |")
    return "\n".join(lines) + "\n"


def write_plot(axis: Axis, growths: Sequence[Growth], path: Path) -> None:
    """Writes a PNG: processor time and memory over size, both logarithmic; a dashed line is linear growth."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, title, is_time in zip(
        panels, ("processor time, s", "peak memory, MB"), (1, 0), strict=True
    ):
        lowest, highest = float("inf"), 0.0
        for growth, colour in zip(growths, COLOURS, strict=False):
            costs = growth.seconds if is_time else [peak / 1e6 for peak in growth.peak_bytes]
            axes.plot(growth.sizes, costs, "o-", color=colour, markersize=4, label=growth.job)
            lowest, highest = min(lowest, *costs), max(highest, *costs)
        ends = (axis.sizes[0], axis.sizes[-1])
        axes.plot(
            ends,
            (highest * ends[0] / ends[1], highest),
            "--",
            color="0.6",
            linewidth=1,
            label="linear",
        )
        axes.set(xscale="log", yscale="log", title=title, ylim=(lowest / 1.5, highest * 1.5))
        axes.set_xticks(axis.sizes, [format_size(size, axis.unit) for size in axis.sizes])
        axes.xaxis.set_minor_formatter(NullFormatter())
        steps = (1, 2, 5) if highest < 100 * lowest else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(axis.unit)
        axes.grid(which="major", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    picture = io.BytesIO()
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": "slimtune"})
    with atomic_file(path, overwrite=True) as file:
        file.write(picture.getvalue())
