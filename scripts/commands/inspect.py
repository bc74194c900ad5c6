"""slimtune inspect: what a file is and what is in it."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scripts.output import Output
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.api import Checkpoint
    from checkpoints.errors import UnsupportedError
    from checkpoints.family import Family

_META = ".meta"
_KINDS = {
    "checkpoint-v1": "V1 checkpoint",
    "checkpoint-v2": "V2 checkpoint",
    "npz": "numpy arrays",
    "safetensors": "safetensors file",
}
_HEADER = ("NAME", "DTYPE", "SHAPE", "ROLE")
_SHOWN = 100
_STATISTICS = ("min", "max", "mean", "std", "nan_count", "infinite_count")


@verb(
    "inspect",
    example="slimtune inspect model.ckpt\nslimtune inspect runs/a --stats --filter '^Logits/'",
)
@click.argument("path")
@click.option("--stats", is_flag=True, help="Add min, max, mean, std and NaN count of the values.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only variables whose names match.")
def command(output: Output, path: str, stats: bool, pattern: str | None) -> None:
    """Show what PATH is and what is in it, from headers alone.

    PATH is a checkpoint in any spelling: its prefix, one of its files, a V1 file, a shard or a
    pattern of shards, a directory, a `checkpoint` file, or the .meta beside it; or an npz or
    safetensors file. What is none of these is named for what it is.
    """
    from checkpoints.errors import NotFoundError, UnsupportedError
    from checkpoints.family import resolve

    regex = _compiled(pattern)
    try:
        family = resolve(path)
    except UnsupportedError as error:
        _show_other(output, path, error)
    except NotFoundError:
        if not (path.endswith(_META) and Path(path).is_file()):
            raise
        result = {"kind": "meta-graph", "path": path, "files": [path], "checkpoint": None}
        output.result(result, f"{path}: a graph without its checkpoint beside it")
    else:
        _show_checkpoint(output, path, family, regex, stats)


def _show_checkpoint(
    output: Output, path: str, family: Family, regex: re.Pattern[str] | None, stats: bool
) -> None:
    import checkpoints

    with checkpoints.open(family) as saved:
        result = _contents(saved, regex)
        problems, notes = _add_statistics(saved, result["variables"], output) if stats else ([], [])
        if saved.metadata:
            result["metadata"] = dict(saved.metadata)
        if saved.objects is not None:
            result["object_based"] = True
            notes = [*saved.objects.notes, *notes]
    if notes:
        result["notes"] = notes
    if problems:
        result["problems"] = problems
    if path.endswith(_META):
        result |= {"kind": "meta-graph", "path": path, "files": [path]}
        result["checkpoint"] = str(family.prefix)
    output.result(result, _text(family, result, stats))
    if problems:
        raise click.exceptions.Exit(1)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    from checkpoints.errors import UsageError

    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--filter is no regular expression: {error}.",
            received=pattern,
            next_step="Put a backslash before a sign that is meant as it is, as in 'a\\+b'.",
        ) from error


def _show_other(output: Output, path: str, error: UnsupportedError) -> None:
    result = {"kind": "other", "path": path, "files": [path], "received": error.received}
    next_step = "" if error.next_step is None else f"\nNext: {error.next_step}"
    output.result(result, f"{path}: {error.received}{next_step}")


def _contents(saved: Checkpoint, regex: re.Pattern[str] | None) -> dict[str, Any]:
    keys = {} if saved.objects is None else saved.objects.keys
    variables: list[dict[str, Any]] = []
    parameters = 0
    for name, variable in saved.variables.items():
        if regex is not None and not regex.search(name):
            continue
        part = saved.role(name)
        if part == "model" and variable.dtype_name != "string":
            parameters += variable.num_elements
        shape = list(variable.shape)
        variables.append({"name": name, "dtype": variable.dtype_name, "shape": shape, "role": part})
        if name in keys:
            variables[-1]["key"] = keys[name]
    family = saved.family
    return {
        "kind": family.kind,
        "path": str(family.prefix),
        "files": [str(file) for file in family.files],
        "meta": None if family.meta is None else str(family.meta),
        "resolved": family.said,
        "variables": variables,
        "parameters": parameters,
    }


def _add_statistics(
    saved: Checkpoint, variables: list[dict[str, Any]], output: Output
) -> tuple[list[dict[str, str]], list[str]]:
    """Puts figures into the variables; gives those that cannot be read, and what figures tell."""
    from checkpoints.errors import CheckpointError
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
            except CheckpointError as error:
                problems.append({"name": variable["name"], "problem": str(error)})
                figures = None
            if figures is not None:
                variable |= dict(zip(_STATISTICS, astuple(figures), strict=True))
                all_figures[variable["name"]] = figures
            task.advance()
    return problems, _batch_norm_notes(*untouched_batch_norms(all_figures))


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


def _text(family: Family, result: dict[str, Any], stats: bool) -> str:
    variables = result["variables"]
    lines = [
        f"{family.prefix}: {'object-based ' if 'object_based' in result else ''}"
        f"{_KINDS[family.kind]}, {len(variables):,} variables,"
        f" {result['parameters']:,} parameters",
    ]
    if family.said is not None:
        lines.append(f"Resolved: {family.said}")
    if family.meta is not None:
        lines.append(f"Graph: {family.meta}")
    lines += [f"{key}: {_short(text)}" for key, text in result.get("metadata", {}).items()]
    if variables:
        lines += ["", *_table(variables, stats)]
    if "notes" in result:
        lines += ["", *result["notes"]]
    if "problems" in result:
        lines += ["", "Not readable:", *(problem["problem"] for problem in result["problems"])]
    return "\n".join(lines)


def _short(text: str) -> str:
    """The beginning of a text that may hold a thousand class names."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _table(variables: list[dict[str, Any]], stats: bool) -> list[str]:
    """A line a variable, however long its name: it is searched as often as it is read."""
    rows = [_HEADER + (tuple(word.upper() for word in _STATISTICS) if stats else ())]
    for variable in variables:
        shape = " x ".join(map(str, variable["shape"])) or "scalar"
        row = (variable["name"], variable["dtype"], shape, variable["role"])
        figures = tuple(_figure(variable.get(word)) for word in _STATISTICS) if stats else ()
        rows.append(row + figures)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _figure(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
