"""MetaGraphDefs as bytes: a few nodes and the SaverDef changed, all else kept as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from checkpoints.wire import LENGTH_DELIMITED, encode_header, scan
from exporters import fields
from exporters.graph import Graph
from exporters.recognise import text_of
from exporters.savers.graph_edits import GraphEdits

_Pieces: TypeAlias = list[bytes | memoryview]

# As PEP 440 has it, which TensorFlow holds the version of a .meta to.
_VERSION = re.compile(
    r"v?(\d+!)?\d+(\.\d+)*"
    r"([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(-\d+|[-_.]?(post|rev|r)[-_.]?\d*)?"
    r"([-_.]?dev[-_.]?\d*)?"
    r"(\+[a-z0-9]+([-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_RELEASE = re.compile(r"v?\d+(\.\d+)*")


def meta_graph_bytes(graph: Graph) -> bytes:
    """A graph as a MetaGraphDef: the file's own bytes where it is one, else as few more as need be."""
    if graph.meta_graph is None:
        return _field(fields.META_GRAPH, graph.graph_def)
    if graph.kind == "meta-graph" and graph.path is not None and graph.path.is_file():
        data = graph.path.read_bytes()
        if text_of(data) is None:
            return data
    serialized: bytes = graph.meta_graph.SerializeToString(deterministic=True)
    return serialized


def importable_version(version: str) -> str:
    """A version that TensorFlow can import: the release of one like `0.12.head`, which it cannot.

    "0" where no release stands at its beginning. TensorFlow asks only whether it is before 1.9.
    """
    if not version or _VERSION.fullmatch(version.strip()):
        return version
    release = _RELEASE.match(version)
    return release[0] if release else "0"


def with_edits(
    data: bytes, graph: Graph, edits: GraphEdits, saver_def: Any, version: str | None
) -> bytes:
    """A MetaGraphDef with edited nodes, another SaverDef and, where it is given, another version.

    Args:
      data: the MetaGraphDef.
      graph: what `data` was parsed to.
      edits: what of its nodes is changed, removed and added; what is added stands behind them.
      saver_def: the SaverDef.
      version: the tensorflow_version of its meta information; None leaves it.
    """
    view = memoryview(data)
    pieces: _Pieces = []
    saver = _field(fields.META_SAVER, saver_def)
    names = iter([node.name for node in graph.graph_def.node])
    added: _Pieces = [_field(fields.GRAPH_NODE, node) for node in edits.added.values()]
    is_saver_written = False
    start = 0
    for field in scan(view):
        payload = view[field.start : field.end]
        if field.wire_type != LENGTH_DELIMITED:
            pieces.append(view[start : field.end])
        elif field.number == fields.META_GRAPH:
            pieces += _message(field.number, [*_edited_nodes(payload, names, edits), *added])
            added = []
        elif field.number == fields.META_SAVER:
            pieces += [] if is_saver_written else [saver]
            is_saver_written = True
        elif field.number == fields.META_INFO and version is not None:
            pieces += _message(field.number, _with_version(payload, version))
        else:
            pieces.append(view[start : field.end])
        start = field.end
    return b"".join(pieces if is_saver_written else [*pieces, saver])


def _edited_nodes(graph_def: memoryview, names: Iterator[str], edits: GraphEdits) -> _Pieces:
    """The bytes of a GraphDef; nodes that are not edited are not parsed."""
    pieces: _Pieces = []
    start = done = 0
    for field in scan(graph_def):
        if field.number == fields.GRAPH_NODE:
            name = next(names)
            if name in edits.changed or name in edits.removed:
                pieces.append(graph_def[done:start])
                done = field.end
                if name not in edits.removed:
                    pieces.append(_field(fields.GRAPH_NODE, edits.changed[name]))
        start = field.end
    return [*pieces, graph_def[done:]]


def _with_version(info: memoryview, version: str) -> _Pieces:
    text = version.encode("utf-8")
    pieces: _Pieces = []
    start = 0
    for field in scan(info):
        if field.number != fields.INFO_VERSION:
            pieces.append(info[start : field.end])
        start = field.end
    return [*pieces, *_message(fields.INFO_VERSION, [text])]


def _message(number: int, payload: _Pieces) -> _Pieces:
    return [encode_header(number, sum(map(len, payload))), *payload]


def _field(number: int, message: Any) -> bytes:
    payload: bytes = message.SerializeToString(deterministic=True)
    return encode_header(number, len(payload)) + payload
