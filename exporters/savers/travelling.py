"""The .meta that goes with a checkpoint: copied, or with a Saver that fits what was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from checkpoints.api import Checkpoint
from checkpoints.errors import GraphError, UnsupportedError, VerificationError, counted
from checkpoints.names import averaged_names
from checkpoints.progress import Progress
from checkpoints.selection import SelectedVariables, Selection, select
from exporters.graph import Graph, as_graph
from exporters.savers.meta_graph import importable_version, meta_graph_bytes, with_edits
from exporters.savers.meta_proof import prove_meta
from exporters.savers.rebuild import Rebuilt, rebuild_saver
from exporters.savers.writing import SaverVersion
from exporters.sources import RUN_GRAPH, Source, run_directory
from exporters.values import Header, header_of

_SHOWN = 3
_VARIABLES = "variables"
"""The directory and the prefix of a SavedModel's variables, and the collection that lists some."""

_NOT_IN_V1 = re.compile(r"bfloat16|float8.*|u?int[24]")
"""Dtypes that TensorFlow does not read in V1. (It does not write uint32 and uint64, but reads them.)"""


@dataclass(frozen=True)
class Travelling:
    """A .meta that is to be written.

    Attributes:
      data: its bytes.
      graph: the file it comes from, or None for a graph in memory.
      num_nodes: how many nodes it has; None where it was copied as it is.
    """

    data: bytes
    graph: Path | None
    num_nodes: int | None = None


def carried_meta(saved: Checkpoint, version: str, *, progress: Progress) -> bytes | None:
    """The .meta for a checkpoint with the variables of another but other values, as a mean is.

    Args:
      saved: the other; the .meta beside it is taken.
      version: the form that is written; a file of arrays takes no .meta.
      progress: told what was done.

    Returns:
      None where there is no .meta, or it cannot be used, which is said.
    """
    if saved.family.meta is None or version not in ("v1", "v2"):
        return None
    travelling = travelling_meta(
        Source(saved.family.meta, saved.family),
        cast("SaverVersion", version),
        saved,
        select(saved, Selection(weights="raw")),
        progress=progress,
    )
    return None if travelling is None else travelling.data


def travelling_meta(
    source: Source,
    version: SaverVersion,
    saved: Checkpoint,
    selected: SelectedVariables,
    *,
    is_averaged: bool = False,
    verify: bool = True,
    progress: Progress,
) -> Travelling | None:
    """The .meta of a checkpoint that is written from another, where there is a graph for it.

    Args:
      source: graph and files of the checkpoint it is written from.
      version: the version that is written.
      saved: the checkpoint it is written from.
      selected: what is written.
      is_averaged: whether averages are written under the names of their variables.
      verify: whether the result is proved to be the graph but for its Saver.
      progress: told what was done.

    Returns:
      None where there is no graph, and where a .meta beside the source cannot be used, which is
      said.

    Raises:
      GraphError: the graph that was asked for cannot be read, or has none of the variables.
      UnsupportedError: its Saver cannot be rebuilt.
      VerificationError: the result is not what it should be.
    """
    graph, was_asked_for = _graph_of(source)
    if graph is None:
        return None
    own = source.family.meta if source.family is not None else None
    try:
        if isinstance(graph, Path) and graph == own and _is_unchanged(version, saved, selected):
            # Read all the same: what is no graph does not travel unseen.
            as_graph(graph)
            progress.say(f"{graph.name} goes with it, as it is.")
            return Travelling(graph.read_bytes(), graph)
        return _rebuilt(graph, version, saved, selected, is_averaged, verify, progress)
    except (GraphError, UnsupportedError, VerificationError) as error:
        if was_asked_for:
            raise
        hint = "" if error.next_step is None else f"\nNext: {error.next_step}"
        progress.say(f"No .meta was written: {error.message}{hint}")
        return None


def _graph_of(source: Source) -> tuple[Path | Graph | None, bool]:
    """The graph, and whether it was asked for and not merely found beside the variables."""
    graph, family = source.graph, source.family
    if graph is None or family is None:
        return graph, graph is not None
    if not isinstance(graph, Path):
        return as_graph(graph), True
    run = run_directory(family)
    if run is not None and graph == run / RUN_GRAPH:
        return family.meta or graph, False
    folder = family.prefix.parent
    of_saved_model = folder.name == family.prefix.name == _VARIABLES and (
        folder.parent in (graph, graph.parent)
    )
    return graph, graph != family.meta and not of_saved_model


def _is_unchanged(version: SaverVersion, saved: Checkpoint, selected: SelectedVariables) -> bool:
    """Whether what is written has the version, keys and dtypes that the graph's Saver knows."""
    return (
        saved.family.kind == f"checkpoint-{version}"
        and saved.objects is None
        and selected.variables == saved.variables
        and all(selected.source_of(name) == name for name in selected)
    )


def _rebuilt(
    graph: Path | Graph,
    version: SaverVersion,
    saved: Checkpoint,
    selected: SelectedVariables,
    is_averaged: bool,
    verify: bool,
    progress: Progress,
) -> Travelling:
    whole = as_graph(graph)
    held = {name: header_of(selected, name) for name in selected}
    renamed = _renamed(saved, selected, is_averaged)
    rebuilt = rebuild_saver(whole, version, held, renamed)
    if not rebuilt.keys:
        raise GraphError(
            f"{whole.label} has none of the checkpoint's variables.",
            expected=f"variables like {_some(list(held))}",
            next_step="Give the graph that the checkpoint was saved from (--graph).",
        )
    source = meta_graph_bytes(whole)
    stated = "" if whole.meta_graph is None else whole.meta_graph.meta_info_def.tensorflow_version
    importable = importable_version(stated)
    data = with_edits(
        source,
        whole,
        rebuilt.edits,
        rebuilt.definition,
        None if importable == stated else importable,
    )
    if verify:
        prove_meta(
            source,
            data,
            version=version,
            held=held,
            renamed=renamed,
            absent=rebuilt.absent,
            label="The .meta",
        )
    _tell(rebuilt, version, held, progress)
    if whole.meta_graph is None or _VARIABLES not in whole.meta_graph.collection_def:
        progress.say(
            "The .meta lists no variables, as the graph it comes from does: its Saver restores"
            " them, but TensorFlow 1 finds nothing in it to train. For that freeze the graph, and"
            " convert x.pb to x.ckpt."
        )
    if importable != stated:
        progress.say(
            f"The graph says it is of TensorFlow {stated!r}, which TensorFlow cannot import: the"
            f" .meta says {importable}."
        )
    nodes = len(whole.graph_def.node) + len(rebuilt.edits.added) - len(rebuilt.edits.removed)
    return Travelling(data, whole.path, nodes)


def _renamed(saved: Checkpoint, selected: SelectedVariables, is_averaged: bool) -> dict[str, str]:
    """Key as a Saver of the source's graph has it -> key in what is written."""
    variable_of = {}
    if is_averaged:
        averages = averaged_names(saved.variables)
        variable_of = {average: name for name, average in averages.items()}
    renamed = {}
    for name in selected:
        read = selected.source_of(name)
        own = variable_of.get(read, read)
        renamed[own] = name
        if saved.objects is not None and own in saved.objects.keys:
            renamed.setdefault(saved.objects.keys[own], name)
    return renamed


def _tell(
    rebuilt: Rebuilt, version: SaverVersion, held: dict[str, Header], progress: Progress
) -> None:
    progress.say(
        f"The .meta goes with it; its Saver saves and restores {version.upper()},"
        f" {counted(len(rebuilt.keys), 'variable')}."
    )
    if rebuilt.dropped:
        progress.say(
            f"The .meta's Saver leaves {counted(len(rebuilt.dropped), 'variable')} that the"
            f" checkpoint does not hold: {_some(rebuilt.dropped)}."
        )
    if rebuilt.absent:
        progress.say(
            f"The .meta's Saver leaves {counted(len(rebuilt.absent), 'variable')} of the checkpoint,"
            f" which none of the graph's fits: {_some(rebuilt.absent)}."
        )
    if rebuilt.others:
        progress.say(f"Nodes of other Savers stay as they are: {_some(rebuilt.others)}.")
    unread = [name for name, header in held.items() if _NOT_IN_V1.fullmatch(header.dtype.name)]
    if version == "v1" and unread:
        progress.say(
            f"TensorFlow cannot restore {counted(len(unread), 'variable')} from V1, whose dtypes it"
            f" does not read there: {_some(unread)}."
        )


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
