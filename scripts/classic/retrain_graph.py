"""The graph that retrain leaves behind: its input and answers under the names the next step feeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkpoints.errors import UnsupportedError, UsageError
from checkpoints.messages import DataType, GraphDef, MetaGraphDef, NodeDef
from exporters.graph import Graph, read_graph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE
from exporters.metadata import Metadata, metadata_node, read_metadata
from exporters.names import METADATA_NODE, is_control, node_of, tensor_of

HUB_INPUT = "Placeholder"
"""The input after retraining on a Hub module: pictures in [0, 1]."""

OLD_INPUTS = {"inception": "Mul", "mobilenet": "input"}
"""How an architecture begins -> the input after retraining on it: pictures as the net takes them."""

_PREFIX = "hub_input"

_VGG_MEAN = (123.68, 116.779, 103.939)
_SCALES: dict[str, tuple[float, Sequence[float]]] = {
    "inception": (2.0, (1.0,)),
    "vgg": (255.0, _VGG_MEAN),
    "none": (255.0, (0.0,)),
    "unit": (1.0, (0.0,)),
}
"""Preprocessing -> by what values in [0, 1] are multiplied, and what is taken off then."""

_CROPPED = ("inception", "vgg")
"""Preprocessings that look at the middle of a picture."""

_MIDDLE = 0.875
"""Share of height and width: of vgg 224 of 256 pixels."""


@dataclass(frozen=True)
class OldNames:
    """What a graph's ends are called.

    Attributes:
      input: node that takes the pictures.
      final: node of the probabilities.
      in_unit_range: whether the pictures are whole ones in [0, 1], whatever the net itself takes;
        the graph looks at the middle of them that the net was trained on.
    """

    input: str
    final: str
    in_unit_range: bool


_NODE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def check_names(names: OldNames, net: str) -> None:
    """Finds before training what would be wrong with the name of the probabilities.

    Args:
      names: of the ends.
      net: a registered net, or a file with a graph, whose nodes have names already.

    Raises:
      UsageError: no node can have the name, or one has it.
    """
    from finetune.nets.graph_net import is_graph_file

    taken = {names.input}
    if is_graph_file(net):
        taken |= set(read_graph(net).nodes)
    if names.final in taken:
        raise _taken(names.final)
    if not _NODE_NAME.fullmatch(names.final):
        raise UsageError(
            "--final_tensor_name is no name of a node.",
            expected="letters, digits and _ . / -, as in final_result",
            received=f"--final_tensor_name={names.final}",
            next_step="Choose another --final_tensor_name.",
        )


def _taken(name: str) -> UsageError:
    return UsageError(
        f"The net has a node {name} already.",
        expected="a name that is free",
        received=name,
        next_step="Choose another --final_tensor_name.",
    )


def with_old_names(file: Path, names: OldNames) -> Graph:
    """A run's inference graph with other ends, its variables as they are.

    Args:
      file: inference_graph.pb of a run.
      names: of the ends.

    Returns:
      A graph with metadata that fits, and a signature of image and prediction.

    Raises:
      UsageError: a name is taken already.
      UnsupportedError: the net takes pictures that values in [0, 1] do not give.
    """
    graph = read_graph(file)
    metadata = read_metadata(graph) or Metadata()
    pictures = tensor_of(metadata.input or "").node
    answers = tensor_of(metadata.outputs["probabilities"]).node
    renamed = {answers: names.final}
    if not names.in_unit_range:
        renamed[pictures] = names.input
    for old, new in renamed.items():
        if new != old and new in graph.nodes:
            raise _taken(new)
    changed = GraphDef()
    if names.in_unit_range:
        changed.node.extend(_scaled(graph.nodes[pictures], names.input, metadata))
        metadata = _in_unit_range(metadata)
    for name, node in graph.nodes.items():
        if name == METADATA_NODE or (names.in_unit_range and name == pictures):
            continue
        copy = changed.node.add()
        copy.CopyFrom(node)
        copy.name = renamed.get(name, name)
        copy.input[:] = [_renamed(reference, renamed) for reference in node.input]
    metadata = replace(
        metadata,
        input=f"{names.input}:0",
        outputs={**metadata.outputs, "probabilities": f"{names.final}:0"},
    )
    changed.node.append(metadata_node(metadata))
    changed.library.CopyFrom(graph.graph_def.library)
    changed.versions.CopyFrom(graph.graph_def.versions)
    signed = MetaGraphDef()
    signature = signed.signature_def[DEFAULT_SIGNATURE]
    signature.inputs["image"].name = f"{names.input}:0"
    signature.outputs["prediction"].name = f"{names.final}:0"
    return Graph(changed, graph.kind, file, signed)


def _in_unit_range(metadata: Metadata) -> Metadata:
    from finetune.preprocessing import Preprocessing

    size = metadata.image_size or 1
    return replace(metadata, preprocessing=Preprocessing("unit", size).as_json())


def _scaled(pictures: NodeDef, name: str, metadata: Metadata) -> list[NodeDef]:
    """A placeholder of pictures in [0, 1], and what makes the net's input of it, by its old name."""
    kind = str((metadata.preprocessing or {}).get("name"))
    if kind not in _SCALES:
        raise UnsupportedError(
            f"The net takes pictures by the preprocessing {kind}, and no scale makes these of"
            " values in [0, 1].",
            expected=f"a net with one of {', '.join(_SCALES)}",
            received=kind,
            next_step="slimtune train and convert leave the input as the net takes it.",
        )
    factor, offset = _SCALES[kind]
    placeholder = NodeDef()
    placeholder.CopyFrom(pictures)
    placeholder.name = name
    middle = _middle(name, metadata) if kind in _CROPPED else []
    seen = middle[-1].name if middle else name
    product = _binary(f"{_PREFIX}/Mul", "Mul", seen, f"{_PREFIX}/Mul/y")
    return [
        placeholder,
        *middle,
        _constant(f"{_PREFIX}/Mul/y", [factor]),
        product,
        _constant(f"{_PREFIX}/Sub/y", offset),
        _binary(pictures.name, "Sub", product.name, f"{_PREFIX}/Sub/y"),
    ]


def _middle(pictures: str, metadata: Metadata) -> list[NodeDef]:
    """Cuts out the middle of whole pictures and enlarges it to their size: what the net was trained on."""
    size = metadata.image_size or 1
    share = float((metadata.preprocessing or {}).get("central_fraction", _MIDDLE))
    start = int((size - size * share) / 2)
    side = size - 2 * start
    cut = NodeDef(name=f"{_PREFIX}/Slice", op="Slice")
    cut.input.extend([pictures, f"{_PREFIX}/Slice/begin", f"{_PREFIX}/Slice/size"])
    cut.attr["T"].type = DataType.DT_FLOAT
    cut.attr["Index"].type = DataType.DT_INT32
    enlarged = NodeDef(name=f"{_PREFIX}/ResizeBilinear", op="ResizeBilinear")
    enlarged.input.extend([cut.name, f"{_PREFIX}/ResizeBilinear/size"])
    enlarged.attr["T"].type = DataType.DT_FLOAT
    enlarged.attr["align_corners"].b = False
    enlarged.attr["half_pixel_centers"].b = False
    return [
        _constant(f"{_PREFIX}/Slice/begin", [0, start, start, 0], DataType.DT_INT32),
        _constant(f"{_PREFIX}/Slice/size", [-1, side, side, -1], DataType.DT_INT32),
        cut,
        _constant(f"{_PREFIX}/ResizeBilinear/size", [size, size], DataType.DT_INT32),
        enlarged,
    ]


def _binary(name: str, op: str, *inputs: str) -> NodeDef:
    node = NodeDef(name=name, op=op, input=inputs)
    node.attr["T"].type = DataType.DT_FLOAT
    return node


def _constant(name: str, values: Sequence[float], dtype: DataType = DataType.DT_FLOAT) -> NodeDef:
    """A Const of float32 or int32: a scalar where there is one value, else a vector."""
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype
    tensor.tensor_shape.SetInParent()
    if len(values) > 1:
        tensor.tensor_shape.dim.add(size=len(values))
    kind = "<f4" if dtype == DataType.DT_FLOAT else "<i4"
    tensor.tensor_content = np.asarray(values, kind).tobytes()
    return node


def _renamed(reference: str, renamed: dict[str, str]) -> str:
    node = node_of(reference)
    if node not in renamed:
        return reference
    start = "^" if is_control(reference) else ""
    return f"{start}{renamed[node]}{reference[len(start) + len(node) :]}"
