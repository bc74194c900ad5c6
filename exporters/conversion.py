"""`exporters.convert`: from any source that is read to any form that is written."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkpoints import dtypes
from checkpoints.progress import SILENT, Notes, Progress
from checkpoints.selection import Selection
from checkpoints.slicing import Slicing
from exporters.forms import form_of
from exporters.graph import Graph
from exporters.labels import read_labels
from exporters.metadata import Metadata
from exporters.names import TensorName
from exporters.options import ModelOptions
from exporters.proofs.verdict import Verification, VerifyMode
from exporters.rewrites.settings import parse_settings
from exporters.sources import Source, find_source, refuse_source


@dataclass(frozen=True)
class Endpoint:
    """An input or output of a model.

    Attributes:
      name: the tensor.
      dtype: TensorFlow's name of its dtype; None where the graph does not say it.
      shape: None for an open dimension; None for an unknown rank.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None

    @classmethod
    def of(cls, graph: Graph, tensor: TensorName) -> Endpoint:
        """What a graph says of one of its tensors."""
        number = graph.dtype(tensor)
        name = None if number is None else dtypes.name_of_number(number)
        return cls(str(tensor), name, graph.shape(tensor))

    def as_json(self) -> dict[str, Any]:
        """The object that stands under "inputs" and "outputs"."""
        shape = None if self.shape is None else list(self.shape)
        return {"name": self.name, "dtype": self.dtype, "shape": shape}


@dataclass(frozen=True)
class Conversion:
    """A conversion that was done.

    Attributes:
      path: what was written; of a checkpoint the prefix.
      form: the form's name, as `--to` takes it.
      graph: the file the graph came from; None where it came from memory, or none was needed.
      checkpoint: the prefix of the variables; None where the graph held constants.
      inputs: the tensors to feed.
      outputs: the tensors that hold answers.
      nodes: how many nodes were written; None where no graph was.
      parameters: how many numbers the variables hold.
      num_bytes: the size of what was written.
      verification: how it was compared with its source, and what came out.
      metadata: what was written into it, or None.
      notes: choices and changes, a line each.
    """

    path: Path
    form: str
    graph: Path | None
    checkpoint: Path | None
    inputs: tuple[Endpoint, ...]
    outputs: tuple[Endpoint, ...]
    nodes: int | None
    parameters: int
    num_bytes: int
    verification: Verification
    metadata: Metadata | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "path": str(self.path),
            "form": self.form,
            "graph": None if self.graph is None else str(self.graph),
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
            "inputs": [endpoint.as_json() for endpoint in self.inputs],
            "outputs": [endpoint.as_json() for endpoint in self.outputs],
            "nodes": self.nodes,
            "parameters": self.parameters,
            "bytes": self.num_bytes,
            "notes": list(self.notes),
            "verification": self.verification.as_json(),
            "metadata": None if self.metadata is None else self.metadata.as_json(),
        }


@dataclass(frozen=True)
class Request:
    """How a conversion is to be done: the options of `convert`, resolved as far as forms share them.

    Attributes:
      destination: what is to be written.
      form: the name of its form.
      source: graph and variables.
      outputs: names of nodes or tensors; empty for a guess.
      inputs: as in `--inputs`; empty for the placeholders.
      labels: class names to write, or None.
      labels_source: the file they came from, for messages.
      classes: how many classes the model has to have, or None.
      metadata: what to write in place of the graph's own, or None.
      verify: how to verify.
      settings: placeholder -> the value it has from now on, as text.
      drop_checks: whether assertions, numeric checks and prints are taken out.
      keep_training: whether nodes that belong to training are left as they are.
      overwrite: whether what is there is replaced.
      trust: whether ops that reach files, the network or Python are run.
      selection: which variables are taken, and how.
      slicing: which variables a checkpoint keeps in slices.
      options: how a model is changed on its way.
    """

    destination: Path
    form: str
    source: Source
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    labels: tuple[str, ...] | None
    labels_source: str
    classes: int | None
    metadata: Metadata | None
    verify: VerifyMode
    settings: Mapping[str, str]
    drop_checks: bool
    keep_training: bool
    overwrite: bool
    trust: bool
    selection: Selection
    slicing: Slicing | None
    options: ModelOptions


def convert(
    source: str | Path | Graph,
    destination: str | Path,
    *,
    graph: str | Path | Graph | Any = None,
    checkpoint: str | Path | None = None,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = (),
    labels: str | Path | Sequence[str] | None = None,
    classes: int | None = None,
    verify: VerifyMode = "auto",
    set: Iterable[str] | Mapping[str, Any] = (),
    drop_checks: bool = False,
    keep_training: bool = False,
    overwrite: bool = False,
    trust: bool = False,
    metadata: Metadata | None = None,
    to: str | None = None,
    selection: Selection | None = None,
    slicing: Slicing | None = None,
    options: ModelOptions | None = None,
    progress: Progress = SILENT,
) -> Conversion:
    """Converts a model, and verifies what was written before it gets its name.

    Args:
      source: a checkpoint in any spelling with its .meta beside, a run directory, a graph file,
        a SavedModel's directory, or a graph in memory.
      destination: what to write; its name tells the form.
      graph: the graph of a checkpoint without a .meta: a file, a GraphDef or a Graph.
      checkpoint: the variables of a graph.
      outputs: names of nodes or tensors; left out, those of the metadata or signature, else a
        guess.
      inputs: tensors to feed, as NAME or NAME=?x224x224x3; left out, the placeholders, or the
        one tensor that an input pipeline gives to the outputs.
      labels: class names, or a file with one a line; as many as there are classes.
      classes: how many classes the model has to have; left out, as many as it has.
      verify: "structure", "run", "none", or "auto": structure where nothing but variables
        changed, else run.
      set: placeholders that become constants: NAME=VALUE each, or a mapping. `is_training`,
        `keep_prob` and their like are set without asking.
      drop_checks: whether assertions, numeric checks and prints are taken out.
      keep_training: whether nodes that belong to training are left as they are.
      overwrite: whether what is there already is replaced.
      trust: whether ops that reach files, the network or Python are run in verification.
      metadata: what is written into the model; left out, what the graph has.
      to: the form, where the name of the destination does not tell it.
      selection: of a checkpoint: which variables are taken, under which names and in which
        dtype; of a model only its choice of weights counts.
      slicing: which variables a V1 or V2 checkpoint keeps in slices; left out, none.
      options: how a model is changed on its way: optimised, quantised, ...
      progress: told of choices, and how far the work is.

    Raises:
      UsageError: the name tells no form, an option does not go with it, or a file of the source
        would be replaced.
      UnsupportedError: the model does not fit into the form.
      OutputExistsError: the destination is there and may not be replaced.
      NotFoundError: a file is not there.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      VerificationError: what was written is not what it should be; it is not left in place.
    """
    form = form_of(destination, to)
    options = options or ModelOptions()
    options.refuse_for(form.name)
    notes = Notes(progress)
    request = Request(
        destination=Path(destination),
        form=form.name,
        source=find_source(source, graph, checkpoint, notes),
        outputs=tuple(outputs),
        inputs=tuple(inputs),
        labels=_labels(labels),
        labels_source=str(labels) if isinstance(labels, str | Path) else "The class names",
        classes=classes,
        metadata=metadata,
        verify=verify,
        settings=parse_settings(set),
        drop_checks=drop_checks,
        keep_training=keep_training,
        overwrite=overwrite,
        trust=trust,
        selection=selection or Selection(),
        slicing=slicing,
        options=options,
    )
    refuse_source(request.source, request.destination, request.form)
    conversion = _load(form.writer)(request, notes)
    return replace(conversion, notes=tuple(notes.lines))


def _labels(labels: str | Path | Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(labels, str | Path):
        return read_labels(labels)
    return None if labels is None else tuple(labels)


def _load(writer: str) -> Callable[[Request, Progress], Conversion]:
    """The function that "module:function" names."""
    module, _, function = writer.partition(":")
    loaded: Callable[[Request, Progress], Conversion] = getattr(
        importlib.import_module(module), function
    )
    return loaded
