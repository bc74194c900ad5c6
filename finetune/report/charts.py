"""Line charts as geometry: the template draws them as SVG that stretches, with labels as text.

Positions of labels are percentages of the plot's width and height; paths are in a box of
1000 by 1000 units, y downwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MAX_POINTS = 400
"""Longer series are drawn as the means of so many neighbouring groups."""

SMOOTHED_FROM = 12
"""Shorter series are drawn as they are."""

SMOOTHING_SHARE = 0.05
"""The moving mean takes this share of the points to each side."""

BOX = 1000.0

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent from the left or from the top."""

    place: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A step at which something changed, and a word for it."""

    step: int
    label: str


@dataclass(frozen=True)
class Line:
    """One series.

    Attributes:
      name: for the legend.
      kind: names its colour: "training" or "validation".
      path: the line, an SVG path.
      trace: the single measurements behind a smoothed line, an SVG path; may be empty.
      dots: an SVG path of zero-length strokes, one a measurement; may be empty.
      last: the last value as text.
    """

    name: str
    kind: str
    path: str
    trace: str
    dots: str
    last: str


@dataclass(frozen=True)
class Chart:
    """One chart.

    Attributes:
      title: what is shown.
      note: a line below it.
      description: for those who do not see it.
      x_ticks: steps.
      y_ticks: values.
      lines: the series, later ones above.
      marks: places on the axis of steps where something changed.
    """

    title: str
    note: str
    description: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    marks: tuple[Tick, ...] = ()


def make_charts(
    metrics: Iterable[Mapping[str, Any]], total_steps: int, marks: Sequence[Mark] = ()
) -> list[Chart]:
    """The learning curves of a run; a quantity that was never logged has no chart.

    Args:
      metrics: the lines of metrics.jsonl.
      total_steps: where the axis of steps ends.
      marks: steps at which something changed; those beyond the axis are left out.
    """
    entries = list(metrics)
    loss = _series(entries, "train", "loss")
    batches = _series(entries, "train", "batch_accuracy")
    validation = _series(entries, "val", "accuracy")
    rate = _series(entries, "train", "learning_rate")
    speed = _series(entries, "train", "pictures_per_second")
    end = max([1, total_steps, *(int(step) for step, _ in [*loss, *validation])])
    lowest = min((value for _, value in loss), default=0.0)
    charts = []
    if loss:
        note = f"Lowest {_plain(lowest)}."
        line = _Series("training", "training", loss, _plain)
        charts.append(_chart("Loss", note, [line], end, None))
    if batches or validation:
        best_step, best = max(validation, key=lambda point: point[1], default=(0.0, 0.0))
        note = f"Best on validation {best:.1%}, at step {best_step:.0f}." if validation else ""
        accuracies = [
            _Series("training batches", "training", batches, _percent),
            _Series("validation", "validation", validation, _percent),
        ]
        charts.append(_chart("Accuracy", note, [s for s in accuracies if s.points], end, 1.0))
    if rate:
        values = {value for _, value in rate}
        note = "The same at every step." if len(values) == 1 else ""
        line = _Series("learning rate", "training", rate, _plain, smooth=False)
        charts.append(_chart("Learning rate", note, [line], end, None))
    if speed:
        line = _Series("pictures a second", "training", speed, _plain, smooth=False)
        charts.append(_chart("Pictures a second", "", [line], end, None))
    shown = tuple(Tick(100 * m.step / end, m.label) for m in marks if 0 < m.step < end)
    return [replace(chart, marks=shown) for chart in charts]


@dataclass(frozen=True)
class _Series:
    name: str
    kind: str
    points: Points
    label: Any
    smooth: bool = True


def _series(entries: Sequence[Mapping[str, Any]], split: str, name: str) -> Points:
    """The finite values of a quantity by step, in the order of the steps."""
    found: dict[float, float] = {}
    for entry in entries:
        step, value = entry.get("step"), entry.get(name)
        if entry.get("split") == split and _is_finite(step) and _is_finite(value):
            found[float(step)] = float(value)  # type: ignore[arg-type]
    return sorted(found.items())


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def _chart(title: str, note: str, series: list[_Series], end: int, highest: float | None) -> Chart:
    label = series[0].label
    if highest is None:
        highest = max(value for one in series for _, value in one.points)
    y_values = nice_ticks(max(highest, 0.0))
    top = y_values[-1]
    x_values = [value for value in nice_ticks(float(end)) if value <= end and value == int(value)]
    lines = tuple(_line(one, end, top) for one in series)
    spoken = "; ".join(
        f"{one.name} from {label(one.points[0][1])} at step {one.points[0][0]:.0f} to "
        f"{label(one.points[-1][1])} at step {one.points[-1][0]:.0f}"
        for one in series
    )
    return Chart(
        title,
        note,
        f"{title} by step: {spoken}.",
        tuple(Tick(100 * value / end, f"{value:,.0f}") for value in x_values),
        tuple(Tick(100 * (1 - value / top), label(value)) for value in y_values),
        lines,
    )


def _line(series: _Series, end: int, top: float) -> Line:
    points = thin(series.points)
    is_smoothed = series.smooth and series.kind == "training" and len(points) >= SMOOTHED_FROM
    has_dots = series.kind == "validation" or len(points) == 1
    return Line(
        series.name,
        series.kind,
        _path(smooth(points) if is_smoothed else points, end, top),
        _path(points, end, top) if is_smoothed else "",
        _dots(points, end, top) if has_dots else "",
        series.label(series.points[-1][1]),
    )


def thin(points: Points) -> Points:
    """At most MAX_POINTS points: the means of neighbouring groups."""
    if len(points) <= MAX_POINTS:
        return points
    edges = [round(index * len(points) / MAX_POINTS) for index in range(MAX_POINTS + 1)]
    groups = [points[start:end] for start, end in itertools.pairwise(edges)]
    return [(_mean(step for step, _ in g), _mean(value for _, value in g)) for g in groups]


def smooth(points: Points) -> Points:
    """The moving mean around each point, over fewer points near the ends."""
    reach = max(1, round(len(points) * SMOOTHING_SHARE))
    smoothed = []
    for index, (step, _) in enumerate(points):
        around = points[max(0, index - reach) : index + reach + 1]
        smoothed.append((step, _mean(value for _, value in around)))
    return smoothed


def nice_ticks(highest: float) -> list[float]:
    """Three to six round values from 0 to `highest` or a little above it."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / 4
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw)
    # Slack for rounding: 4 * 0.00025 must reach 0.001.
    count = math.ceil(highest / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(count + 1)]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _places(points: Points, end: int, top: float) -> list[str]:
    return [
        f"{BOX * step / end:.1f} {BOX * (1 - min(max(value, 0.0), top) / top):.1f}"
        for step, value in points
    ]


def _path(points: Points, end: int, top: float) -> str:
    return "M" + "L".join(_places(points, end, top)) if len(points) > 1 else ""


def _dots(points: Points, end: int, top: float) -> str:
    return "".join(f"M{place}h0" for place in _places(points, end, top))


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g}%"
