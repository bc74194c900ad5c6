"""Graphs as inspect shows them: a .pb, a .meta with its checkpoint, a SavedModel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.inspecting.checkpoint import checkpoint_contents, variable_lines
from scripts.inspecting.variables import add_statistics, filter_notes
from scripts.output import Output, one_line

if TYPE_CHECKING:
    from checkpoints.family import Family

_KINDS = {"graph-def": "GraphDef", "meta-graph": "MetaGraphDef", "saved-model": "SavedModel"}
_SHOWN_OPS = 12


def graph_contents(
    path: str, regex: re.Pattern[str] | None, stats: bool, output: Output
) -> dict[str, Any]:
    """The JSON object of a graph: what exporters.inspect says, and the variables of its checkpoint."""
    import exporters
    from exporters.graph import read_graph

    graph = read_graph(path)
    result = exporters.inspect(graph).as_json()
    family = _checkpoint(path, result["kind"])
    result["checkpoint"] = None if family is None else str(family.prefix)
    if family is not None:
        saved = checkpoint_contents(family, regex, stats, output)
        result["variables"], result["parameters"] = saved["variables"], saved["parameters"]
        result["notes"] += saved.get("notes", [])
        if "problems" in saved:
            result["problems"] = saved["problems"]
        return result
    if regex is not None:
        kept = [entry for entry in result["variables"] if regex.search(entry["name"])]
        names = [entry["name"] for entry in result["variables"]]
        result["notes"] += filter_notes(regex, kept, names)
        result["variables"] = kept
    if stats and result["frozen"]:
        problems, notes = add_statistics(_constants(graph), result["variables"], output)
        result["notes"] += notes
        if problems:
            result["problems"] = problems
    return result


def graph_text(result: dict[str, Any], stats: bool) -> str:
    """A graph for people."""
    from checkpoints.errors import counted, listed

    variables = counted(len(result["variables"]), "variable")
    variables += " as constants" if result["frozen"] else ""
    lines = [
        f"{one_line(result['path'])}: {'frozen ' if result['frozen'] else ''}{_KINDS[result['kind']]},"
        f" {counted(result['nodes'], 'node')}, {variables},"
        f" {result['parameters']:,} parameters"
    ]
    if result["checkpoint"] is not None:
        lines.append(f"Checkpoint  {one_line(result['checkpoint'])}")
    lines += endpoint_lines(result)
    for key, signature in result["signatures"].items():
        lines.append(
            f"Signature   {key}: {', '.join(signature['inputs']) or 'nothing'} ->"
            f" {', '.join(signature['outputs']) or 'nothing'}"
        )
    lines.append(ops_line(result))
    lines.append(
        f"Version     written for {result['producer']}, read from {result['min_consumer']} on"
    )
    if result["assets"]:
        lines.append(f"Assets      {', '.join(result['assets'])}")
    lines += metadata_lines(result["metadata"])
    for title, entries in (
        ("Would stop it from serving", _described(result["training_ops"])),
        ("Looks things up in tables", result["tables"]),
        ("Reaches beyond itself", _described(result["unsafe_ops"])),
    ):
        if entries:
            lines += ["", f"{title}:", listed(entries)]
    return "\n".join([*lines, *variable_lines(result, stats)])


def _checkpoint(path: str, kind: str) -> Family | None:
    """The checkpoint that a .meta or SavedModel goes with."""
    from checkpoints.errors import SlimtuneError
    from checkpoints.family import resolve
    from exporters.sources import variables_of_saved_model

    if kind == "saved-model":
        return variables_of_saved_model(Path(path))
    if kind != "meta-graph":
        return None
    try:
        return resolve(path)
    except SlimtuneError:
        return None


def _constants(graph: Any) -> Any:
    from exporters.constant_values import ConstantValues
    from exporters.thawed.weights import find_weights

    nodes = {weight.name: graph.nodes[weight.node] for weight in find_weights(graph)}
    return ConstantValues(graph.label, nodes)


def _endpoint(entry: dict[str, Any]) -> str:
    shape = entry["shape"]
    sizes = "" if shape is None else ", ".join("?" if size is None else str(size) for size in shape)
    dtype = entry["dtype"] or ""
    return f"{entry['name']} {dtype}{'' if shape is None else f' [{sizes}]'}".rstrip()


def endpoint_lines(result: dict[str, Any]) -> list[str]:
    """A line an input and output."""
    lines = [f"Input       {_endpoint(entry)}" for entry in result["inputs"]]
    return lines + [f"Output      {_endpoint(entry)}" for entry in result["outputs"]]


def ops_line(result: dict[str, Any]) -> str:
    """The most frequent ops."""
    ops = [f"{op} {count}" for op, count in result["ops"].items()]
    more = f" and {len(ops) - _SHOWN_OPS} more" if len(ops) > _SHOWN_OPS else ""
    return f"Ops         {', '.join(ops[:_SHOWN_OPS])}{more}"


def metadata_lines(metadata: dict[str, Any] | None) -> list[str]:
    """Class names, preprocessing and net."""
    if metadata is None:
        return []
    lines = []
    if metadata["classes"]:
        names = metadata["classes"]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"Classes     {len(names)}: {shown}")
    if metadata["preprocessing"] is not None:
        lines.append(f"Pictures    preprocessing {metadata['preprocessing'].get('name', '?')}")
    if metadata["net"] is not None:
        step = "" if metadata["step"] is None else f", step {metadata['step']}"
        lines.append(f"Net         {metadata['net']}{step}")
    return lines


def _described(entries: list[dict[str, Any]]) -> list[str]:
    return [f"{entry['name']} ({entry['op']}): {entry['reason']}" for entry in entries]
