"""An inference graph with its variables kept: as a GraphDef, or complete as a MetaGraphDef."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from checkpoints.errors import UnsupportedError, listed
from checkpoints.messages import DataType, GraphDef, MetaGraphDef, SignatureDef
from checkpoints.progress import SILENT, Progress
from exporters.freezing import FrozenGraph
from exporters.graph import Graph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE
from exporters.metadata import metadata_node
from exporters.names import METADATA_NODE, tensor_of
from exporters.ops import DROPPED_ATTRIBUTES
from exporters.proofs.structure import prove_structure
from exporters.rewrites.devices import clear_placement, unplaced_library
from exporters.saved_models.signatures import serving_signature
from exporters.savers.writing import SaverVersion
from exporters.thawed.initialisers import initial_for
from exporters.thawed.loop_contexts import loop_contexts
from exporters.thawed.variable_graph import GraphVariable, complete_meta_graph, trainable_nodes
from exporters.thawed.weights import is_moving_average

_INITIALISER = "__saved_model_init_op"
"""The key under which TensorFlow 2 keeps the node that fills tables."""

_FLOATS = frozenset({DataType.DT_FLOAT, DataType.DT_DOUBLE, DataType.DT_HALF, DataType.DT_BFLOAT16})


def kept_graph(frozen: FrozenGraph) -> Graph:
    """The pruned graph as it is written with its variables: without devices, with the metadata."""
    graph_def = GraphDef()
    for name, node in frozen.graph.nodes.items():
        if name != METADATA_NODE:
            copy = graph_def.node.add()
            copy.CopyFrom(node)
            clear_placement(copy)
            for attribute in DROPPED_ATTRIBUTES:
                copy.attr.pop(attribute, None)
    if frozen.metadata is not None:
        graph_def.node.append(metadata_node(frozen.metadata))
    library = unplaced_library(frozen.graph)
    if library.ByteSize():
        graph_def.library.CopyFrom(library)
    graph_def.versions.CopyFrom(frozen.graph.graph_def.versions)
    return Graph(graph_def, "graph-def", frozen.graph.path, frozen.graph.meta_graph)


def signature_of(frozen: FrozenGraph) -> SignatureDef:
    """The signature of a graph; an input that has a default is none."""
    required = [
        tensor
        for tensor in frozen.inputs
        if frozen.graph.nodes[tensor.node].op != "PlaceholderWithDefault"
    ]
    roles = {} if frozen.metadata is None else frozen.metadata.outputs
    return serving_signature(
        frozen.graph,
        required or frozen.inputs,
        frozen.outputs,
        roles,
        frozen.graph.signatures,
    )


def signatures_of(frozen: FrozenGraph, keeps_others: bool) -> dict[str, SignatureDef]:
    """The signatures of a SavedModel: the default one, and those the source had beside it.

    Args:
      frozen: the graph.
      keeps_others: whether signatures of the source stay whose tensors are all there.
    """
    signatures = {DEFAULT_SIGNATURE: signature_of(frozen)}
    if keeps_others:
        for key, signature in frozen.graph.signatures.items():
            if key not in signatures and _is_there(frozen, signature):
                signatures[key] = signature
    return signatures


def lost_signatures(frozen: FrozenGraph) -> list[str]:
    """The keys of signatures of the source that the pruned graph has not all tensors of."""
    return [
        key
        for key, signature in sorted(frozen.graph.signatures.items())
        if key not in (DEFAULT_SIGNATURE, _INITIALISER) and not _is_there(frozen, signature)
    ]


def _is_there(frozen: FrozenGraph, signature: SignatureDef) -> bool:
    inputs = {tensor_of(info.name) for info in signature.inputs.values()}
    outputs = {tensor_of(info.name).node for info in signature.outputs.values()}
    return bool(outputs) and inputs <= set(frozen.inputs) and outputs <= frozen.graph.nodes.keys()


def kept_variables(frozen: FrozenGraph, own_keys: bool) -> list[GraphVariable]:
    """The variables of a graph, as a MetaGraphDef lists them.

    Args:
      frozen: the graph and where its variables are.
      own_keys: whether they go by the names of their nodes, as in a checkpoint that is written
        for the graph; else by their keys in the checkpoint they are in.

    Raises:
      UnsupportedError: a variable is a slice of one of the checkpoint, which no new Saver reads.
    """
    parts = getattr(frozen.values, "parts", {})
    if parts and not own_keys:
        raise UnsupportedError(
            f"{frozen.graph.label} has parts of variables, for which a Saver is not made anew:\n"
            f"{listed(parts)}",
            expected="whole variables",
            next_step="Write a SavedModel, which holds the parts: x/",
        )
    trainable = trainable_nodes(frozen.graph)
    return [
        GraphVariable(
            name,
            name if own_keys else _key_in_file(frozen, variable.key),
            variable.header,
            _is_trainable(name, variable.header.dtype.number)
            if trainable is None
            else name in trainable,
            initial_for(name, variable.header),
        )
        for name, variable in frozen.variables.items()
    ]


def kept_meta_graph(
    frozen: FrozenGraph,
    variables: Sequence[GraphVariable],
    version: SaverVersion,
    *,
    signatures: Mapping[str, SignatureDef],
    tags: Sequence[str] = (),
    verify: bool = True,
    label: str = "The .meta",
    progress: Progress = SILENT,
) -> bytes:
    """The inference graph as a MetaGraphDef: its variables kept, and what TensorFlow needs of them.

    Args:
      frozen: the graph and its variables.
      variables: as kept_variables gives them.
      version: of the checkpoint.
      signatures: key -> signature.
      tags: of a SavedModel.
      verify: whether the graph and its Saver are proved.
      label: how messages call what is written.
      progress: told what is lost.

    Raises:
      UnsupportedError: a variable cannot be saved.
      VerificationError: the graph is not what its source says.
    """
    contexts = loop_contexts(frozen.graph, frozen.graph.nodes)
    for line in contexts.said:
        progress.say(line)
    graph = kept_graph(frozen)
    graph.graph_def.node.extend(contexts.nodes)
    data = complete_meta_graph(
        graph,
        variables,
        version=version,
        signatures=signatures,
        tags=tags,
        collections=contexts.collections,
        verify=verify,
    )
    if verify:
        _prove_inner(frozen, data, label)
    return data


def _prove_inner(frozen: FrozenGraph, data: bytes, label: str) -> None:
    """What the outputs need of a MetaGraphDef is the source's; the rest serves saving alone."""
    written = MetaGraphDef.FromString(data).graph_def
    names = set(frozen.graph.nodes) | {METADATA_NODE}
    inner = GraphDef()
    inner.node.extend(node for node in written.node if node.name in names)
    if written.HasField("library"):
        inner.library.CopyFrom(written.library)
    inner.versions.CopyFrom(written.versions)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "inner.pb"
        path.write_bytes(inner.SerializeToString(deterministic=True))
        prove_structure(
            path,
            frozen.source,
            {},
            frozen.outputs,
            metadata=frozen.metadata,
            keeps_variables=True,
            label=label,
        )


def _key_in_file(frozen: FrozenGraph, key: str) -> str:
    """The name under which a checkpoint holds what was selected as `key`."""
    source_of = getattr(frozen.values, "source_of", None)
    return key if source_of is None else str(source_of(key))


def _is_trainable(name: str, dtype: int) -> bool:
    return dtype in _FLOATS and not is_moving_average(name)
