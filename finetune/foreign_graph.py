"""Graphs that another program wrote: what slimtune's metadata would say, from the file and a person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import GraphError
from checkpoints.progress import SILENT, Progress
from exporters.graph import Graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs
from exporters.labels import count_classes, is_probabilities, read_labels, refuse_other_count
from exporters.metadata import Metadata
from exporters.rewrites.prune import prune
from finetune.preprocessing import Preprocessing


@dataclass(frozen=True)
class Description:
    """What a person says of a model that does not say it itself.

    Attributes:
      preprocessing: how pictures become its input: a kind.
      labels: a file of class names, a line each, or None.
    """

    preprocessing: str
    labels: Path | None = None


def describe_graph(graph: Graph, description: Description, progress: Progress = SILENT) -> Metadata:
    """The metadata of a graph without any: input and answers as its signature says, or guessed.

    Args:
      graph: with one input of pictures, [?, size, size, channels].
      description: what the file cannot say.
      progress: told what was taken.

    Raises:
      GraphError: inputs or outputs are not clear, or the labels have another number of classes.
      DataError: the file of labels is none.
    """
    channels = Preprocessing(description.preprocessing, 1).channels
    output = resolve_outputs(graph, (), None, progress)[0]
    inputs = placeholders(prune(graph, (output,)).graph)
    shapes = [(tensor, graph.shape(tensor)) for tensor in inputs]
    pictures = [
        (tensor, shape[1])
        for tensor, shape in shapes
        if shape is not None and len(shape) == 4 and shape[3] == channels
        if shape[1] is not None and shape[1] == shape[2]
    ]
    if len(pictures) != 1:
        raise GraphError(
            f"{graph.label} does not say where pictures go in.",
            expected=f"one placeholder [?, size, size, {channels}]",
            received=", ".join(f"{tensor} {shape}" for tensor, shape in shapes) or "no placeholder",
            next_step=f"Make one with slimtune convert --inputs 'NAME[=?x224x224x{channels}]'.",
        )
    tensor, size = pictures[0]
    classes = () if description.labels is None else read_labels(description.labels)
    known = count_classes(graph, output, {})
    if classes and known is not None:
        refuse_other_count(classes, known, str(description.labels))
    preprocessing = Preprocessing(description.preprocessing, size)
    progress.say(f"Input {tensor}, {size} pixels, preprocessing {preprocessing.name}.")
    role = "probabilities" if is_probabilities(graph, output) else "logits"
    return Metadata(
        classes=classes,
        preprocessing=preprocessing.as_json(),
        image_size=size,
        input=str(tensor),
        outputs={role: str(output)},
    )
