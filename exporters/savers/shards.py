"""How a sharded Saver names its files: each version does it in its own way.

V1 writes every shard under its final name, PREFIX-00000-of-00002, and gives back a pattern. V2
writes shards of a temporary name and merges them into one checkpoint of the name that was fed.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkpoints.errors import GraphError, UnsupportedError
from checkpoints.messages import DataType, NodeDef
from exporters.names import is_control, node_of
from exporters.savers.graph_edits import GraphEdits, set_integer, set_texts
from exporters.savers.nodes import Entries, SaverNodes, data_inputs
from exporters.savers.writing import SaverVersion

_SHARD_NAME = "ShardedFilename"
_PATTERN = "ShardedFilespec"
_MERGE = "MergeV2Checkpoints"
_TEMPORARY = b"_temp/part"
"""What stands behind the fed name in the names of V2's shards until they are merged."""


def rebuild_shards(edits: GraphEdits, saver: SaverNodes, version: SaverVersion) -> None:
    """Names a sharded Saver's files as the version does, without shards that hold nothing.

    A Saver that is not sharded is left as it is: both versions are fed the name of the whole.
    """
    if not any(_is_sharded(edits, entries) for entries in saver.saves):
        return
    kept = [entries for entries in saver.saves if entries.keys]
    empty = [entries.node.name for entries in saver.saves if not entries.keys]
    is_v1 = edits.node(saver.save).op == _PATTERN
    if not empty and is_v1 == (version == "v1"):
        return
    end = edits.node(saver.save).op
    if end not in (_PATTERN, "Identity"):
        raise UnsupportedError(
            f"{saver.save} ({end}) gives the name of what was saved, which no sharded Saver does.",
            expected=f"{_PATTERN} or Identity",
            next_step="Convert the variables alone: move the .meta away.",
        )
    names = [node_of(edits.node(entries.node.name).input[0]) for entries in kept]
    waits = [f"^{name}" for name in _waiting_for(edits, saver, kept)]
    for name in names:
        if len(data_inputs(edits.node(name))) != 3:
            raise GraphError(f"{name} ({_SHARD_NAME}) does not take a name and two numbers.")
    count = data_inputs(edits.node(names[0]))[2]
    if empty:
        count = _renumber(edits, names)
    if version == "v1":
        _finish_v1(edits, saver, names, count, waits)
    else:
        _finish_v2(edits, saver, names, waits, is_new=is_v1)


def _is_sharded(edits: GraphEdits, entries: Entries) -> bool:
    op: str = edits.node(node_of(entries.node.input[0])).op
    return op == _SHARD_NAME


def _waiting_for(edits: GraphEdits, saver: SaverNodes, saves: list[Entries]) -> Iterator[str]:
    """The nodes that say that a shard is written: those that wait for its save op."""
    for entries in saves:
        save = entries.node.name
        waiting = [
            user
            for user in edits.users.get(save, ())
            if user in saver.members and edits.node(user).op == "Identity"
        ]
        yield waiting[0] if waiting else save


def _renumber(edits: GraphEdits, names: list[str]) -> str:
    """Counts the shards that are left anew; returns the constant with their number."""
    total = edits.add("Const", f"{names[0]}/num_shards")
    set_integer(total, len(names))
    for index, name in enumerate(names):
        node = edits.node(name)
        shard = edits.add("Const", f"{name}/shard", device=node.device)
        set_integer(shard, index)
        controls = filter(is_control, node.input)
        edits.set_inputs(name, [node.input[0], shard.name, total.name, *controls])
    return str(total.name)


def _finish_v1(
    edits: GraphEdits, saver: SaverNodes, names: list[str], count: str, waits: list[str]
) -> None:
    for name in names:
        _set_base(edits, name, saver.filename)
    end = edits.edit(saver.save)
    end.op = _PATTERN
    _clear_attributes(end)
    edits.set_inputs(saver.save, [saver.filename, count, *waits])


def _finish_v2(
    edits: GraphEdits, saver: SaverNodes, names: list[str], waits: list[str], is_new: bool
) -> None:
    scope = saver.filename.rpartition("/")[0]
    start = f"{scope}/" if scope else ""
    device = edits.node(names[-1]).device
    if is_new:
        suffix = edits.add("Const", f"{start}StringJoin/inputs_1")
        set_texts(suffix, [_TEMPORARY], is_scalar=True)
        joined = edits.add("StringJoin", f"{start}StringJoin", [saver.filename, suffix.name])
        joined.attr["N"].i = 2
        joined.attr["separator"].s = b""
        for name in names:
            _set_base(edits, name, joined.name)
    prefixes = edits.add("Pack", f"{start}{_MERGE}/checkpoint_prefixes", [*names, *waits], device)
    prefixes.attr["N"].i = len(names)
    prefixes.attr["T"].type = DataType.DT_STRING
    prefixes.attr["axis"].i = 0
    merge = edits.add(_MERGE, f"{start}{_MERGE}", [prefixes.name, saver.filename], device)
    merge.attr["delete_old_dirs"].b = True
    end = edits.edit(saver.save)
    end.op = "Identity"
    _clear_attributes(end)
    end.attr["T"].type = DataType.DT_STRING
    edits.set_inputs(saver.save, [saver.filename, f"^{merge.name}", *waits])


def _set_base(edits: GraphEdits, name: str, base: str) -> None:
    edits.set_inputs(name, [base, *list(edits.node(name).input)[1:]])


def _clear_attributes(node: NodeDef) -> None:
    """Leaves the attributes that belong to any op; the others are those of the op it was."""
    for attribute in [name for name in node.attr if not name.startswith("_")]:
        del node.attr[attribute]
