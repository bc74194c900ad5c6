"""Lookup tables: what a frozen graph cannot hold, and where their entries come from."""

from __future__ import annotations

import re

from checkpoints.errors import UnsupportedError, listed
from checkpoints.messages import NodeDef
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import node_of
from exporters.saved_models.assets import DIRECTORY, asset_files

_TABLES = re.compile(r"(?:Anonymous)?(?:Mutable)?(?:Dense)?HashTable(?:OfTensors)?(?:V2)?")
_FILLED_FROM_FILES = frozenset({"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"})
_MAX_STEPS = 16


def refuse_tables(graph: Graph, pruned: Graph) -> None:
    """Raises UnsupportedError where the outputs look something up in a table.

    A table is filled when a model is loaded, by a step that no output depends on and often from
    a file. A frozen graph has neither, and would answer as if the table were empty, or fail.

    Args:
      graph: the whole graph, in which the step is.
      pruned: the part that the outputs need.
    """
    found = tables_of(pruned)
    if not found:
        return
    files = _files(graph)
    source = f", filled from {', '.join(files)} when the model is loaded" if files else ""
    raise UnsupportedError(
        f"{graph.label} looks things up in tables{source}, whose entries a graph does not hold:\n"
        f"{listed(found)}",
        expected="a graph whose answers depend on its nodes and variables alone",
        next_step="Cut the graph behind the lookup, where its result is fed: --inputs NAME",
    )


def tables_of(graph: Graph) -> list[str]:
    """The lookup tables of a pruned graph, those of functions included, as `name (op)`."""
    found = [f"{name} ({node.op})" for name, node in graph.nodes.items() if _is_table(node)]
    for name, function in graph.functions.items():
        found += [
            f"{name}/{node.name} ({node.op})" for node in function.node_def if _is_table(node)
        ]
    return found


def _is_table(node: NodeDef) -> bool:
    return _TABLES.fullmatch(node.op) is not None


def _files(graph: Graph) -> list[str]:
    """The files that tables are filled from: as assets, else as the constants that name them."""
    assets = asset_files(graph)
    if assets:
        return [f"{DIRECTORY}/{name}" for name in assets]
    names = {
        name
        for node in graph.nodes.values()
        if node.op in _FILLED_FROM_FILES and len(node.input) > 1
        for name in [_text(graph, node.input[1])]
        if name
    }
    return sorted(names)


def _text(graph: Graph, reference: str) -> str:
    """The text of a constant, looked for behind what passes it on."""
    node: NodeDef | None = graph.nodes.get(node_of(reference))
    for _ in range(_MAX_STEPS):
        if node is None or node.op == "Const" or not node.input:
            break
        node = graph.nodes.get(node_of(node.input[0]))
    if node is None or node.op != "Const":
        return ""
    values = constant_value(node).reshape(-1)
    first = values[0] if values.size else b""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else ""
