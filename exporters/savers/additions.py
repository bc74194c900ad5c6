"""A Saver for a graph that has none, and variables added to a Saver that leaves them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from checkpoints.messages import NodeDef, SaverDef
from exporters.graph import Graph
from exporters.ops import HANDLE_VARIABLES, VARIABLES
from exporters.savers.fit import misfit
from exporters.savers.graph_edits import GraphEdits, set_texts
from exporters.savers.nodes import Entries, SaverNodes
from exporters.savers.writing import SaverVersion, cast, write_restore, write_save
from exporters.values import Header

_SCOPE = "save"
_FILENAME = b"model"


def new_saver(graph: Graph, edits: GraphEdits, version: SaverVersion) -> SaverNodes:
    """Adds a Saver that handles nothing yet; its nodes stand in a scope of their own."""
    tops = {name.partition("/")[0] for name in graph.nodes}
    scope, count = _SCOPE, 0
    while scope in tops:
        count += 1
        scope = f"{_SCOPE}_{count}"
    default = edits.add("Const", f"{scope}/filename")
    set_texts(default, [_FILENAME], is_scalar=True)
    filename = edits.add("PlaceholderWithDefault", f"{scope}/Const", [default.name])
    filename.attr["dtype"].type = default.attr["dtype"].type
    filename.attr["shape"].shape.SetInParent()
    save = _entries(edits, "SaveV2" if version == "v2" else "SaveSlices", f"{scope}/save", filename)
    done = edits.add("Identity", f"{scope}/control_dependency", [filename.name])
    done.input.append(f"^{save.node.name}")
    done.attr["T"].type = default.attr["dtype"].type
    restored = edits.add("NoOp", f"{scope}/restore_all")
    definition = SaverDef(
        filename_tensor_name=f"{filename.name}:0",
        save_tensor_name=f"{done.name}:0",
        restore_op_name=restored.name,
        max_to_keep=5,
        keep_checkpoint_every_n_hours=10000,
    )
    return SaverNodes(definition, filename.name, done.name, restored.name, set(), [save], [])


def add_variables(
    graph: Graph,
    edits: GraphEdits,
    saver: SaverNodes,
    version: SaverVersion,
    wanted: Mapping[str, Header],
    nodes_of: Mapping[str, Collection[str]],
) -> list[str]:
    """Lets a Saver handle variables whose nodes have the names of keys.

    Args:
      graph: the graph.
      edits: takes the changes.
      saver: the Saver.
      version: the checkpoint's.
      wanted: key -> dtype and shape in the checkpoint.
      nodes_of: key -> names that its variable's node may have.

    Returns:
      The keys that no variable of the graph belongs to.
    """
    found: dict[str, NodeDef] = {}
    for key, header in wanted.items():
        nodes = [graph.nodes[name] for name in nodes_of.get(key, ()) if name in graph.nodes]
        fitting = [
            node for node in nodes if node.op in VARIABLES and misfit(node, b"", header) is None
        ]
        if fitting:
            found[key] = fitting[0]
    if found:
        _add(edits, saver, version, found, wanted)
    return [key for key in wanted if key not in found]


def _add(
    edits: GraphEdits,
    saver: SaverNodes,
    version: SaverVersion,
    found: Mapping[str, NodeDef],
    wanted: Mapping[str, Header],
) -> None:
    save = next((entries for entries in reversed(saver.saves) if entries.keys), saver.saves[-1])
    filename = edits.node(saver.filename)
    scope = filename.name.rpartition("/")[0]
    start = f"{scope}/" if scope else ""
    restore = _entries(edits, "RestoreV2", f"{start}RestoreV2", filename)
    assigned = []
    for index, (key, variable) in enumerate(found.items()):
        stored, own = wanted[key].dtype.number, variable.attr["dtype"].type
        value, restored = variable.name, f"{restore.node.name}:{index}"
        if variable.op in HANDLE_VARIABLES:
            read = edits.add("ReadVariableOp", f"{start}Read", [value], variable.device)
            read.attr["dtype"].type = own
            value = read.name
        if stored != own:
            value = cast(edits, f"{start}Cast", value, own, stored, variable.device)
            restored = cast(edits, f"{start}Cast", restored, stored, own, variable.device)
        for entries in (save, restore):
            entries.keys.append(key.encode("utf-8"))
            entries.slices.append(b"")
            entries.dtypes.append(stored)
        save.tensors.append(value)
        assigned.append(_assign(edits, start, variable, restored))
    write_save(edits, save, version)
    write_restore(edits, restore, version)
    saver.restores.append(restore)
    edits.edit(saver.restore).input.extend(f"^{name}" for name in assigned)


def _assign(edits: GraphEdits, start: str, variable: NodeDef, value: str) -> str:
    is_handle = variable.op in HANDLE_VARIABLES
    op = "AssignVariableOp" if is_handle else "Assign"
    node = edits.add(op, f"{start}{op}", [variable.name, value], variable.device)
    dtype = variable.attr["dtype"].type
    if is_handle:
        node.attr["dtype"].type = dtype
    else:
        node.attr["T"].type = dtype
        node.attr["use_locking"].b = True
        node.attr["validate_shape"].b = True
    return str(node.name)


def _entries(edits: GraphEdits, op: str, hint: str, filename: NodeDef) -> Entries:
    """A save or restore op that handles nothing yet."""
    return Entries(edits.add(op, hint, [filename.name]), [], [], [], [])
