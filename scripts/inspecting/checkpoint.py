"""Checkpoints and files of arrays as inspect shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scripts.inspecting.variables import add_statistics, filter_notes, table
from scripts.output import Output, one_line

if TYPE_CHECKING:
    from checkpoints.api import Checkpoint
    from checkpoints.family import Family

_KINDS = {
    "checkpoint-v1": "V1 checkpoint",
    "checkpoint-v2": "V2 checkpoint",
    "npz": "numpy arrays",
    "safetensors": "safetensors file",
}
_SHOWN = 100


def checkpoint_contents(
    family: Family, regex: re.Pattern[str] | None, stats: bool, output: Output
) -> dict[str, Any]:
    """The JSON object of a checkpoint."""
    import checkpoints

    with checkpoints.open(family) as saved:
        result = _contents(saved, regex)
        problems, notes = add_statistics(saved, result["variables"], output) if stats else ([], [])
        if saved.metadata:
            result["metadata"] = dict(saved.metadata)
        if saved.objects is not None:
            result["object_based"] = True
            notes = [*saved.objects.notes, *notes]
        notes = [*filter_notes(regex, result["variables"], list(saved.variables)), *notes]
        notes += [error.message for error in saved.unreadable.values()]
    if notes:
        result["notes"] = notes
    if problems:
        result["problems"] = problems
    return result


def checkpoint_text(result: dict[str, Any], stats: bool) -> str:
    """A checkpoint for people."""
    variables = result["variables"]
    lines = [
        f"{one_line(result['path'])}: {'object-based ' if 'object_based' in result else ''}"
        f"{_KINDS[result['kind']]}, {len(variables):,} variables,"
        f" {result['parameters']:,} parameters",
    ]
    if result["resolved"] is not None:
        lines.append(f"Resolved: {one_line(result['resolved'])}")
    if result["meta"] is not None:
        lines.append(f"Graph: {one_line(result['meta'])}")
    lines += [f"{key}: {_short(text)}" for key, text in result.get("metadata", {}).items()]
    return "\n".join([*lines, *variable_lines(result, stats)])


def variable_lines(result: dict[str, Any], stats: bool) -> list[str]:
    """The table of variables, notes, and what could not be read."""
    lines = []
    if result["variables"]:
        lines += ["", *table(result["variables"], stats)]
    if result.get("notes"):
        lines += ["", *result["notes"]]
    if "problems" in result:
        lines += ["", "Not readable:", *(problem["problem"] for problem in result["problems"])]
    return lines


def _contents(saved: Checkpoint, regex: re.Pattern[str] | None) -> dict[str, Any]:
    keys = {} if saved.objects is None else saved.objects.keys
    variables: list[dict[str, Any]] = []
    for name, variable in saved.variables.items():
        if regex is not None and not regex.search(name):
            continue
        part = saved.role(name)
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
        "parameters": saved.count_parameters(entry["name"] for entry in variables),
    }


def _short(text: str) -> str:
    """The beginning of a text that may hold a thousand class names."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
