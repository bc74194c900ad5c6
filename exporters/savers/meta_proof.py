"""Proof that a written .meta is its source but for the Saver, and that the Saver fits its checkpoint.

Both files are gone through on the wire. Whatever does not belong to the Saver has to be there
byte for byte and in its order; what differs has to belong to the Saver; and what the Saver saves
and restores is read again from its nodes. The proof shares field numbers and tables of ops with
the writer, not its code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from google.protobuf.message import DecodeError

from checkpoints.errors import BrokenFileError, VerificationError, listed
from checkpoints.messages import MetaGraphDef, NodeDef, SaverDef, is_same
from checkpoints.wire import scan
from exporters import fields, ops
from exporters.constants import constant_value
from exporters.proofs.source import name_in
from exporters.values import Header

_SAVER_OPS = frozenset(
    {
        "Assign",
        "AssignVariableOp",
        "Cast",
        "Const",
        "Identity",
        "MergeV2Checkpoints",
        "NoOp",
        "Pack",
        "PlaceholderWithDefault",
        "ReadVariableOp",
        "RestoreV2",
        "SaveSlices",
        "SaveV2",
        "ShardedFilename",
        "ShardedFilespec",
        "StringJoin",
    }
)
"""Ops of nodes that a Saver may be given."""

_SAVES = {"Save": 2, "SaveSlices": 3, "SaveV2": 3}
_RESTORES = frozenset({"Restore", "RestoreSlice", "RestoreV2"})
_READS_V1_ONLY = frozenset({"Restore", "RestoreSlice"})
_PASSES = frozenset({"Cast", "Identity", "ReadVariableOp", "Reshape"})
_SETS = frozenset({"Assign", "AssignVariableOp"})
_INFERRED = "_output_shapes"
_MAX_ENTRIES = 1 << 20
_VERSIONS = {"v1": 1, "v2": 2}


class Handled(NamedTuple):
    """One thing that a Saver saves or restores.

    Attributes:
      key: its name in the checkpoint.
      part: the slice of it, "" for the whole.
      variable: the node of the variable; "" where it is something else.
      dtype: the number of the dtype in the checkpoint.
    """

    key: str
    part: str
    variable: str
    dtype: int


def prove_meta(
    source: bytes,
    written: bytes,
    *,
    version: str,
    held: Mapping[str, Header],
    renamed: Mapping[str, str],
    absent: Iterable[str],
    label: str,
) -> None:
    """Compares a .meta with the MetaGraphDef it was made from and the checkpoint it goes with.

    Args:
      source: the MetaGraphDef.
      written: what is to be written.
      version: "v1" or "v2", the checkpoint's.
      held: key -> dtype and shape of what the checkpoint holds.
      renamed: key of the source's Saver, or name of a variable -> key in the checkpoint.
      absent: keys of the checkpoint that the graph has no variable for.
      label: how messages call the written file.

    Raises:
      VerificationError: it is not what it should be.
    """
    try:
        _Proof(_Meta(source), _Meta(written), label).check(version, held, renamed, set(absent))
    except (BrokenFileError, DecodeError, UnicodeDecodeError, StopIteration) as error:
        raise VerificationError(f"{label} is cut or damaged.", received=error) from error


class _Meta:
    """A MetaGraphDef, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.others: list[tuple[int, bytes]] = []
        self.info = b""
        self.graph_others: list[tuple[int, bytes]] = []
        self.nodes: list[bytes] = []
        self.saver: Any = None
        for field in scan(data):
            payload = data[field.start : field.end]
            if field.number == fields.META_GRAPH:
                for part in scan(payload):
                    content = payload[part.start : part.end]
                    if part.number == fields.GRAPH_NODE:
                        self.nodes.append(content)
                    else:
                        self.graph_others.append((part.number, content))
            elif field.number == fields.META_SAVER:
                self.saver = SaverDef.FromString(payload)
            elif field.number == fields.META_INFO:
                self.info += payload
            else:
                self.others.append((field.number, payload))

    @cached_property
    def by_name(self) -> dict[str, Any]:
        """Name -> node."""
        return {node.name: node for node in map(NodeDef.FromString, self.nodes)}

    def dangling(self) -> set[str]:
        """Inputs that no node gives."""
        return {
            f"{node.name} takes {entry}"
            for node in self.by_name.values()
            for entry in node.input
            if name_in(entry) not in self.by_name
        }

    @cached_property
    def reached(self) -> dict[str, Any]:
        """The nodes that the SaverDef leads to, by name."""
        if self.saver is None:
            return {}
        found: dict[str, Any] = {}
        waiting = [
            name_in(name)
            for name in (
                self.saver.filename_tensor_name,
                self.saver.save_tensor_name,
                self.saver.restore_op_name,
            )
        ]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.by_name:
                found[name] = self.by_name[name]
                waiting.extend(map(name_in, found[name].input))
        return found

    @cached_property
    def users(self) -> dict[str, list[Any]]:
        """Tensor, as name:index -> the Saver's nodes that take it."""
        users: dict[str, list[Any]] = {}
        for node in self.reached.values():
            for entry in node.input:
                if not entry.startswith("^"):
                    users.setdefault(_with_index(entry), []).append(node)
        return users

    def saved(self) -> list[Handled]:
        """What the Saver saves."""
        found = []
        for node in self.reached.values():
            if node.op in _SAVES:
                first = _SAVES[node.op]
                inputs = [entry for entry in node.input if not entry.startswith("^")]
                variables = [self._variable_before(entry) for entry in inputs[first:]]
                found += self._handled(node, inputs, first > 2, variables)
        return found

    def restored(self) -> list[Handled]:
        """What the Saver restores; a value that is put into several variables counts for each."""
        found = []
        for node in self.reached.values():
            if node.op in _RESTORES:
                inputs = [entry for entry in node.input if not entry.startswith("^")]
                count = len(self._texts(inputs[1]))
                places = [
                    self._variables_behind(node.name, index) or [""] for index in range(count)
                ]
                for rank in range(max(map(len, places), default=0)):
                    variables = [names[rank] if rank < len(names) else None for names in places]
                    found += self._handled(node, inputs, node.op != "Restore", variables)
        return found

    def _handled(
        self, node: Any, inputs: list[str], has_slices: bool, variables: Sequence[str | None]
    ) -> list[Handled]:
        keys = self._texts(inputs[1])
        parts = self._texts(inputs[2]) if has_slices else [""] * len(keys)
        attribute = next(name for name in ("dtypes", "T", "dt") if name in node.attr)
        value = node.attr[attribute]
        types = list(value.list.type) if value.HasField("list") else [value.type]
        if not len(keys) == len(parts) == len(types) == len(variables):
            raise BrokenFileError(f"{node.name} has keys, slices and values of different numbers.")
        return [
            Handled(key, part, variable, dtype)
            for key, part, variable, dtype in zip(keys, parts, variables, types, strict=True)
            if variable is not None
        ]

    def _texts(self, reference: str) -> list[str]:
        values = constant_value(self.by_name[name_in(reference)])
        if values.dtype != object or values.size > _MAX_ENTRIES:
            raise BrokenFileError(f"{reference} is no row of keys or slices.")
        return [value.decode("utf-8", "backslashreplace") for value in values.reshape(-1).tolist()]

    def _variable_before(self, reference: str) -> str:
        node = self.by_name[name_in(reference)]
        seen: set[str] = set()
        while node.op in _PASSES and node.name not in seen:
            seen.add(node.name)
            node = self.by_name[name_in(node.input[0])]
        return node.name if node.op in ops.VARIABLES else ""

    def _variables_behind(self, name: str, index: int) -> list[str]:
        found: list[str] = []
        waiting = [f"{name}:{index}"]
        seen: set[str] = set()
        while waiting:
            for user in self.users.get(waiting.pop(), ()):
                if user.name not in seen:
                    seen.add(user.name)
                    if user.op in _SETS:
                        found.append(name_in(user.input[0]))
                    elif user.op in _PASSES:
                        waiting.append(f"{user.name}:0")
        return found


class _Proof:
    def __init__(self, source: _Meta, written: _Meta, label: str) -> None:
        self._source = source
        self._written = written
        self._label = label

    def check(
        self,
        version: str,
        held: Mapping[str, Header],
        renamed: Mapping[str, str],
        absent: set[str],
    ) -> None:
        self._check_kept()
        self._check_definition(version)
        self._check_inputs()
        self._check_changed()
        self._check_handled(version, held, renamed, absent)

    def _check_kept(self) -> None:
        """Everything but the Saver is there, byte for byte."""
        if self._written.others != self._source.others:
            self._fail("What stands beside the graph differs: collections, signatures or the like.")
        if self._written.graph_others != self._source.graph_others:
            self._fail("Functions or versions of the graph differ.")
        if self._written.info != self._source.info and not _differ_in_version(
            self._source.info, self._written.info
        ):
            self._fail("The meta information differs.")
        ours, theirs = set(self._source.nodes), set(self._written.nodes)
        kept = [node for node in self._source.nodes if node in theirs]
        if kept != [node for node in self._written.nodes if node in ours]:
            self._fail("The nodes stand in another order.")
        if len(self._written.by_name) != len(self._written.nodes):
            self._fail("Two nodes have one name.")

    def _check_changed(self) -> None:
        """What differs belongs to the Saver, and is what a Saver may be given."""
        ours, theirs = set(self._source.nodes), set(self._written.nodes)
        strangers = [
            node.name
            for node in map(NodeDef.FromString, ours - theirs)
            if node.name not in self._source.reached or node.op in ops.VARIABLES
        ]
        for node in map(NodeDef.FromString, theirs - ours):
            old = self._source.by_name.get(node.name)
            is_saver_op = node.op in _SAVER_OPS or (old is not None and _same_but_inputs(old, node))
            if node.name not in self._written.reached or not is_saver_op:
                strangers.append(node.name)
        if strangers:
            self._fail(f"Nodes differ that are not the Saver's:\n{listed(sorted(set(strangers)))}")

    def _check_inputs(self) -> None:
        """Nothing takes what is gone; what was never there is the source's own fault."""
        dangling = self._written.dangling()
        if dangling:
            dangling -= self._source.dangling()
        if dangling:
            self._fail(f"Nodes take what is not there:\n{listed(sorted(dangling))}")

    def _check_definition(self, version: str) -> None:
        ours, theirs = self._source.saver, self._written.saver
        if theirs is None:
            self._fail("There is no SaverDef.")
        if theirs.version != _VERSIONS[version]:
            self._fail("The SaverDef is of another version.", version.upper(), theirs.version)
        if ours is not None and ours.save_tensor_name == theirs.save_tensor_name:
            expected = SaverDef()
            expected.CopyFrom(ours)
            expected.version = theirs.version
            if expected != theirs:
                self._fail("The SaverDef differs in more than its version.")

    def _check_handled(
        self,
        version: str,
        held: Mapping[str, Header],
        renamed: Mapping[str, str],
        absent: set[str],
    ) -> None:
        """The Saver saves and restores the checkpoint's variables, each where it did."""
        saved, restored = set(self._written.saved()), set(self._written.restored())
        is_one_sided = set(self._source.saved()) != set(self._source.restored())
        if saved != restored and not is_one_sided:
            self._fail(f"It does not restore what it saves:\n{listed(sorted(saved ^ restored))}")
        keys = {handled.key for handled in saved}
        if keys != set(held) - absent:
            self._fail(
                "Its Saver does not handle what the checkpoint holds:\n"
                f"{listed(sorted(keys ^ (set(held) - absent)))}"
            )
        wrong = [entry for entry in saved if entry.dtype != held[entry.key].dtype.number]
        if wrong:
            self._fail(f"Its Saver expects other dtypes than the checkpoint's:\n{listed(wrong)}")
        places = {(entry.key, entry.part): entry.variable for entry in saved}
        moved = [
            entry
            for entry in self._source.saved()
            if places.get((renamed.get(entry.key, ""), entry.part), entry.variable)
            != entry.variable
        ]
        if moved:
            self._fail(f"Variables are saved from other nodes:\n{listed(moved)}")
        old = [node.name for node in self._written.reached.values() if node.op in _READS_V1_ONLY]
        if old and version == "v2":
            self._fail(f"Nodes cannot read V2:\n{listed(sorted(old))}")

    def _fail(self, problem: str, expected: str | None = None, received: Any = None) -> NoReturn:
        raise VerificationError(
            f"{self._label} would not be the source's graph with a Saver of its own: {problem}",
            expected=expected,
            received=received,
            next_step="Nothing was written. Please report it.",
        )


def _with_index(entry: str) -> str:
    return entry if name_in(entry) != entry else f"{entry}:0"


def _same_but_inputs(first: Any, second: Any) -> bool:
    copies = []
    for node in (first, second):
        copy = NodeDef()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.attr.pop(_INFERRED, None)
        copies.append(copy)
    return is_same(*copies)


def _differ_in_version(source: bytes, written: bytes) -> bool:
    """Whether a version became one that TensorFlow can import, and nothing else changed."""
    ours, theirs = MetaGraphDef.MetaInfoDef(), MetaGraphDef.MetaInfoDef()
    ours.ParseFromString(source)
    theirs.ParseFromString(written)
    version = theirs.tensorflow_version
    is_release = re.fullmatch(r"v?\d+(\.\d+)*", version) is not None
    if not is_release or not (ours.tensorflow_version.startswith(version) or version == "0"):
        return False
    theirs.tensorflow_version = ours.tensorflow_version
    return is_same(ours, theirs)
