"""Signatures: what tf.saved_model and servers call a model's inputs and outputs by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from checkpoints.messages import SignatureDef, TensorInfo
from checkpoints.tensors import set_shape
from exporters.graph import Graph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE
from exporters.names import TensorName, tensor_of
from exporters.shapes.inference import ShapeInference
from exporters.shapes.sizes import Shape

PREDICT = "tensorflow/serving/predict"
"""What a server does with a signature whose inputs and outputs may be anything."""

_NO_WORD = re.compile(r"\W", re.ASCII)


def serving_signature(
    graph: Graph,
    inputs: Iterable[TensorName],
    outputs: Iterable[TensorName],
    roles: Mapping[str, str] | None = None,
    known: Mapping[str, Any] | None = None,
) -> SignatureDef:
    """A signature of inputs and outputs.

    Args:
      graph: the graph that has them.
      inputs: the tensors to feed.
      outputs: the tensors that hold answers.
      roles: role -> output, from the model's metadata; a role is an output's key.
      known: signatures that the graph had; their keys are kept.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    given = {tensor: shape for tensor in inputs if (shape := graph.shape(tensor)) is not None}
    shapes = ShapeInference(graph, given).shapes
    input_keys, output_keys = _known_keys(known or {})
    for role, name in (roles or {}).items():
        output_keys.setdefault(tensor_of(name), role)
    signature = SignatureDef(method_name=PREDICT)
    for key, tensor in _keyed(inputs, input_keys):
        signature.inputs[key].CopyFrom(_tensor_info(graph, tensor, shapes))
    for key, tensor in _keyed(outputs, output_keys):
        signature.outputs[key].CopyFrom(_tensor_info(graph, tensor, shapes))
    return signature


def _tensor_info(
    graph: Graph, tensor: TensorName, shapes: Mapping[TensorName, Shape]
) -> TensorInfo:
    """Name, dtype and shape of a tensor, as far as the graph says them or they follow."""
    info = TensorInfo(name=str(tensor), dtype=graph.dtype(tensor) or 0)
    shape = graph.shape(tensor)
    shape = shapes.get(tensor) if shape is None else shape
    if shape is None:
        info.tensor_shape.unknown_rank = True
    else:
        set_shape(info.tensor_shape, tuple(-1 if size is None else size for size in shape))
    return info


def _known_keys(
    signatures: Mapping[str, Any],
) -> tuple[dict[TensorName, str], dict[TensorName, str]]:
    """Tensor -> its key as an input and as an output; the default signature's first."""
    inputs: dict[TensorName, str] = {}
    outputs: dict[TensorName, str] = {}
    for name in sorted(signatures, key=lambda name: name != DEFAULT_SIGNATURE):
        for key, info in sorted(signatures[name].inputs.items()):
            inputs.setdefault(tensor_of(info.name), key)
        for key, info in sorted(signatures[name].outputs.items()):
            outputs.setdefault(tensor_of(info.name), key)
    return inputs, outputs


def _keyed(
    tensors: Iterable[TensorName], known: Mapping[TensorName, str]
) -> list[tuple[str, TensorName]]:
    """Each tensor under a key of its own: the known one, else the last part of its name."""
    keyed: dict[str, TensorName] = {}
    for tensor in tensors:
        # Keys are names of arguments where TensorFlow loads a signature as a function.
        word = known.get(tensor) or _NO_WORD.sub("_", tensor.node.rpartition("/")[2]) or "tensor"
        key, count = word, 0
        while key in keyed:
            count += 1
            key = f"{word}_{count}"
        keyed[key] = tensor
    return list(keyed.items())
