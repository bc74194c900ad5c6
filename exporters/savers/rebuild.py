"""Rebuilds a graph's Saver for a checkpoint of another version, or with other keys.

Only what talks to files changes. RestoreSlice, which cannot read V2, becomes RestoreV2, which
reads both; SaveSlices becomes SaveV2 or the other way round; the names of shards are made as the
version makes them. Assignments stay, but for those of variables the checkpoint does not hold.
Nodes keep their names, so that whoever knows them (a collection of SaverDefs, a script) still
finds them.

Source:
  The nodes that tf.compat.v1.train.Saver builds, TensorFlow 0.6 to 2.21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkpoints.errors import GraphError, UnsupportedError, listed
from checkpoints.messages import SaverDef
from checkpoints.slicing import RESTORED_IN_SLICES
from exporters.graph import Graph
from exporters.names import is_control, node_of, tensor_of
from exporters.savers.additions import add_variables, new_saver
from exporters.savers.fit import can_cast, misfit, variable_behind
from exporters.savers.graph_edits import GraphEdits
from exporters.savers.nodes import RESTORE_OPS, SAVE_OPS, Entries, SaverNodes, read_saver
from exporters.savers.shards import rebuild_shards
from exporters.savers.writing import SaverVersion, cast, write_restore, write_save
from exporters.values import Header

_SAVERDEF_V1, _SAVERDEF_V2 = 1, 2


@dataclass(frozen=True)
class Rebuilt:
    """A Saver that fits a checkpoint.

    Attributes:
      edits: how the graph's nodes change.
      definition: the SaverDef.
      keys: the keys it handles, each once.
      absent: keys of the checkpoint that no variable of the graph belongs to.
      dropped: keys that the graph's Saver handled and the checkpoint does not hold, as they were.
      others: save and restore ops of other Savers, which stay as they are.
    """

    edits: GraphEdits
    definition: Any
    keys: tuple[str, ...]
    absent: tuple[str, ...]
    dropped: tuple[str, ...]
    others: tuple[str, ...]


def rebuild_saver(
    graph: Graph,
    version: SaverVersion,
    held: Mapping[str, Header],
    renamed: Mapping[str, str],
) -> Rebuilt:
    """Makes the graph's Saver handle what a checkpoint holds; a graph without one gets one.

    Args:
      graph: the graph; it is not changed.
      version: the checkpoint's.
      held: key -> dtype and shape of what the checkpoint holds.
      renamed: key as the graph's Saver has it, or name of a variable's node -> key in the
        checkpoint; what is not among them is not in the checkpoint.

    Raises:
      GraphError: the graph's Saver contradicts itself.
      UnsupportedError: other nodes use what has to change.
    """
    edits = GraphEdits(graph)
    saver = read_saver(graph)
    members: set[str] = set()
    dropped: tuple[str, ...] = ()
    if saver is not None:
        members = saver.members
        rebuilding = _Rebuilding(graph, edits, saver, version, held, renamed)
        dropped = rebuilding.run()
        if not any(entries.keys for entries in saver.saves):
            # None of its variables is left: what the checkpoint holds was never this Saver's.
            saver, edits = None, GraphEdits(graph)
    if saver is None:
        saver = new_saver(graph, edits, version)
    handled = _keys(saver)
    wanted = {key: header for key, header in held.items() if key not in handled}
    nodes_of: dict[str, list[str]] = {}
    for old, new in renamed.items():
        nodes_of.setdefault(new, []).append(old)
    absent = add_variables(graph, edits, saver, version, wanted, nodes_of)
    rebuild_shards(edits, saver, version)
    _collect(edits, saver)
    _refuse_dangling(graph, edits)
    others = tuple(
        f"{name} ({node.op})"
        for name, node in graph.nodes.items()
        if (node.op in SAVE_OPS or node.op in RESTORE_OPS) and name not in members
    )
    definition = _definition(saver, version)
    return Rebuilt(edits, definition, tuple(_keys(saver)), tuple(absent), dropped, others)


class _Rebuilding:
    """Takes a Saver's save and restore ops and the assignments behind them to other keys."""

    def __init__(
        self,
        graph: Graph,
        edits: GraphEdits,
        saver: SaverNodes,
        version: SaverVersion,
        held: Mapping[str, Header],
        renamed: Mapping[str, str],
    ) -> None:
        self._graph = graph
        self._edits = edits
        self._saver = saver
        self._version = version
        self._held = held
        self._renamed = {old.encode("utf-8"): new for old, new in renamed.items()}

    def run(self) -> tuple[str, ...]:
        """Changes the ops and their entries; returns the keys that were given up.

        Raises:
          GraphError: variables of the graph have other shapes or dtypes than the checkpoint's.
          UnsupportedError: other nodes use what has to change.
        """
        self._refuse_misfits()
        if self._version == "v2":
            self._refuse_slices()
        dropped, consumers = self._unheld()
        self._forget(consumers)
        for entries in self._saver.restores:
            self._restore(entries, dropped)
        for entries in self._saver.saves:
            self._save(entries, dropped)
        return tuple(key.decode("utf-8", "backslashreplace") for key in dropped)

    def _refuse_misfits(self) -> None:
        problems = []
        for entries in self._saver.saves:
            for key, part, reference in zip(
                entries.keys, entries.slices, entries.tensors, strict=True
            ):
                variable = variable_behind(self._graph, reference)
                if variable is not None and key in self._renamed:
                    problems.append(misfit(variable, part, self._held[self._renamed[key]]))
        if any(problems):
            raise GraphError(
                f"{self._graph.label} and the checkpoint do not fit:\n"
                f"{listed(filter(None, problems))}",
                expected="the dtypes and shapes of the graph's variables",
                next_step="Give the graph that the checkpoint was saved from (--graph).",
            )

    def _refuse_slices(self) -> None:
        """Refuses slices of dtypes of which TensorFlow restores no slices."""
        problems = [
            f"{self._renamed[key]}: {self._held[self._renamed[key]].dtype.name}"
            for entries in self._saver.restores
            for key, part in zip(entries.keys, entries.slices, strict=True)
            if part
            and key in self._renamed
            and self._held[self._renamed[key]].dtype.name not in RESTORED_IN_SLICES
        ]
        if problems:
            raise UnsupportedError(
                f"{self._graph.label} has partitioned variables, and TensorFlow restores no slices"
                f" of their dtype in the checkpoint:\n{listed(dict.fromkeys(problems))}",
                expected="float32, float64, bfloat16, ... : what it restores in slices",
                next_step="Write them in a dtype that it restores, as --dtype bfloat16 does.",
            )

    def _unheld(self) -> tuple[dict[bytes, None], set[str]]:
        """Keys that cannot be restored any more, and the nodes that took their values."""
        dropped = {
            key: None
            for entries in (*self._saver.saves, *self._saver.restores)
            for key in entries.keys
            if key not in self._renamed
        }
        restores = {entries.node.name: entries for entries in self._saver.restores}
        consumers: set[str] = set()
        waiting = [
            (entries, index)
            for entries in self._saver.restores
            for index, key in enumerate(entries.keys)
            if key in dropped
        ]
        done = {(entries.node.name, index) for entries, index in waiting}
        while waiting:
            entries, index = waiting.pop()
            new = self._behind(entries.node.name, index) - consumers
            consumers |= new
            # What restores several variables at once, as a table does, needs all of them.
            for name in new:
                for tensor in map(tensor_of, self._data(name)):
                    other = restores.get(tensor.node)
                    place = (tensor.node, tensor.output_index)
                    if (
                        other is not None
                        and place not in done
                        and tensor.output_index < len(other.keys)
                    ):
                        done.add(place)
                        dropped[other.keys[tensor.output_index]] = None
                        waiting.append((other, tensor.output_index))
        return dropped, consumers

    def _behind(self, restore: str, index: int) -> set[str]:
        """The Saver's nodes that take an output of a restore op, directly or not."""
        found: set[str] = set()
        waiting = list(self._takers.get((restore, index), ()))
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(
                    user
                    for user in self._users(name)
                    if name in {node_of(reference) for reference in self._data(user)}
                )
        return found

    @cached_property
    def _takers(self) -> dict[tuple[str, int], list[str]]:
        """Output of a restore op -> the Saver's nodes that take it."""
        takers: dict[tuple[str, int], list[str]] = {}
        for entries in self._saver.restores:
            name = entries.node.name
            for user in self._users(name):
                for tensor in map(tensor_of, self._data(user)):
                    if tensor.node == name:
                        takers.setdefault((name, tensor.output_index), []).append(user)
        return takers

    def _users(self, name: str) -> list[str]:
        return [user for user in self._edits.users.get(name, ()) if user in self._saver.members]

    def _data(self, name: str) -> list[str]:
        return [
            reference for reference in self._edits.node(name).input if not is_control(reference)
        ]

    def _forget(self, names: set[str]) -> None:
        """Nothing of the Saver waits for these nodes any more."""
        for name in names:
            for user in self._users(name):
                kept = [
                    reference
                    for reference in self._edits.node(user).input
                    if not (is_control(reference) and node_of(reference) in names)
                ]
                self._edits.set_inputs(user, kept)

    def _restore(self, entries: Entries, dropped: Mapping[bytes, None]) -> None:
        name = entries.node.name
        kept = [index for index, key in enumerate(entries.keys) if key not in dropped]
        places = {old: new for new, old in enumerate(kept)}
        stored = self._take(entries, kept)
        if not kept:
            self._forget({name})
            self._edits.removed.add(name)
            return
        references: dict[int, str] = {}
        for old, new in places.items():
            reference = f"{name}:{new}" if new else name
            own = stored[new]
            if entries.dtypes[new] != own:
                device = entries.node.device
                reference = cast(
                    self._edits, f"{name}/Cast", reference, entries.dtypes[new], own, device
                )
            if (old != new) or entries.dtypes[new] != own:
                references[old] = reference
        write_restore(self._edits, entries, self._version)
        if references:
            self._redirect(name, references)

    def _redirect(self, name: str, references: Mapping[int, str]) -> None:
        """Lets the takers of a restore op's outputs take them from their new places."""
        for user in self._edits.users.get(name, ()):
            inputs = [
                references.get(tensor_of(reference).output_index, reference)
                if not is_control(reference) and node_of(reference) == name
                else reference
                for reference in self._edits.node(user).input
            ]
            if user not in self._saver.members and inputs != list(self._edits.node(user).input):
                raise UnsupportedError(
                    f"{user} takes a value from {name}, which the Saver reads from a checkpoint.",
                    expected="values that only the Saver's own nodes take",
                    next_step="Convert the variables alone: move the .meta away.",
                )
            self._edits.set_inputs(user, inputs)

    def _save(self, entries: Entries, dropped: Mapping[bytes, None]) -> None:
        name = entries.node.name
        kept = [index for index, key in enumerate(entries.keys) if key not in dropped]
        entries.tensors = [entries.tensors[index] for index in kept]
        for index, own in enumerate(self._take(entries, kept)):
            if entries.dtypes[index] != own:
                device = entries.node.device
                entries.tensors[index] = cast(
                    self._edits,
                    f"{name}/Cast",
                    entries.tensors[index],
                    own,
                    entries.dtypes[index],
                    device,
                )
        if kept:
            write_save(self._edits, entries, self._version)

    def _take(self, entries: Entries, kept: list[int]) -> list[int]:
        """Keeps some entries, under the checkpoint's keys and dtypes; returns the graph's dtypes."""
        own = [entries.dtypes[index] for index in kept]
        keys = [self._renamed[entries.keys[index]] for index in kept]
        entries.keys = [key.encode("utf-8") for key in keys]
        entries.slices = [entries.slices[index] for index in kept]
        stored = [self._held[key].dtype.number for key in keys]
        entries.dtypes = [
            there if there != here and can_cast(here, there) else here
            for here, there in zip(own, stored, strict=True)
        ]
        return own


def _keys(saver: SaverNodes) -> dict[str, None]:
    return {key.decode("utf-8"): None for entries in saver.saves for key in entries.keys}


def _collect(edits: GraphEdits, saver: SaverNodes) -> None:
    """Removes the Saver's own nodes that neither saving nor restoring needs any more."""
    needed: set[str] = set()
    waiting = [saver.save, saver.restore, saver.filename]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(map(node_of, edits.node(name).input))
    unused = {name for name in saver.members if name not in needed}
    own = {name for name in unused if _is_own(edits, saver, name)}
    # Constants go with the last node that takes them.
    constants = {
        name
        for name in unused - own
        if edits.node(name).op == "Const" and own.issuperset(edits.users.get(name, ()))
    }
    edits.removed |= own | constants
    for name in edits.removed:
        edits.changed.pop(name, None)
    for name in [name for name in edits.added if name not in needed]:
        del edits.added[name]


def _is_own(edits: GraphEdits, saver: SaverNodes, name: str) -> bool:
    """Whether a node works on the name of a file or on what was read from one."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current == saver.filename:
            return True
        if current in seen or current not in saver.members:
            continue
        seen.add(current)
        original = edits.original(current)
        waiting.extend(node_of(entry) for entry in original.input if not is_control(entry))
    return False


def _refuse_dangling(graph: Graph, edits: GraphEdits) -> None:
    problems = edits.dangling()
    if problems:
        raise UnsupportedError(
            f"{graph.label}: other nodes use nodes of the Saver that have to go:\n"
            f"{listed(problems)}",
            next_step="Convert the variables alone: move the .meta away.",
        )


def _definition(saver: SaverNodes, version: SaverVersion) -> Any:
    definition = SaverDef()
    definition.CopyFrom(saver.definition)
    if version == "v2":
        definition.version = _SAVERDEF_V2
    elif definition.version != _SAVERDEF_V1:
        definition.version = _SAVERDEF_V1
    return definition
