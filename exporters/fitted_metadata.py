"""Metadata of a graph that was cut or pruned: names of tensors it still has, the input's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checkpoints.progress import Progress
from exporters.graph import Graph
from exporters.labels import is_probabilities
from exporters.metadata import Metadata
from exporters.names import TensorName, tensor_of


def fit_metadata(
    metadata: Metadata,
    graph: Graph,
    inputs: Sequence[TensorName],
    outputs: Sequence[TensorName],
    progress: Progress,
) -> Metadata:
    """What a graph says of itself after it was cut at its inputs and pruned to its outputs.

    Args:
      metadata: what it said before.
      graph: the graph as it is now.
      inputs: the tensors to feed.
      outputs: the tensors it was pruned to, of which the first is a guess where no name is left.
      progress: told where pictures have another size than before.
    """
    names = {
        role: name for role, name in metadata.outputs.items() if tensor_of(name).node in graph.nodes
    }
    if not names and outputs:
        first = outputs[0]
        role = "probabilities" if is_probabilities(graph, first) else "logits"
        names = {role: str(first)}
    name = metadata.input
    if (name is None or tensor_of(name) not in inputs) and inputs:
        name = str(inputs[0])
    metadata = replace(metadata, input=name, outputs=names)
    if name is None or tensor_of(name).node not in graph.nodes:
        return metadata
    shape = graph.shape(tensor_of(name))
    is_of_pictures = shape is not None and len(shape) == 4
    return _fit_size(metadata, shape[1:3], progress) if shape and is_of_pictures else metadata


def _fit_size(metadata: Metadata, shape: tuple[int | None, ...], progress: Progress) -> Metadata:
    """The metadata for pictures of this height and width, None where it is open."""
    before, preprocessing = metadata.image_size, metadata.preprocessing
    sizes = {size for size in shape if size is not None}
    if len(sizes) == 2:
        if preprocessing is not None:
            progress.say(
                "Left out: the preprocessing, which makes square pictures; the input takes"
                f" {shape[0]} x {shape[1]}."
            )
        return replace(metadata, preprocessing=None, image_size=None)
    size = sizes.pop() if sizes else before
    if preprocessing is not None and "image_size" in preprocessing:
        preprocessing = {**preprocessing, "image_size": size}
        if size != before:
            progress.say(f"The preprocessing makes pictures of {size} pixels now, not {before}.")
    return replace(metadata, preprocessing=preprocessing, image_size=size)
