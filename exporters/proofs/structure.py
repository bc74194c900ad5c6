"""Proof that a frozen graph's file is its source with variables replaced by constants.

The file is scanned on the wire, node by node, and never parsed as a whole. Every node has to be
the source's node of that name, or the constant of a variable whose bytes equal the variable's
values; nothing the outputs need may be missing, and nothing else may be there. What the proof
shares with the writer are the format's constants and the tables of ops, not its code.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from checkpoints.dtypes import name_of_number
from checkpoints.errors import BrokenFileError, VerificationError
from checkpoints.messages import DataType, FunctionDefLibrary, NodeDef, TensorShapeProto, is_same
from checkpoints.wire import LENGTH_DELIMITED, VARINT, Field, scan
from exporters import fields, ops
from exporters.graph import Graph
from exporters.metadata import Metadata
from exporters.names import METADATA_NODE, TensorName
from exporters.proofs.source import ProofSource, functions_named, name_in
from exporters.proofs.value_differences import describe_difference
from exporters.proofs.verdict import PROVED, Verification
from exporters.values import Values, bytes_of, first_difference, header_of, strings_of

_LARGE_BYTES = 1 << 20


def prove_structure(
    path: Path,
    source: Graph,
    values: Values,
    outputs: Sequence[TensorName],
    *,
    keys: Mapping[str, str] | None = None,
    metadata: Metadata | None = None,
    keeps_variables: bool = False,
    label: str | None = None,
) -> Verification:
    """Compares a written .pb with the graph and the variables it was made from.

    Args:
      path: the file.
      source: the whole graph, variables in it.
      values: the variables by name.
      outputs: the tensors the graph was pruned to.
      keys: variable's node -> its name among the values, where that is another.
      metadata: what the file has to say of itself.
      keeps_variables: whether variables have to stand there as they are, and not as constants.
      label: how messages call the file; left out, its path.

    Returns:
      A verification that passed.

    Raises:
      VerificationError: the file is not what it should be; the node is named.
    """
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            raise VerificationError(f"{label or path} is empty.")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    proof = _Proof(label or str(path), source, values, keys or {}, metadata, keeps_variables)
    # The map is not closed: slices of it may live on in the traceback of a failure.
    proof.check(memoryview(mapped), mapped)
    proof.check_completeness([tensor.node for tensor in outputs])
    return PROVED


class _Proof:
    def __init__(
        self,
        label: str,
        source: Graph,
        values: Values,
        keys: Mapping[str, str],
        metadata: Metadata | None,
        keeps_variables: bool,
    ) -> None:
        self._label = label
        self._source = source
        self._nodes = ProofSource(source, keeps_variables)
        self._frozen_ops = frozenset() if keeps_variables else ops.VARIABLES
        self._values = values
        self._keys = keys
        self._metadata = metadata
        self._inputs: dict[str, list[str]] = {}
        self._called: set[str] = set()
        self._library = b""
        self._seen_fields: set[int] = set()

    def check(self, view: memoryview, mapped: mmap.mmap) -> None:
        """Goes through the file once."""
        last = "the beginning"
        try:
            for field in scan(view):
                if field.number == fields.GRAPH_NODE and field.wire_type == LENGTH_DELIMITED:
                    last = self._check_node(view, field.start, field.end)
                    _let_go(mapped, field)
                else:
                    self._check_other(view, field, last)
        except (BrokenFileError, DecodeError, UnicodeDecodeError) as error:
            raise self._failure(
                last, f"what follows {last} is cut or damaged", received=error
            ) from error
        if fields.GRAPH_VERSIONS not in self._seen_fields:
            raise self._failure(last, f"the file ends after {last}, without its versions")

    def check_completeness(self, outputs: list[str]) -> None:
        """Everything the outputs need is there, and nothing else."""
        needed: set[str] = set()
        waiting = list(outputs)
        while waiting:
            name = waiting.pop()
            if name in needed:
                continue
            if name not in self._inputs:
                raise self._failure(name, "the node is missing")
            needed.add(name)
            waiting.extend(name_in(reference) for reference in self._inputs[name])
        for name in self._inputs:
            if name not in needed and name != METADATA_NODE:
                raise self._failure(name, "no output needs the node")
        if self._metadata is not None and METADATA_NODE not in self._inputs:
            raise self._failure(METADATA_NODE, "the metadata is missing")
        self._check_library()

    def _check_node(self, view: memoryview, start: int, end: int) -> str:
        name = _name_of(view, start, end)
        if name in self._inputs:
            raise self._failure(name, "the node stands in the file twice")
        if name == METADATA_NODE:
            self._inputs[name] = []
            self._check_metadata(bytes(view[start:end]))
            return name
        node = self._source.nodes.get(name)
        if node is None:
            raise self._failure(name, "the source has no such node")
        if node.op in self._frozen_ops:
            self._inputs[name] = []
            self._check_constant(view, start, end, name)
            return name
        expected = self._nodes.expected(node)
        self._inputs[name] = list(expected.input)
        data = bytes(view[start:end])
        if data != expected.SerializeToString(deterministic=True):
            self._check_differing(NodeDef.FromString(data), expected, data)
        if self._source.functions:
            self._called.update(functions_named(expected))
        return name

    def _check_differing(self, found: NodeDef, expected: NodeDef, data: bytes) -> None:
        """A node whose bytes differ: control edges were cut, or there is a fault."""
        name = expected.name
        if found.op != expected.op:
            raise self._failure(name, "the op differs", expected.op, found.op)
        if found.device:
            raise self._failure(name, "a device is left", "none", found.device)
        self._check_inputs(name, list(found.input), list(expected.input))
        for attribute in sorted(set(found.attr) | set(expected.attr)):
            if attribute not in found.attr:
                raise self._failure(name, f"the attribute {attribute} is missing")
            if attribute not in expected.attr:
                raise self._failure(name, f"the attribute {attribute} was added")
            if not is_same(found.attr[attribute], expected.attr[attribute]):
                raise self._failure(
                    name,
                    f"the attribute {attribute} differs",
                    _short(expected.attr[attribute]),
                    _short(found.attr[attribute]),
                )
        expected.input[:] = found.input
        if data != expected.SerializeToString(deterministic=True):
            raise self._failure(name, "the bytes differ")
        self._inputs[name] = list(found.input)

    def _check_inputs(self, name: str, found: list[str], expected: list[str]) -> None:
        rest = iter(found)
        current = next(rest, None)
        for reference in expected:
            if reference == current:
                current = next(rest, None)
            elif not reference.startswith("^") or not self._nodes.serves_updates(
                name_in(reference)
            ):
                raise self._failure(name, f"the input {reference} is not there", expected, found)
        if current is not None:
            raise self._failure(name, f"the input {current} is not the source's", expected, found)

    def _check_constant(self, view: memoryview, start: int, end: int, name: str) -> None:
        """A Const with nothing but dtype and value, whose bytes are the variable's."""
        entries: dict[str, tuple[int, int]] = {}
        op = _text(view, _only(view, start, end, fields.NODE_OP))
        if op != "Const":
            raise self._failure(name, "the variable is no constant", "Const", op)
        for field in scan(view, start, end):
            if field.number == fields.NODE_ATTRIBUTE:
                key = _text(view, _only(view, field.start, field.end, fields.ENTRY_KEY))
                value = _only(view, field.start, field.end, fields.ENTRY_VALUE)
                if key in entries:
                    raise self._failure(name, f"the attribute {key} stands there twice")
                entries[key] = (value.start, value.end)
            elif field.number not in (fields.NODE_NAME, fields.NODE_OP):
                raise self._failure(name, "the constant has inputs or a device")
        if entries.keys() != {"dtype", "value"}:
            raise self._failure(
                name, "the attributes differ", "dtype, value", ", ".join(sorted(entries))
            )
        key = self._keys.get(name, name)
        header = header_of(self._values, key)
        dtype = _only(view, *entries["dtype"], fields.VALUE_TYPE)
        tensor = _only(view, *entries["value"], fields.VALUE_TENSOR)
        self._check_dtype(name, header.dtype.number, dtype)
        content: list[Field] = []
        shape = b""
        for field in scan(view, tensor.start, tensor.end):
            if field.number == fields.TENSOR_DTYPE:
                self._check_dtype(name, header.dtype.number, field)
            elif field.number == fields.TENSOR_SHAPE:
                shape = bytes(view[field.start : field.end])
            elif field.number in (fields.TENSOR_CONTENT, fields.TENSOR_STRING):
                content.append(field)
            else:
                raise self._failure(name, f"the tensor has a field {field.number}")
        sizes = [dimension.size for dimension in TensorShapeProto.FromString(shape).dim]
        if sizes != list(header.shape):
            raise self._failure(name, "the shape differs", list(header.shape), sizes)
        if header.dtype.is_string:
            texts = [bytes(view[field.start : field.end]) for field in content]
            if texts != strings_of(self._values, key):
                raise self._failure(name, "the strings differ from the variable's")
            return
        if len(content) > 1 or any(field.number != fields.TENSOR_CONTENT for field in content):
            raise self._failure(name, "the values do not stand there once")
        start, end = (content[0].start, content[0].end) if content else (0, 0)
        self._check_bytes(name, view[start:end], key)

    def _check_dtype(self, name: str, expected: int, field: Field) -> None:
        if field.wire_type != VARINT or field.value != expected:
            raise self._failure(
                name, "the dtype differs", name_of_number(expected), name_of_number(field.value)
            )

    def _check_bytes(self, name: str, found: memoryview, key: str) -> None:
        expected = bytes_of(self._values, key)
        if len(found) != len(expected):
            raise self._failure(
                name, "the values differ in size", f"{len(expected)} bytes", f"{len(found)} bytes"
            )
        place = first_difference(found, expected)
        if place is not None:
            how = describe_difference(found, self._values, key, self._keys.values() or self._values)
            raise self._failure(
                name,
                f"byte {place} of the values differs from the variable's; {how}",
                expected[place],
                found[place],
            )

    def _check_metadata(self, data: bytes) -> None:
        if self._metadata is None:
            raise self._failure(METADATA_NODE, "there is metadata that nobody gave")
        expected = NodeDef(name=METADATA_NODE, op="Const")
        expected.attr["dtype"].type = DataType.DT_STRING
        tensor = expected.attr["value"].tensor
        tensor.dtype = DataType.DT_STRING
        tensor.tensor_shape.SetInParent()
        tensor.string_val.append(self._metadata.to_text().encode("utf-8"))
        if data != expected.SerializeToString(deterministic=True):
            raise self._failure(METADATA_NODE, "the metadata differs")

    def _check_other(self, view: memoryview, field: Field, last: str) -> None:
        """The library and the versions, each once, and nothing else beside the nodes."""
        if field.number in self._seen_fields:
            raise self._failure(last, f"field {field.number} stands after {last} a second time")
        self._seen_fields.add(field.number)
        data = bytes(view[field.start : field.end])
        if field.number == fields.GRAPH_VERSIONS:
            expected = self._source.graph_def.versions
            if data != expected.SerializeToString(deterministic=True):
                raise self._failure(last, "the versions differ", expected)
        elif field.number == fields.GRAPH_LIBRARY:
            self._library = data
        else:
            raise self._failure(last, f"bytes that belong to no node follow {last}")

    def _check_library(self) -> None:
        """The functions are those that nodes call, without devices, and no others."""
        expected = self._nodes.expected_library(self._called)
        if self._library == expected.SerializeToString(deterministic=True):
            return
        found = FunctionDefLibrary.FromString(self._library)
        named = {function.signature.name: function for function in found.function}
        for function in expected.function:
            other = named.pop(function.signature.name, None)
            if other is None or not is_same(other, function):
                raise self._failure(function.signature.name, "the function differs or is missing")
        for name in named:
            raise self._failure(name, "no node calls the function")
        raise self._failure("the library", "a function stands there twice, or gradients differ")

    def _failure(
        self, name: str, message: str, expected: object = None, received: object = None
    ) -> VerificationError:
        return VerificationError(
            f"{self._label} is not what its source says. Node {name}: {message}.",
            expected=None if expected is None else str(expected),
            received=received,
            next_step="Convert again; if it fails again, please report it.",
        )


def _only(view: memoryview, start: int, end: int, number: int) -> Field:
    """The one field of a number inside a message."""
    found = [field for field in scan(view, start, end) if field.number == number]
    if len(found) != 1:
        raise BrokenFileError(f"Field {number} stands there {len(found)} times, not once.")
    return found[0]


def _name_of(view: memoryview, start: int, end: int) -> str:
    """A node's name; all writers put it first, and looking no further is faster."""
    first = next(scan(view, start, end), None)
    if first is None or first.number != fields.NODE_NAME:
        first = _only(view, start, end, fields.NODE_NAME)
    return _text(view, first)


def _text(view: memoryview, field: Field) -> str:
    return str(view[field.start : field.end], "utf-8")


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def _let_go(mapped: mmap.mmap, field: Field) -> None:
    """Tells the system that the pages of a large node were looked at for the last time."""
    if not hasattr(mmap, "MADV_DONTNEED") or field.end - field.start < _LARGE_BYTES:
        return
    start = -(-field.start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = field.end // mmap.PAGESIZE * mmap.PAGESIZE - start
    if length > 0:
        mapped.madvise(mmap.MADV_DONTNEED, start, length)
