"""Save and restore ops put back into a graph with other keys, dtypes or another version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from exporters.constants import constant_value
from exporters.names import is_control, node_of
from exporters.savers.graph_edits import GraphEdits, set_texts
from exporters.savers.nodes import (
    KEYS_INPUT,
    RESTORE_OPS,
    SAVE_OPS,
    SLICES_INPUT,
    Entries,
    data_inputs,
    dtypes_of,
)

SaverVersion = Literal["v1", "v2"]

_HINTS = {KEYS_INPUT: "tensor_names", SLICES_INPUT: "shape_and_slices"}


def write_save(edits: GraphEdits, entries: Entries, version: SaverVersion) -> None:
    """Makes a save op one of the version, for these entries."""
    name = entries.node.name
    before = edits.node(name)
    old, op = SAVE_OPS[before.op], before.op
    if version == "v2":
        op = "SaveV2"
    elif op == "SaveV2":
        op = "SaveSlices"
    new = SAVE_OPS[op]
    given = data_inputs(before)[: old.first_tensor]
    controls = [reference for reference in before.input if is_control(reference)]
    inputs = given[:1]
    for index, values in _constants(entries, has_slices=new.first_tensor > SLICES_INPUT):
        reference = given[index] if index < len(given) else None
        inputs.append(_constant(edits, name, reference, index, values, False))
    if op != before.op or dtypes_of(before, old.dtypes) != entries.dtypes:
        node = edits.edit(name)
        node.attr.pop(old.dtypes, None)
        node.op = op
        node.attr[new.dtypes].list.type.extend(entries.dtypes)
    edits.set_inputs(name, [*inputs, *entries.tensors, *controls])


def write_restore(edits: GraphEdits, entries: Entries, version: SaverVersion) -> None:
    """Makes a restore op read these entries; for V2 it becomes RestoreV2, which reads both."""
    name = entries.node.name
    before = edits.node(name)
    old, op = RESTORE_OPS[before.op], before.op
    if version == "v2":
        op = "RestoreV2"
    new = RESTORE_OPS[op]
    given = data_inputs(before)[: SLICES_INPUT + old.has_slices]
    controls = [reference for reference in before.input if is_control(reference)]
    inputs = given[:1]
    for index, values in _constants(entries, new.has_slices):
        reference = given[index] if index < len(given) else None
        inputs.append(_constant(edits, name, reference, index, values, new.is_scalar))
    if op != before.op or dtypes_of(before, old.dtypes) != entries.dtypes:
        node = edits.edit(name)
        node.attr.pop(old.dtypes, None)
        if not new.is_scalar:
            node.attr.pop("preferred_shard", None)
            node.attr[new.dtypes].list.type.extend(entries.dtypes)
        else:
            node.attr[new.dtypes].type = entries.dtypes[0]
        node.op = op
    edits.set_inputs(name, [*inputs, *controls])


def cast(
    edits: GraphEdits, hint: str, reference: str, source: int, target: int, device: str
) -> str:
    """Adds a Cast of a tensor from one dtype to another; returns the reference to it."""
    node = edits.add("Cast", hint, [reference], device)
    node.attr["SrcT"].type = source
    node.attr["DstT"].type = target
    name: str = node.name
    return name


def _constants(entries: Entries, has_slices: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Index of an input that is a constant, and what it has to hold."""
    yield KEYS_INPUT, entries.keys
    if has_slices:
        yield SLICES_INPUT, entries.slices


def _constant(
    edits: GraphEdits,
    op: str,
    reference: str | None,
    index: int,
    values: list[bytes],
    is_scalar: bool,
) -> str:
    """A reference to a constant with these values: the op's own where it has one to itself."""
    if reference is not None:
        name = node_of(reference)
        present = constant_value(edits.node(name))
        is_like = present.size == len(values) and (present.ndim == 0) == is_scalar
        if is_like and present.reshape(-1).tolist() == values:
            return reference
        if name in edits.added or edits.users[name] == [op]:
            set_texts(edits.edit(name), values, is_scalar)
            return reference
    node = edits.add("Const", f"{op}/{_HINTS[index]}", device=edits.node(op).device)
    set_texts(node, values, is_scalar)
    return str(node.name)
