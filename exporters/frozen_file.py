"""The frozen graph as bytes: a binary GraphDef, written node by node.

The bytes of a variable go from where they lie (a checkpoint's file, seen as memory) straight
into the file, behind a few bytes of protobuf encoded by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from checkpoints.messages import GraphDef, NodeDef, TensorShapeProto
from checkpoints.wire import VARINT, encode_header, encode_tag, encode_varint
from exporters import fields
from exporters.freezing import FrozenGraph
from exporters.rewrites.devices import unplaced_library
from exporters.values import Values, bytes_of, strings_of
from exporters.variables import FrozenVariable


def frozen_graph_def(frozen: FrozenGraph, instead: Mapping[str, NodeDef] | None = None) -> GraphDef:
    """The frozen graph as a message in memory, which holds a copy of every variable.

    Args:
      frozen: the graph.
      instead: node name -> the node that takes its place.
    """
    instead = instead or {}
    graph_def = GraphDef()
    for node in frozen.nodes():
        name = node.node if isinstance(node, FrozenVariable) else node.name
        if name in instead:
            graph_def.node.append(instead[name])
        elif isinstance(node, FrozenVariable):
            graph_def.node.append(constant_node(node, frozen.values))
        else:
            graph_def.node.append(node)
    library = unplaced_library(frozen.graph)
    if library.ByteSize():
        graph_def.library.CopyFrom(library)
    graph_def.versions.CopyFrom(frozen.graph.graph_def.versions)
    return graph_def


def write_frozen(frozen: FrozenGraph, file: IO[bytes]) -> None:
    """Writes the frozen graph as a binary GraphDef."""
    for node in frozen.nodes():
        if isinstance(node, FrozenVariable) and not node.header.dtype.is_string:
            data = bytes_of(frozen.values, node.key)
            file.write(_constant_prefix(node, len(data)))
            file.write(data)
        else:
            if isinstance(node, FrozenVariable):
                node = constant_node(node, frozen.values)
            _write_message(file, fields.GRAPH_NODE, node)
    library = unplaced_library(frozen.graph)
    if library.ByteSize():
        _write_message(file, fields.GRAPH_LIBRARY, library)
    _write_message(file, fields.GRAPH_VERSIONS, frozen.graph.graph_def.versions)


def _write_message(file: IO[bytes], field: int, message: Any) -> None:
    data = message.SerializeToString(deterministic=True)
    file.write(encode_header(field, len(data)))
    file.write(data)


def constant_node(variable: FrozenVariable, values: Values) -> NodeDef:
    """A variable as the Const node that takes its place."""
    node = NodeDef(name=variable.node, op="Const")
    number = variable.header.dtype.number
    node.attr["dtype"].type = number
    tensor = node.attr["value"].tensor
    tensor.dtype = number
    tensor.tensor_shape.CopyFrom(_shape_message(variable.header.shape))
    if variable.header.dtype.is_string:
        tensor.string_val.extend(strings_of(values, variable.key))
    else:
        tensor.tensor_content = bytes(bytes_of(values, variable.key))
    return node


def _constant_prefix(variable: FrozenVariable, num_bytes: int) -> bytes:
    """Everything of a Const node that stands before its values; they are its last bytes."""
    number = encode_varint(variable.header.dtype.number)
    shape = _shape_message(variable.header.shape).SerializeToString()
    tensor = b"".join(
        (
            _DTYPE_TAG,
            number,
            encode_header(fields.TENSOR_SHAPE, len(shape)),
            shape,
            encode_header(fields.TENSOR_CONTENT, num_bytes),
        )
    )
    value = encode_header(fields.VALUE_TENSOR, len(tensor) + num_bytes) + tensor
    value = _VALUE_KEY + encode_header(fields.ENTRY_VALUE, len(value) + num_bytes) + value
    dtype = _TYPE_TAG + number
    dtype = _DTYPE_KEY + encode_header(fields.ENTRY_VALUE, len(dtype)) + dtype
    node = b"".join(
        (
            _text(fields.NODE_NAME, variable.node),
            _CONST,
            encode_header(fields.NODE_ATTRIBUTE, len(dtype)),
            dtype,
            encode_header(fields.NODE_ATTRIBUTE, len(value) + num_bytes),
            value,
        )
    )
    return encode_header(fields.GRAPH_NODE, len(node) + num_bytes) + node


def _shape_message(shape: Iterable[int]) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])


def _text(field: int, text: str) -> bytes:
    data = text.encode("utf-8")
    return encode_header(field, len(data)) + data


_CONST = _text(fields.NODE_OP, "Const")
_DTYPE_KEY = _text(fields.ENTRY_KEY, "dtype")
_VALUE_KEY = _text(fields.ENTRY_KEY, "value")
_TYPE_TAG = encode_tag(fields.VALUE_TYPE, VARINT)
_DTYPE_TAG = encode_tag(fields.TENSOR_DTYPE, VARINT)
