"""What every form of a model starts from: the frozen graph, with the metadata that it will carry."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import checkpoints
from checkpoints.api import Checkpoint
from checkpoints.errors import GraphError, UsageError, counted
from checkpoints.files import refuse_existing
from checkpoints.names import averaged_names
from checkpoints.progress import Progress
from checkpoints.selection import select
from exporters.conversion import Conversion, Endpoint, Request
from exporters.fitted_metadata import fit_metadata
from exporters.freezing import FrozenGraph, prepare
from exporters.graph import Graph, as_graph, dimensions
from exporters.inspecting.endpoints import PLACEHOLDERS, signature_inputs
from exporters.keyed_values import KeyedValues
from exporters.labels import count_classes, refuse_other_count
from exporters.metadata import Metadata, read_metadata, stored_metadata
from exporters.names import tensor_of
from exporters.proofs.verdict import Verification
from exporters.savers.names import saved_names
from exporters.sources import Source, graph_wanted, run_directory
from exporters.thawed.weights import find_weights
from exporters.values import Values
from exporters.variables import restored_from_averages


@contextmanager
def prepared(request: Request, progress: Progress) -> Iterator[FrozenGraph]:
    """The frozen graph that was asked for; its variables can be read within the block.

    Raises:
      OutputExistsError: the destination is there and may not be replaced.
      UsageError: options belong to variables alone.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: the graph would be larger than a message can be.
    """
    is_directory = request.form == "saved-model"
    refuse_existing(request.destination, request.overwrite, is_directory=is_directory)
    _refuse_variable_options(request)
    source = request.source
    with _opened(source) as saved:
        if source.graph is None:
            raise graph_wanted(source, saved)
        whole = as_graph(source.graph)
        metadata = request.metadata or read_metadata(whole) or stored_metadata(saved)
        values = _selected(saved, whole, request, progress)
        if metadata is not None and source.step is not None:
            metadata = replace(metadata, step=source.step)
        frozen = prepare(
            whole,
            values,
            outputs=request.outputs,
            inputs=request.inputs or _inputs_of_signature(whole, request.outputs, metadata),
            metadata=metadata,
            settings=request.settings,
            drop_checks=request.drop_checks,
            keep_training=request.keep_training,
            keep_variables=request.options.keep_variables or request.form == "meta",
            form=request.form,
            raw=request.selection.weights == "raw",
            progress=progress,
        )
        yield replace(frozen, metadata=_describe(frozen, request, progress))


def converted(
    request: Request,
    frozen: FrozenGraph,
    verification: Verification,
    *,
    num_bytes: int,
    nodes: int | None,
    written: FrozenGraph | None = None,
) -> Conversion:
    """What is told of a model that was written.

    Args:
      request: what was asked for.
      frozen: the frozen graph, as it was prepared.
      verification: how what was written was compared with it.
      num_bytes: the size of what was written.
      nodes: how many nodes were written, where that can be said.
      written: the graph as it was written, where it was changed on the way.
    """
    written = written or frozen
    family = request.source.family
    return Conversion(
        path=request.destination,
        form=request.form,
        graph=frozen.source.path,
        checkpoint=None if family is None else family.prefix,
        inputs=tuple(Endpoint.of(written.graph, tensor) for tensor in written.inputs),
        outputs=tuple(Endpoint.of(written.graph, tensor) for tensor in written.outputs),
        nodes=nodes,
        parameters=frozen.parameters or _frozen_parameters(frozen),
        num_bytes=num_bytes,
        verification=verification,
        metadata=written.metadata,
    )


def _frozen_parameters(frozen: FrozenGraph) -> int:
    """How many numbers the constants hold that thawing would make variables of."""
    return sum(math.prod(weight.shape) for weight in find_weights(frozen.graph))


def refuse_nothing_kept(request: Request, frozen: FrozenGraph) -> None:
    """Raises UsageError where variables are to be kept of a graph that has none."""
    if request.options.keep_variables and not frozen.variables:
        raise UsageError(
            f"{request.destination}: the graph has no variables to keep.",
            expected="a graph with variables, and the checkpoint that holds them",
            next_step="Leave --keep-variables out, or thaw the graph first: name an output that"
            " ends in .ckpt",
        )


def _refuse_variable_options(request: Request) -> None:
    if request.selection.changes or request.slicing is not None:
        raise UsageError(
            f"{request.destination}: a model needs all of its variables as they are.",
            expected="--include, --exclude, --rename, --dtype, --drop and --partition for"
            " checkpoints and arrays only",
            next_step="Convert the checkpoint first, then that to a model.",
        )
    if request.source.family is None and request.selection.weights != "auto":
        raise UsageError(
            f"{request.destination}: --weights chooses between variables, and the graph has none.",
            next_step="Leave it out, or name the variables: --checkpoint C",
        )


def _opened(source: Source) -> AbstractContextManager[Values]:
    if source.family is None:
        return nullcontext({})
    saved: Checkpoint = checkpoints.open(source.family)
    return saved


def _inputs_of_signature(
    graph: Graph, outputs: Sequence[str], metadata: Metadata | None
) -> list[str]:
    """The signature's inputs as --inputs takes them, where it feeds tensors inside the graph."""
    if outputs:
        return []
    named = signature_inputs(graph, metadata)
    nodes = [graph.nodes.get(tensor.node) for tensor in named]
    if all(node is None or node.op in PLACEHOLDERS for node in nodes):
        return []
    texts = []
    for tensor, info in named.items():
        shape = dimensions(info.tensor_shape)
        sizes = () if shape is None else tuple("?" if size is None else str(size) for size in shape)
        texts.append(f"{tensor}={'x'.join(sizes)}" if sizes else str(tensor))
    return texts


def _selected(saved: Values, graph: Graph, request: Request, progress: Progress) -> Values:
    if not isinstance(saved, Checkpoint):
        return saved
    selection = request.selection
    is_run = run_directory(saved.family) is not None
    if selection.weights == "auto" and is_run and averaged_names(saved.variables):
        # Whoever trained with averages had these evaluated.
        selection = replace(selection, weights="ema")
    if selection.weights == "auto":
        names = saved_names(graph)
        averaged = [node for node in restored_from_averages(names) if names[node] in saved]
        if averaged:
            progress.say(
                f"Weights: the averages of {counted(len(averaged), 'variable')}, since the graph's"
                " own Saver restores these (--weights raw takes the variables themselves)."
            )
            # The names are the Saver's, so nothing is to be taken for anything else.
            selection = replace(selection, weights="raw")
    selected = select(saved, selection, progress=progress)
    if saved.objects is None:
        return selected
    # A SavedModel's graph goes by the keys of its objects, others by the names of variables.
    return KeyedValues(selected, saved.objects.keys)


def _describe(frozen: FrozenGraph, request: Request, progress: Progress) -> Metadata | None:
    """The metadata to write: the graph's, fitted to the pruned graph, with the labels asked for."""
    metadata = frozen.metadata
    if metadata is not None or request.labels is not None:
        metadata = fit_metadata(
            metadata or Metadata(), frozen.graph, frozen.inputs, frozen.outputs, progress
        )
        if request.labels is not None:
            metadata = replace(metadata, classes=request.labels)
    _check_classes(frozen, metadata, request)
    return metadata


def _check_classes(frozen: FrozenGraph, metadata: Metadata | None, request: Request) -> None:
    """Compares the class names, and the number asked for, with the model's own count."""
    names = () if metadata is None else metadata.classes
    if not names and request.classes is None:
        return
    outputs = {} if metadata is None else metadata.outputs
    answers = outputs.get("logits") or outputs.get("probabilities")
    tensor = tensor_of(answers) if answers else frozen.outputs[0]
    count = count_classes(frozen.graph, tensor, frozen.variables)
    if count is None:
        if request.labels is None and request.classes is None:
            return
        raise GraphError(
            f"How many classes {tensor} has cannot be told, so nothing can be counted against it.",
            expected="an output whose last dimension is known, or a dense layer behind it",
            next_step="Name the logits: --outputs NAME",
        )
    if request.classes is not None and request.classes != count:
        raise GraphError(
            f"The model does not have {request.classes} classes.",
            expected=f"{count}, as its weights have",
            received=request.classes,
            next_step=f"Leave --classes out, or train with {request.classes} classes.",
        )
    if names:
        own = "The class names in the metadata"
        refuse_other_count(names, count, own if request.labels is None else request.labels_source)
