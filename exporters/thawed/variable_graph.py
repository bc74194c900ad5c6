"""A graph with variables made complete: initialisers, collections, a Saver and a signature.

TensorFlow's import_meta_graph finds the variables in collections of VariableDefs, which name for
each the node that holds it, one that assigns its initial value and one that reads it; and the
nodes that save and restore in the SaverDef.

Source:
  VariableDef and SaverDef as in TensorFlow's variable.proto and saver.proto, and what
  tf.compat.v1.train.export_meta_graph writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from checkpoints.errors import UnsupportedError, listed
from checkpoints.messages import GraphDef, MetaGraphDef, NodeDef, SignatureDef, VariableDef
from exporters.graph import Graph
from exporters.names import is_control, node_of
from exporters.ops import HANDLE_VARIABLES
from exporters.rewrites.devices import clear_placement, unplaced_library
from exporters.savers.graph_edits import GraphEdits
from exporters.savers.meta_graph import with_edits
from exporters.savers.meta_proof import prove_meta
from exporters.savers.rebuild import rebuild_saver
from exporters.savers.writing import SaverVersion
from exporters.thawed.initialisers import Initial, add_initialiser
from exporters.values import Header

VARIABLES = "variables"
TRAINABLE_VARIABLES = "trainable_variables"
"""The collections of TensorFlow's GraphKeys.GLOBAL_VARIABLES and TRAINABLE_VARIABLES."""


@dataclass(frozen=True)
class GraphVariable:
    """A variable of a graph.

    Attributes:
      node: its node, a VarHandleOp, VariableV2 or the like.
      key: its name in the checkpoint.
      header: its dtype and shape.
      is_trainable: whether optimisers change it.
      initial: what it begins with where nothing is restored.
    """

    node: str
    key: str
    header: Header
    is_trainable: bool
    initial: Initial


def complete_meta_graph(
    graph: Graph,
    variables: Sequence[GraphVariable],
    *,
    version: SaverVersion,
    signatures: Mapping[str, SignatureDef] | None = None,
    tags: Sequence[str] = (),
    collections: Mapping[str, Sequence[bytes]] | None = None,
    verify: bool = True,
) -> bytes:
    """The MetaGraphDef of a graph with variables, as import_meta_graph takes it.

    Args:
      graph: nodes and functions; its own collections and Saver do not count.
      variables: all of its variables.
      version: of the checkpoint that its Saver writes; it restores both.
      signatures: key -> signature.
      tags: of a SavedModel.
      collections: further ones, by key.
      verify: whether the Saver is proved to fit the variables.

    Raises:
      UnsupportedError: a variable's node cannot be saved under its key.
      VerificationError: the Saver is not what it should be.
    """
    graph = _unplaced(graph)
    edits = GraphEdits(graph)
    definitions = [_definition(graph, edits, variable) for variable in variables]
    message = MetaGraphDef()
    message.meta_info_def.tags.extend(tags)
    message.meta_info_def.SetInParent()
    message.graph_def.CopyFrom(_with_edits(graph, edits))
    for key, signature in (signatures or {}).items():
        message.signature_def[key].CopyFrom(signature)
    for key, entries in (collections or {}).items():
        message.collection_def[key].bytes_list.value.extend(entries)
    for definition in definitions:
        data = definition.SerializeToString(deterministic=True)
        message.collection_def[VARIABLES].bytes_list.value.append(data)
        if definition.trainable:
            message.collection_def[TRAINABLE_VARIABLES].bytes_list.value.append(data)
    return _with_saver(message, variables, version, verify)


def trainable_nodes(graph: Graph) -> set[str] | None:
    """The nodes of the variables that a MetaGraphDef lists as trainable; None where it lists none."""
    collections = {} if graph.meta_graph is None else graph.meta_graph.collection_def
    if TRAINABLE_VARIABLES not in collections:
        return None
    data = collections[TRAINABLE_VARIABLES].bytes_list.value
    try:
        return {node_of(VariableDef.FromString(entry).variable_name) for entry in data}
    except DecodeError:
        return None


def _unplaced(graph: Graph) -> Graph:
    graph_def = GraphDef()
    for node in graph.graph_def.node:
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        clear_placement(copy)
        copy.attr.pop("_output_shapes", None)
    graph_def.library.CopyFrom(unplaced_library(graph))
    graph_def.versions.CopyFrom(graph.graph_def.versions)
    return Graph(graph_def, "graph-def", graph.path)


def _with_edits(graph: Graph, edits: GraphEdits) -> GraphDef:
    graph_def = GraphDef()
    graph_def.CopyFrom(graph.graph_def)
    graph_def.node.extend(edits.added.values())
    return graph_def


def _definition(graph: Graph, edits: GraphEdits, variable: GraphVariable) -> VariableDef:
    """Adds what a variable lacks, and describes it."""
    node = graph.nodes[variable.node]
    is_handle = node.op in HANDLE_VARIABLES
    initial = add_initialiser(edits, variable.node, variable.header, variable.initial)
    assign = edits.add(
        "AssignVariableOp" if is_handle else "Assign",
        f"{variable.node}/Assign",
        [variable.node, initial],
    )
    assign.attr["dtype" if is_handle else "T"].type = variable.header.dtype.number
    return VariableDef(
        variable_name=f"{variable.node}:0",
        initializer_name=assign.name,
        snapshot_name=f"{_read(graph, edits, node)}:0",
        is_resource=is_handle,
        initial_value_name=f"{initial}:0",
        trainable=variable.is_trainable,
    )


def _read(graph: Graph, edits: GraphEdits, variable: NodeDef) -> str:
    """A node that reads a variable and waits for nothing else; added where there is none."""
    is_handle = variable.op in HANDLE_VARIABLES
    op = "ReadVariableOp" if is_handle else "Identity"
    for name in graph.consumers.get(variable.name, ()):
        reader = graph.nodes[name]
        if reader.op == op and not any(map(is_control, reader.input)):
            return name
    hint = f"{variable.name}/Read/ReadVariableOp" if is_handle else f"{variable.name}/read"
    added = edits.add(op, hint, [variable.name])
    added.attr["dtype" if is_handle else "T"].type = variable.attr["dtype"].type
    return str(added.name)


def _with_saver(
    message: MetaGraphDef, variables: Sequence[GraphVariable], version: SaverVersion, verify: bool
) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    if not variables:
        return data
    graph = Graph(message.graph_def, "meta-graph", None, message)
    held = {variable.key: variable.header for variable in variables}
    renamed = {variable.node: variable.key for variable in variables}
    rebuilt = rebuild_saver(graph, version, held, renamed)
    if rebuilt.absent:
        raise UnsupportedError(
            f"No Saver can be made for these variables:\n{listed(rebuilt.absent)}",
            expected="variables in the checkpoint's dtypes and shapes",
        )
    written = with_edits(data, graph, rebuilt.edits, rebuilt.definition, None)
    if verify:
        prove_meta(
            data,
            written,
            version=version,
            held=held,
            renamed=renamed,
            absent=(),
            label="The .meta",
        )
    return written
