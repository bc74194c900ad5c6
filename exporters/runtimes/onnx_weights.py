"""Large weights pass tf2onnx by: it converts a graph that takes them as inputs, and they are
written into the file afterwards.

tf2onnx copies its graph, constants and all, dozens of times, some at once: 95 bytes of memory for
each byte of a weight.

Source:
  Field numbers as in ONNX's onnx.proto. Filters are [height, width, in, out] in TensorFlow and
  [out, in, height, width] in ONNX; tf2onnx puts the transposition into the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from checkpoints.messages import GraphDef, NodeDef, TensorShapeProto
from checkpoints.tensors import little_endian_bytes
from checkpoints.wire import encode_header
from exporters.freezing import FrozenGraph
from exporters.frozen_file import frozen_graph_def
from exporters.names import TensorName, node_of
from exporters.runtimes.extras import load_extra
from exporters.values import Array, bytes_of
from exporters.variables import FrozenVariable

LARGE = 1 << 16
"""Constants of so many bytes pass by."""

WEIGHTS_OF = {"Conv2D": 1, "Conv3D": 1, "DepthwiseConv2dNative": 1, "MatMul": 1}
"""Op -> the place of its weights among its inputs. tf2onnx looks at their shape alone."""

_FLOATS = {1: "<f4", 2: "<f8", 19: "<f2"}
"""Number of a dtype -> numpy's name of it."""

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9


def set_weights_aside(frozen: FrozenGraph) -> tuple[GraphDef, dict[str, Array]]:
    """The frozen graph with placeholders for large weights, and the weights.

    Returns:
      The graph without metadata; tensor name of a placeholder -> its values, as they lie in the
      checkpoint or the graph.
    """
    bare = replace(frozen, metadata=None)
    nodes = list(bare.nodes())
    readers = _readers(nodes)
    weights: dict[str, Array] = {}
    for node in nodes:
        name = node.node if isinstance(node, FrozenVariable) else node.name
        values = _large_values(node, frozen)
        if values is not None and _is_weight(name, readers):
            weights[name] = values
    placeholders = {name: _placeholder(name, values) for name, values in weights.items()}
    graph_def = frozen_graph_def(bare, placeholders)
    return graph_def, {str(TensorName(name)): values for name, values in weights.items()}


def _readers(nodes: Sequence[NodeDef | FrozenVariable]) -> dict[str, list[tuple[NodeDef, int]]]:
    """Node -> which nodes read it, and as which of their inputs."""
    readers: dict[str, list[tuple[NodeDef, int]]] = defaultdict(list)
    for node in nodes:
        if not isinstance(node, FrozenVariable):
            for place, reference in enumerate(node.input):
                readers[node_of(reference)].append((node, place))
    return readers


def _is_weight(name: str, readers: Mapping[str, list[tuple[NodeDef, int]]]) -> bool:
    """Whether a node is read as weights, also through Identity, and as nothing else."""
    return bool(readers.get(name)) and all(
        WEIGHTS_OF.get(reader.op) == place
        or (reader.op == "Identity" and _is_weight(reader.name, readers))
        for reader, place in readers[name]
    )


def _large_values(node: NodeDef | FrozenVariable, frozen: FrozenGraph) -> Array | None:
    """The values of a constant that is large enough, uncopied; else None."""
    if isinstance(node, FrozenVariable):
        number, shape = node.header.dtype.number, node.header.shape
        dtype = _FLOATS.get(number)
        if dtype is None or np.prod(shape) * np.dtype(dtype).itemsize < LARGE:
            return None
        return np.frombuffer(bytes_of(frozen.values, node.key), dtype).reshape(shape)
    if node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    dtype = _FLOATS.get(tensor.dtype)
    if dtype is None or len(tensor.tensor_content) < LARGE:
        return None
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)


def _placeholder(name: str, values: Array) -> NodeDef:
    node = NodeDef(name=name, op="Placeholder")
    node.attr["dtype"].type = next(
        number for number, dtype in _FLOATS.items() if np.dtype(dtype) == values.dtype
    )
    dimensions = [TensorShapeProto.Dim(size=size) for size in values.shape]
    node.attr["shape"].shape.CopyFrom(TensorShapeProto(dim=dimensions))
    return node


def write_model(model: Any, weights: Mapping[str, Array], file: IO[bytes]) -> int:
    """Writes a model, the weights among its constants and no longer inputs.

    What only turns weights around or names them anew is done to them here.

    Args:
      model: tf2onnx's ModelProto of the graph with placeholders; it is changed.
      weights: tensor name -> values.
      file: where the model goes.

    Returns:
      The number of nodes.
    """
    onnx = load_extra("onnx")
    graph = model.graph
    for kept in [entry for entry in graph.input if entry.name in weights]:
        graph.input.remove(kept)
    constants = _turned(graph, weights, load_extra("onnx.numpy_helper"))
    heads = {}
    for name, values in constants.items():
        head = onnx.TensorProto(
            name=name,
            dims=values.shape,
            data_type=onnx.helper.np_dtype_to_tensor_dtype(values.dtype),
        ).SerializeToString() + encode_header(_TENSOR_RAW_DATA, values.nbytes)
        length = len(head) + values.nbytes
        heads[name] = encode_header(_GRAPH_INITIALIZER, length) + head
    num_nodes = len(graph.node)
    rest = graph.SerializeToString()
    model.ClearField("graph")
    file.write(model.SerializeToString())
    size = len(rest) + sum(len(heads[name]) + constants[name].nbytes for name in heads)
    file.write(encode_header(_MODEL_GRAPH, size))
    file.write(rest)
    for name, values in constants.items():
        file.write(heads[name])
        file.write(little_endian_bytes(values))
    return num_nodes


def _turned(graph: Any, weights: Mapping[str, Array], numpy_helper: Any) -> dict[str, Array]:
    """The constants that nodes read in the end; nodes that only made them are removed."""
    constants = dict(weights)
    small = {entry.name: entry for entry in graph.initializer}
    outputs = {entry.name for entry in graph.output}
    for node in list(graph.node):
        if not node.input or node.input[0] not in constants or node.output[0] in outputs:
            continue
        values = constants[node.input[0]]
        if node.op_type == "Identity":
            turned = values
        elif node.op_type == "Transpose":
            orders = [list(one.ints) for one in node.attribute if one.name == "perm"]
            turned = values.transpose(orders[0] if orders else None)
        elif node.op_type == "Reshape" and node.input[1] in small:
            sizes = numpy_helper.to_array(small[node.input[1]])
            # A size of 0 is that of the input.
            turned = values.reshape(
                [int(size) or values.shape[place] for place, size in enumerate(sizes)]
            )
        else:
            continue
        constants[node.output[0]] = turned
        graph.node.remove(node)
    if any(part.HasField("g") for node in graph.node for part in node.attribute):
        return constants  # Graphs inside nodes may read any of them.
    read = {name for node in graph.node for name in node.input}
    for name in small.keys() - read - outputs:
        graph.initializer.remove(small[name])
    return {name: values for name, values in constants.items() if name in read}
