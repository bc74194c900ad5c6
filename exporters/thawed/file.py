"""Writes a thawed graph: a checkpoint with the variables and the .meta that goes with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import GraphError, listed
from checkpoints.family import Family
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from checkpoints.slicing import Slicing
from checkpoints.verified import write_verified
from exporters.fitted_metadata import fit_metadata
from exporters.graph import Graph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE, placeholders, resolve_outputs
from exporters.metadata import Metadata, metadata_node, read_metadata
from exporters.names import METADATA_NODE, TensorName
from exporters.ops import VARIABLES
from exporters.proofs.verdict import NOT_VERIFIED, PROVED, Verification, VerifyMode
from exporters.rewrites.import_prefix import without_import_prefix
from exporters.rewrites.placeholders import cut_at_inputs, parse_input
from exporters.rewrites.prune import prune
from exporters.saved_models.signatures import serving_signature
from exporters.savers.writing import SaverVersion
from exporters.thawed.initialisers import initial_for
from exporters.thawed.loop_contexts import loop_contexts
from exporters.thawed.proof import prove_thawed
from exporters.thawed.thawing import ThawedGraph, thaw_graph
from exporters.thawed.variable_graph import GraphVariable, complete_meta_graph
from exporters.values import Header


@dataclass(frozen=True, eq=False)
class Thawing:
    """A frozen graph that is ready to be written as a checkpoint.

    Attributes:
      thawed: the graph with its variables.
      inputs: the tensors to feed.
      outputs: the tensors that hold answers; empty where they are not known.
      metadata: what the graph says of itself, or None.
    """

    thawed: ThawedGraph
    inputs: tuple[TensorName, ...]
    outputs: tuple[TensorName, ...]
    metadata: Metadata | None

    @property
    def parameters(self) -> int:
        """How many numbers its variables hold."""
        return sum(math.prod(weight.shape) for weight in self.thawed.weights)


def prepare_thawing(
    graph: Graph,
    *,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = (),
    metadata: Metadata | None = None,
    progress: Progress = SILENT,
) -> Thawing:
    """Finds the constants that were variables and makes them some; writes nothing yet.

    Args:
      graph: a frozen graph. An `import/` before all of its names is taken off.
      outputs: names of nodes or tensors, to which the graph is pruned; left out, all of it stays.
      inputs: tensors to feed, as NAME or NAME=?x224x224x3, where the graph is cut.
      metadata: what is written into the graph; left out, what it has already.
      progress: told what became variables, and what cannot come back.

    Raises:
      GraphError: the graph has variables already, or no constant that was one, or a name is not
        there.
    """
    _refuse_variables(graph)
    named = without_import_prefix(graph)
    if named is not graph:
        progress.say("The prefix import/ was taken off all names.")
    graph = _with_metadata(named, metadata)
    metadata = metadata or read_metadata(named)
    answers = _outputs_of(graph, outputs, bool(inputs), metadata, progress)
    if outputs:
        graph = prune(graph, answers).graph
    fed = placeholders(graph, metadata)
    if inputs:
        cut = cut_at_inputs(graph, answers, [parse_input(text) for text in inputs])
        graph, fed = cut.graph, cut.inputs
        fed += tuple(tensor for tensor in placeholders(graph) if tensor not in fed)
        for line in cut.said:
            progress.say(line)
    if metadata is not None and (inputs or outputs):
        metadata = fit_metadata(metadata, graph, fed, answers, progress)
        graph = _with_metadata(graph, metadata)
    thawed = thaw_graph(graph, answers)
    for line in thawed.said:
        progress.say(line)
    return Thawing(thawed, fed, answers, metadata)


def write_thawed(
    thawing: Thawing,
    path: Path,
    *,
    version: SaverVersion = "v2",
    verify: VerifyMode = "auto",
    overwrite: bool = False,
    slicing: Slicing | None = None,
    trust: bool = False,
    progress: Progress = SILENT,
) -> tuple[Family, Verification]:
    """Writes a checkpoint and its .meta; both get their names once they are verified.

    Args:
      thawing: what is written.
      path: the checkpoint's prefix.
      version: the checkpoint's.
      verify: "structure" compares every node and value with the frozen graph; "run" runs both on
        the same inputs too; "auto" is "structure".
      overwrite: whether a checkpoint that is there already is replaced.
      slicing: which variables are written in slices; left out, none.
      trust: whether ops that reach files, the network or Python are run.
      progress: told how far it is.

    Raises:
      OutputExistsError: a checkpoint is there and may not be replaced.
      VerificationError: what was written is not what it should be; nothing is left of it.
      UnsupportedError: "run" was asked for and no input can be made up.
    """
    thawed = thawing.thawed
    variables = [
        GraphVariable(
            weight.name,
            weight.name,
            header := Header(weight.dtype, weight.shape),
            weight.is_trainable,
            initial_for(weight.name, header, weight.roles),
        )
        for weight in thawed.weights
    ]
    signatures = {}
    if thawing.outputs:
        roles = {} if thawing.metadata is None else thawing.metadata.outputs
        signature = serving_signature(thawed.source, thawing.inputs, thawing.outputs, roles)
        signatures[DEFAULT_SIGNATURE] = signature
    contexts = loop_contexts(thawed.source, thawed.graph.nodes)
    for line in contexts.said:
        progress.say(line)
    data = complete_meta_graph(
        thawed.graph,
        variables,
        version=version,
        signatures=signatures,
        collections=contexts.collections,
        verify=verify != "none",
    )
    verification = NOT_VERIFIED
    if verify != "none":
        trainable = [variable.node for variable in variables if variable.is_trainable]
        prove_thawed(thawed.source, data, thawed.values, trainable, f"{path}.meta")
        verification = PROVED
    if verify == "run":
        # Running needs TensorFlow, which the file half does without.
        from exporters.proofs.verification import verify_thawed

        verification = verify_thawed(
            thawed, thawing.inputs, thawing.outputs, str(path), trust=trust, progress=progress
        )
    written = write_verified(
        path,
        thawed.values,
        version=version,
        overwrite=overwrite,
        slicing=slicing,
        meta=data,
        verify=verify != "none",
        progress=progress,
    )
    return written, verification


def _refuse_variables(graph: Graph) -> None:
    own = [f"{name} ({node.op})" for name, node in graph.nodes.items() if node.op in VARIABLES]
    if own:
        raise GraphError(
            f"{graph.label} is not frozen: it has variables, whose values it does not hold:\n"
            f"{listed(own)}",
            expected="a graph whose variables are constants",
            next_step="Say where its variables are: --checkpoint C",
        )


def _outputs_of(
    graph: Graph,
    outputs: Sequence[str],
    is_needed: bool,
    metadata: Metadata | None,
    progress: Progress,
) -> tuple[TensorName, ...]:
    """The outputs; none where nobody named them and they cannot be told, and need not be."""
    try:
        return resolve_outputs(graph, outputs, metadata, progress)
    except GraphError:
        if outputs or is_needed:
            raise
        return ()


def _with_metadata(graph: Graph, metadata: Metadata | None) -> Graph:
    """The graph with other metadata in it."""
    if metadata is None:
        return graph
    changed = GraphDef(library=graph.graph_def.library, versions=graph.graph_def.versions)
    changed.node.extend(node for node in graph.graph_def.node if node.name != METADATA_NODE)
    changed.node.append(metadata_node(metadata))
    return Graph(changed, graph.kind, graph.path, graph.meta_graph)
