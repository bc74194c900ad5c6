"""Writes variables as a checkpoint or as arrays, and compares what was written with its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import checkpoints
from checkpoints.api import Checkpoint, Version
from checkpoints.errors import UsageError, counted
from checkpoints.family import Kind
from checkpoints.files import is_same_place
from checkpoints.mapped import map_file
from checkpoints.placing import Place
from checkpoints.progress import Progress
from checkpoints.selection import select
from checkpoints.steps import STEP, step_of, step_variables
from checkpoints.verified import write_verified
from checkpoints.writable import refuse_words
from exporters.conversion import Conversion, Request
from exporters.graph import as_graph
from exporters.metadata import Metadata, read_metadata, stored_metadata
from exporters.names import METADATA_NODE
from exporters.proofs.verdict import NOT_VERIFIED, PROVED
from exporters.savers.travelling import travelling_meta
from exporters.savers.writing import SaverVersion
from exporters.writers import thawed

_KINDS: dict[str, Kind] = {
    "v1": "checkpoint-v1",
    "v2": "checkpoint-v2",
    "npz": "npz",
    "safetensors": "safetensors",
}
_HOLD_METADATA = ("npz", "safetensors")


def write(request: Request, progress: Progress) -> Conversion:
    """Writes the selected variables.

    Raises:
      OutputExistsError: a checkpoint is there and may not be replaced.
      UnsupportedError: the form cannot hold a variable.
      GraphError: the source is a graph without constants that were variables.
      UsageError: an option belongs to graphs, or the form has no place for class names.
      NotFoundError: nothing is selected.
      PlanError: averages or new names do not fit.
      VerificationError: the written variables differ; nothing is written.
    """
    family = request.source.family
    if family is None:
        return thawed.write(request, progress)
    _refuse_graph_options(request)
    is_same = is_same_place(family.prefix, request.destination)
    if is_same and family.kind == _KINDS[request.form]:
        raise UsageError(
            f"{request.destination} is the source itself.", next_step="Name another output."
        )
    # Before anything is read or said.
    version = cast("Version", request.form)
    refuse_words(request.destination, version, None, request.slicing)
    Place(request.destination, request.form, overwrite=request.overwrite)
    with checkpoints.open(family) as saved:
        if saved.objects is not None:
            progress.say(f"{family.prefix.name} is object-based; what is written goes by names.")
            for note in saved.objects.notes:
                progress.say(note)
        selected = select(saved, request.selection, progress=progress)
        metadata = _metadata(request, saved)
        texts = {}
        if request.form in _HOLD_METADATA:
            texts = _texts(saved, metadata)
        else:
            _say_what_is_lost(request.form, saved, metadata, progress)
            metadata = None
        travelling = None
        if request.form not in _HOLD_METADATA:
            travelling = travelling_meta(
                request.source,
                cast("SaverVersion", request.form),
                saved,
                selected,
                is_averaged=request.selection.weights == "ema",
                verify=request.verify != "none",
                progress=progress,
            )
        written = write_verified(
            request.destination,
            selected,
            version=version,
            overwrite=request.overwrite,
            metadata=texts,
            slicing=request.slicing,
            meta=None if travelling is None else travelling.data,
            verify=request.verify != "none",
            progress=progress,
        )
        for name, count in selected.overflows.items():
            progress.say(
                f"{name}: {counted(count, 'value')} too large for"
                f" {selected.variables[name].dtype_name} became infinite."
            )
        parameters = selected.count_parameters()
    return Conversion(
        path=written.prefix,
        form=request.form,
        graph=None if travelling is None else travelling.graph,
        checkpoint=family.prefix,
        inputs=(),
        outputs=(),
        nodes=None if travelling is None else travelling.num_nodes,
        parameters=parameters,
        num_bytes=written.num_bytes,
        verification=NOT_VERIFIED if request.verify == "none" else PROVED,
        metadata=metadata,
    )


def _refuse_graph_options(request: Request) -> None:
    graph_options = {
        "--outputs": bool(request.outputs),
        "--inputs": bool(request.inputs),
        "--classes": request.classes is not None,
        "--set": bool(request.settings),
        "--drop-checks": request.drop_checks,
        "--labels": request.labels is not None and request.form not in _HOLD_METADATA,
    }
    given = [option for option, is_given in graph_options.items() if is_given]
    if given:
        raise UsageError(
            f"{request.destination}: variables alone are written, and {', '.join(given)} says"
            " something of a model.",
            next_step="Leave it out, or write a model: x.pb",
        )
    if request.verify == "run":
        raise UsageError("A checkpoint cannot be run.", expected="--verify structure, auto or none")


def _metadata(request: Request, saved: Checkpoint) -> Metadata | None:
    """What is known of the model beside its variables."""
    metadata = request.metadata or stored_metadata(saved)
    graph = request.source.graph
    # A graph of a Saver has none; it is only parsed where the bytes say that it has.
    if metadata is None and isinstance(graph, Path) and _mentions_metadata(graph):
        metadata = read_metadata(as_graph(graph))
    if request.labels is not None:
        metadata = replace(metadata or Metadata(), classes=request.labels)
    return metadata


def _mentions_metadata(graph: Path) -> bool:
    return graph.is_file() and METADATA_NODE.encode("utf-8") in bytes(map_file(graph))


def _texts(saved: Checkpoint, metadata: Metadata | None) -> dict[str, str]:
    """The text by key that goes into a file of arrays."""
    texts = dict(saved.metadata)
    step = step_of(saved, saved.family)
    if step is not None:
        texts[STEP] = str(step)
    if metadata is not None:
        known = metadata.step if step is None else step
        texts[METADATA_NODE] = replace(metadata, step=known).to_text()
    return texts


def _say_what_is_lost(
    form: str, saved: Checkpoint, metadata: Metadata | None, progress: Progress
) -> None:
    lost = set(saved.metadata) | (set() if metadata is None else {METADATA_NODE})
    if step_variables(saved):
        lost.discard(STEP)
    if lost:
        progress.say(
            f"Left out: {', '.join(sorted(lost))}; a {form.upper()} checkpoint has no place for what"
            " is no variable."
        )
