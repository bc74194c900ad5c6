"""Variables as inspect shows them: a table, and figures of their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from scripts.output import Output, one_line

STATISTICS = ("min", "max", "mean", "std", "nan_count", "infinite_count")
_LONGEST_NAME = 120
_SHOWN_NAMES = 3
_HEADER = ("NAME", "DTYPE", "SHAPE", "ROLE")


def compiled(pattern: str | None) -> re.Pattern[str] | None:
    """The expression that names are to match.

    Raises:
      UsageError: it is none.
    """
    from checkpoints.errors import UsageError

    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--filter is no regular expression: {error}.",
            received=pattern,
            next_step="Put a backslash before a sign that is meant as it is, as in 'a\\+b'.",
        ) from error


def filter_notes(
    regex: re.Pattern[str] | None, shown: list[dict[str, Any]], names: list[str]
) -> list[str]:
    """How many variables --filter leaves; where it leaves none, names that are spelt like it."""
    from checkpoints.errors import counted, near_names

    if regex is None:
        return []
    note = f"--filter {regex.pattern!r} shows {len(shown)} of {counted(len(names), 'variable')}."
    scopes = {name[: found.start()] for name in names for found in re.finditer("/", name)}
    near = [] if shown else near_names(regex.pattern.strip("^$/"), [*names, *sorted(scopes)])
    return [f"{note} Did you mean {', '.join(near)}?" if near else note]


def add_statistics(
    saved: Mapping[str, Any], variables: list[dict[str, Any]], output: Output
) -> tuple[list[dict[str, str]], list[str]]:
    """Puts figures into the variables; gives those that cannot be read, and what figures tell."""
    from checkpoints.errors import SlimtuneError
    from checkpoints.mapped import Pages
    from checkpoints.statistics import Statistics, statistics_of, untouched_batch_norms

    problems = []
    all_figures: dict[str, Statistics] = {}
    pages = Pages()
    with output.task("Reading values", len(variables), "variables") as task:
        for variable in variables:
            try:
                values = saved[variable["name"]]
                figures = statistics_of(values)
                pages.passed(values.nbytes)
            except SlimtuneError as error:
                problems.append({"name": variable["name"], "problem": str(error)})
                figures = None
            if figures is not None:
                variable |= dict(zip(STATISTICS, astuple(figures), strict=True))
                all_figures[variable["name"]] = figures
            task.advance()
    notes = _batch_norm_notes(*untouched_batch_norms(all_figures))
    complex_names = [v["name"] for v in variables if v["dtype"].startswith("complex")]
    if complex_names:
        names = ", ".join(complex_names[:_SHOWN_NAMES])
        more = "" if len(complex_names) <= _SHOWN_NAMES else ", ..."
        notes.append(f"Figures of complex variables are those of their magnitudes: {names}{more}")
    return problems, notes


def _batch_norm_notes(untouched: list[str], count: int) -> list[str]:
    from checkpoints.errors import listed

    if not untouched:
        return []
    which = "" if len(untouched) == count else f":\n{listed(untouched)}"
    return [
        f"The averages of {len(untouched)} of {count} batch norms are still at their initial values"
        " (mean 0, variance 1): the update ops never ran, so inference uses averages that were"
        f" never taken{which}"
    ]


def table(variables: list[dict[str, Any]], stats: bool) -> list[str]:
    """A line a variable; only of a very long name the middle is left out."""
    rows = [_HEADER + (tuple(word.upper() for word in STATISTICS) if stats else ())]
    for variable in variables:
        name = one_line(variable["name"], _LONGEST_NAME)
        row = (name, variable["dtype"], _shape(variable["shape"]), variable["role"])
        figures = tuple(_figure(variable.get(word)) for word in STATISTICS) if stats else ()
        rows.append(row + figures)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _shape(shape: list[int | None] | None) -> str:
    if shape is None:
        return "?"
    return " x ".join("?" if size is None else str(size) for size in shape) or "scalar"


def _figure(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
