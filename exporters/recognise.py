"""Which of the three graph messages a file holds, told from its content before it is parsed."""

from __future__ import annotations

import re
from typing import Literal

from checkpoints.errors import BrokenFileError
from checkpoints.wire import LENGTH_DELIMITED, VARINT, scan

GraphKind = Literal["graph-def", "meta-graph", "saved-model"]

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)

_TEXT_FIELDS: dict[str, GraphKind] = {
    "node": "graph-def",
    "versions": "graph-def",
    "version": "graph-def",
    "library": "graph-def",
    "debug_info": "graph-def",
    "meta_info_def": "meta-graph",
    "graph_def": "meta-graph",
    "saver_def": "meta-graph",
    "collection_def": "meta-graph",
    "signature_def": "meta-graph",
    "asset_file_def": "meta-graph",
    "object_graph_def": "meta-graph",
    "saved_model_schema_version": "saved-model",
    "meta_graphs": "saved-model",
}
"""Field that a text file opens with -> the message it is."""

_FIRST_FIELD = re.compile(r"(?:\s|#[^\n]*\n)*([A-Za-z_]+)\s*[:{<]")
_OP_NAME = re.compile(rb"[A-Za-z0-9_.>/\\-]+")


def text_of(data: bytes) -> str | None:
    """The text of a protobuf text file, its byte-order mark taken off; None for a binary file."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                return None
    opening = _FIRST_FIELD.match(data[:4096].decode("latin-1"))
    if opening is None or opening.group(1) not in _TEXT_FIELDS:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def kind_of_text(text: str) -> GraphKind | None:
    """Which message a text file holds, from the field it opens with."""
    opening = _FIRST_FIELD.match(text)
    return None if opening is None else _TEXT_FIELDS.get(opening.group(1))


def kind_of_binary(data: bytes) -> GraphKind | None:
    """Which message a binary file holds, from its outermost fields; None where it is none.

    The three messages share field numbers: field 1 is a node, the meta information or the
    schema version, field 2 a function library, a graph or a meta graph. So the first field 1
    and 2 are looked into.
    """
    try:
        for field in scan(data):
            if field.number == 1 and field.wire_type == VARINT:
                return "saved-model" if field.value == 1 else None
            if field.wire_type != LENGTH_DELIMITED:
                return "graph-def" if field.number == 3 else None
            if field.number == 1:
                return "graph-def" if _is_node(data, field.start, field.end) else "meta-graph"
            if field.number == 2:
                return "meta-graph" if _holds_node(data, field.start, field.end) else None
            return "graph-def" if field.number == 4 else None
    except BrokenFileError:
        return None
    return None


def _is_node(data: bytes, start: int, end: int) -> bool:
    """Whether a field 1 is a NodeDef: a name, then the name of an op."""
    op = b""
    for field in scan(data, start, end):
        if field.number == 1 and field.wire_type != LENGTH_DELIMITED:
            return False
        if field.number == 2:
            op = bytes(data[field.start : field.end])
            break
    return _OP_NAME.fullmatch(op) is not None


def _holds_node(data: bytes, start: int, end: int) -> bool:
    """Whether a field 2 is a GraphDef whose first field is a node."""
    for field in scan(data, start, end):
        return field.number == 1 and _is_node(data, field.start, field.end)
    return False
