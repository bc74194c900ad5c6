"""Writes a frozen graph as variables: a checkpoint with its .meta, or a file of arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from checkpoints.api import Version
from checkpoints.errors import UsageError
from checkpoints.family import Family
from checkpoints.progress import SILENT, Progress
from checkpoints.selection import SelectedVariables, select
from checkpoints.verified import write_verified
from exporters.conversion import Conversion, Endpoint, Request
from exporters.graph import as_graph
from exporters.metadata import Metadata
from exporters.names import METADATA_NODE
from exporters.preparing import prepared
from exporters.proofs.verdict import NOT_VERIFIED, PROVED, Verification
from exporters.savers.writing import SaverVersion
from exporters.thawed.file import Thawing, prepare_thawing, write_thawed

_ARRAYS = ("npz", "safetensors")


def write(request: Request, progress: Progress) -> Conversion:
    """Makes variables of the graph's constants, and writes them.

    Raises:
      OutputExistsError: a checkpoint is there and may not be replaced.
      GraphError: the graph has variables already, or no constant that was one.
      UnsupportedError: the form cannot hold a variable.
      UsageError: an option does not go with what is written.
      VerificationError: what was written is not what it should be; nothing is left of it.
    """
    metadata = _metadata(request)
    thawing = prepare_thawing(
        as_graph(request.source.graph),
        outputs=request.outputs,
        inputs=request.inputs,
        metadata=metadata,
        progress=progress,
    )
    selected = select(thawing.thawed.values, request.selection, progress=progress)
    is_variables_only = request.form in _ARRAYS or request.selection.changes
    if is_variables_only:
        written, verification = _write_variables(request, selected, thawing, progress)
    else:
        written, verification = write_thawed(
            thawing,
            request.destination,
            version=cast("SaverVersion", request.form),
            verify=request.verify,
            overwrite=request.overwrite,
            slicing=request.slicing,
            trust=request.trust,
            progress=progress,
        )
    graph = thawing.thawed.graph
    return Conversion(
        path=written.prefix,
        form=request.form,
        graph=graph.path,
        checkpoint=None,
        inputs=tuple(Endpoint.of(graph, tensor) for tensor in thawing.inputs),
        outputs=tuple(Endpoint.of(graph, tensor) for tensor in thawing.outputs),
        nodes=None if is_variables_only else len(graph.nodes),
        parameters=selected.count_parameters(),
        num_bytes=written.num_bytes,
        verification=verification,
        metadata=thawing.metadata,
    )


def _metadata(request: Request) -> Metadata | None:
    """What is written into the graph, the class names counted against its answers."""
    if request.labels is None and request.classes is None:
        return request.metadata
    with prepared(replace(request, keep_training=True), SILENT) as frozen:
        return frozen.metadata


def _write_variables(
    request: Request, selected: SelectedVariables, thawing: Thawing, progress: Progress
) -> tuple[Family, Verification]:
    """Writes the variables alone: a graph would not fit a part of them, or other names."""
    if request.verify == "run":
        raise UsageError(
            "Variables alone cannot be run.", expected="--verify structure, auto or none"
        )
    texts = {}
    if request.form in _ARRAYS:
        if thawing.metadata is not None:
            texts[METADATA_NODE] = thawing.metadata.to_text()
    else:
        progress.say("No .meta was written: variables were left out, renamed or cast.")
    written = write_verified(
        request.destination,
        selected,
        version=cast("Version", request.form),
        overwrite=request.overwrite,
        metadata=texts,
        slicing=request.slicing,
        verify=request.verify != "none",
        progress=progress,
    )
    return written, NOT_VERIFIED if request.verify == "none" else PROVED
