"""The nodes of a graph's Saver: which op writes and reads which variables, under which keys.

tf.compat.v1.train.Saver puts nodes of its own into the graph: one save op and one restore op a
shard, constants with the keys and slices they handle, names of files made of the one that is
fed, and assignments. The SaverDef of a MetaGraphDef names three of them; the others are found
from there.

Source:
  Inputs and attributes as in TensorFlow's ops Save, SaveSlices, SaveV2, Restore, RestoreSlice and
  RestoreV2 (tensorflow/core/ops/io_ops.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from checkpoints.errors import GraphError, listed
from checkpoints.messages import NodeDef
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import is_control, node_of, tensor_of

KEYS_INPUT, SLICES_INPUT = 1, 2
"""Which inputs of every save and restore op hold its keys and its slices."""
MAX_ENTRIES = 1 << 20
"""How many keys an op may have."""


class SaveOp(NamedTuple):
    """How an op that writes variables is made.

    Attributes:
      first_tensor: the index of its first input that is a variable's value.
      dtypes: the attribute that lists the dtypes of the values.
    """

    first_tensor: int
    dtypes: str


class RestoreOp(NamedTuple):
    """How an op that reads variables is made.

    Attributes:
      has_slices: whether an input holds slices.
      dtypes: the attribute that holds the dtype or dtypes.
      is_scalar: whether it reads a single variable, its key being a scalar.
    """

    has_slices: bool
    dtypes: str
    is_scalar: bool


SAVE_OPS = {
    "Save": SaveOp(2, "T"),
    "SaveSlices": SaveOp(3, "T"),
    "SaveV2": SaveOp(3, "dtypes"),
}
RESTORE_OPS = {
    "Restore": RestoreOp(False, "dt", True),
    "RestoreSlice": RestoreOp(True, "dt", True),
    "RestoreV2": RestoreOp(True, "dtypes", False),
}


@dataclass
class Entries:
    """What one save or restore op handles, an entry a variable or slice of one.

    Attributes:
      node: the op.
      keys: names of variables in the checkpoint, UTF-8.
      slices: "" for a whole variable, else its shape and the slice, as in `5 2 0,3:0,2`.
      dtypes: numbers of the values' dtypes.
      tensors: of a save op: the references to the values; of a restore op nothing.
    """

    node: NodeDef
    keys: list[bytes]
    slices: list[bytes]
    dtypes: list[int]
    tensors: list[str]


@dataclass
class SaverNodes:
    """A Saver as it stands in a graph.

    Attributes:
      definition: its SaverDef.
      filename: the node that is fed the checkpoint's name.
      save: the node that is run to save.
      restore: the node that is run to restore.
      members: all nodes that `save` and `restore` need; variables are among them.
      saves: the save ops, in the order of the file.
      restores: the restore ops, in the order of the file.
    """

    definition: Any
    filename: str
    save: str
    restore: str
    members: set[str]
    saves: list[Entries]
    restores: list[Entries]


def read_saver(graph: Graph) -> SaverNodes | None:
    """The Saver that the graph's SaverDef names; None where there is none, or it is in a function.

    Raises:
      GraphError: the SaverDef names nodes that are not there, or the nodes are not a Saver's.
    """
    if graph.meta_graph is None or not graph.meta_graph.HasField("saver_def"):
        return None
    definition = graph.meta_graph.saver_def
    names = [
        tensor_of(reference).node
        for reference in (
            definition.filename_tensor_name,
            definition.save_tensor_name,
            definition.restore_op_name,
        )
    ]
    absent = [name for name in names if name not in graph.nodes]
    if absent:
        raise GraphError(
            f"{graph.label}: the SaverDef names nodes that the graph does not have:\n"
            f"{listed(map(repr, absent))}",
            next_step="Export the graph again, with its Saver.",
        )
    filename, save, restore = names
    members = graph.ancestors([save, restore], control=True)
    in_order = [node for name, node in graph.nodes.items() if name in members]
    saves = [_saved(graph, node) for node in in_order if node.op in SAVE_OPS]
    restores = [_restored(graph, node) for node in in_order if node.op in RESTORE_OPS]
    if not saves and not restores:
        return None
    return SaverNodes(definition, filename, save, restore, members, saves, restores)


def _saved(graph: Graph, node: NodeDef) -> Entries:
    op = SAVE_OPS[node.op]
    inputs = data_inputs(node)
    keys = _texts(graph, node, inputs, KEYS_INPUT)
    slices = (
        _texts(graph, node, inputs, SLICES_INPUT)
        if op.first_tensor > SLICES_INPUT
        else [b""] * len(keys)
    )
    tensors = inputs[op.first_tensor :]
    return _checked(graph, Entries(node, keys, slices, dtypes_of(node, op.dtypes), tensors), True)


def _restored(graph: Graph, node: NodeDef) -> Entries:
    op = RESTORE_OPS[node.op]
    inputs = data_inputs(node)
    keys = _texts(graph, node, inputs, KEYS_INPUT)
    slices = _texts(graph, node, inputs, SLICES_INPUT) if op.has_slices else [b""] * len(keys)
    return _checked(graph, Entries(node, keys, slices, dtypes_of(node, op.dtypes), []), False)


def dtypes_of(node: NodeDef, attribute: str) -> list[int]:
    """The dtype or dtypes that an attribute of a save or restore op lists."""
    if attribute not in node.attr:
        return []
    value = node.attr[attribute]
    return list(value.list.type) if value.HasField("list") else [value.type]


def data_inputs(node: NodeDef) -> list[str]:
    """The inputs of a node that are tensors; those that only order come behind them."""
    return [reference for reference in node.input if not is_control(reference)]


def _texts(graph: Graph, node: NodeDef, inputs: list[str], index: int) -> list[bytes]:
    constant = graph.node(node_of(inputs[index])) if index < len(inputs) else None
    if constant is None or constant.op != "Const":
        raise GraphError(
            f"{graph.label}: {node.name} ({node.op}) does not say which variables it handles.",
            expected=f"a constant with keys or slices as input {index}",
            received="nothing" if constant is None else f"{constant.name} ({constant.op})",
        )
    value = constant_value(constant)
    # A constant may declare any size and fill it with one value.
    if value.dtype != object or value.size > MAX_ENTRIES:
        raise GraphError(
            f"{graph.label}: {constant.name} is not what {node.name} ({node.op}) can use.",
            expected=f"at most {MAX_ENTRIES} keys or slices",
            received=f"{value.size} values of {value.dtype}",
        )
    texts: list[bytes] = value.reshape(-1).tolist()
    return texts


def _checked(graph: Graph, entries: Entries, saves: bool) -> Entries:
    counts = {len(entries.keys), len(entries.slices), len(entries.dtypes)}
    if saves:
        counts.add(len(entries.tensors))
    if len(counts) > 1:
        raise GraphError(
            f"{graph.label}: {entries.node.name} ({entries.node.op}) contradicts itself.",
            expected="as many keys as slices, dtypes and values",
            received=f"{len(entries.keys)}, {len(entries.slices)}, {len(entries.dtypes)}"
            + (f" and {len(entries.tensors)}" if saves else ""),
        )
    return entries
