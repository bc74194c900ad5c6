"""TensorFlow's label_image: the five most probable labels of one picture, by any frozen graph."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import GraphError, UsageError
from scripts.classic.flags import Flag, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from exporters.graph import Graph
    from exporters.metadata import Metadata
    from exporters.values import Array

TOP = 5
_PIXELS = 299
_DATA = "tensorflow/examples/label_image/data"

FLAGS = (
    Flag("image", str, f"{_DATA}/grace_hopper.jpg", "The picture.", path="file"),
    Flag(
        "graph",
        str,
        f"{_DATA}/inception_v3_2016_08_28_frozen.pb",
        "The frozen graph.",
        path="graph",
    ),
    Flag(
        "labels",
        str,
        f"{_DATA}/imagenet_slim_labels.txt",
        "Names of the classes, a line each.",
        path="file",
    ),
    Flag("input_layer", str, "input", "Node that takes the picture; encoded where it takes text."),
    Flag("output_layer", str, "InceptionV3/Predictions/Reshape_1", "Node of the answers."),
    Flag("input_height", int, None, "Pixels; those of the graph, else 299.", least=1),
    Flag("input_width", int, None, "Pixels; those of the graph, else 299.", least=1),
    Flag("input_mean", float, 0.0, "Taken off each sample, 0 to 255."),
    Flag("input_std", float, 255.0, "Each sample is divided by it then."),
)


@classic(
    "label_image",
    example="slimtune classic label_image --graph=output_graph.pb --labels=output_labels.txt"
    " --input_layer=Placeholder --output_layer=final_result --image=rose.jpg",
    flags=FLAGS,
    today="slimtune predict",
)
def command(output: Output, **flags: Any) -> None:
    """Label a picture: a line for each of the five best, `label score`.

    The whole picture is resized to height and width, bilinear, and made (value - mean) / std.
    """
    import numpy as np

    from exporters.graph import read_graph
    from exporters.labels import read_labels, refuse_other_count
    from exporters.metadata import read_metadata
    from exporters.runtime import GraphRunner
    from scripts.classic.nodes import find_nodes

    if flags["input_std"] == 0:
        raise UsageError(
            "No picture can become the input.",
            expected="--input_std other than 0",
            received="--input_std=0",
            next_step="--input_std=255",
        )
    graph = read_graph(flags["graph"])
    (entry,) = find_nodes(graph, flags["input_layer"], "input_layer")[:1]
    (answer,) = find_nodes(graph, flags["output_layer"], "output_layer")[:1]
    labels = read_labels(flags["labels"])
    size = _size(graph, entry, flags)
    with GraphRunner(graph, [entry], [answer]) as runner:
        scores = np.squeeze(runner.run(_picture(graph, entry, flags, size))[0])
    if scores.ndim != 1:
        raise GraphError(
            f"{graph.label}: {answer} does not give a score for each class.",
            expected="[1, classes]",
            received=f"{scores.ndim} dimensions",
            next_step="Name the node of the answers: --output_layer",
        )
    refuse_other_count(labels, len(scores), flags["labels"])
    best = scores.argsort()[-TOP:][::-1]
    finish(
        output,
        {
            "image": flags["image"],
            "classes": [{"label": labels[i], "score": float(scores[i])} for i in best],
        },
        [f"{labels[i]} {scores[i]!s}" for i in best],
        *_same(flags, read_metadata(graph)),
    )


def _size(graph: Graph, entry: str, flags: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width of the picture, in pixels: as the flags say, else as the graph does.

    Raises:
      GraphError: the graph takes pictures of another size.
    """
    from exporters.names import TensorName

    shape = graph.shape(TensorName(entry)) or ()
    own = shape[1:3] if len(shape) == 4 else (None, None)
    asked = (flags["input_height"], flags["input_width"])
    if any(None not in pair and pair[0] != pair[1] for pair in zip(own, asked, strict=True)):
        raise GraphError(
            f"{graph.label}: {entry} takes pictures of another size.",
            expected=f"{own[0]} x {own[1]} pixels",
            received=" ".join(
                f"--{name}={flags[name]}"
                for name in ("input_height", "input_width")
                if flags[name] is not None
            ),
            next_step="Leave both out: the graph's own size is taken.",
        )
    height, width = (wish or of_graph or _PIXELS for wish, of_graph in zip(asked, own, strict=True))
    return height, width


def _picture(graph: Graph, entry: str, flags: Mapping[str, Any], size: tuple[int, int]) -> Array:
    """What the graph is fed: float32 [1, height, width, 3], or the bytes of the file."""
    import numpy as np

    from checkpoints.messages import DataType
    from exporters.names import TensorName
    from exporters.runtime import load_tensorflow, session_config
    from finetune.datasets.pictures import clean
    from finetune.pixels.decode import decode, resize_to

    encoded = clean(Path(flags["image"])).encoded
    if graph.dtype(TensorName(entry)) == DataType.DT_STRING:
        return np.array(encoded, object)
    tf = load_tensorflow()
    with tf.Graph().as_default() as own:
        pixels = tf.cast(decode(tf.constant(encoded)), tf.float32)
        resized = resize_to(pixels, list(size))
        image = tf.divide(tf.subtract(resized, [flags["input_mean"]]), [flags["input_std"]])
    with tf.compat.v1.Session(graph=own, config=session_config()) as session:
        values: Array = session.run(image)
    return values[None]


def _same(flags: Mapping[str, Any], metadata: Metadata | None) -> list[str]:
    """The command of today, for graphs that say how pictures become their input."""
    if metadata is None or metadata.preprocessing is None:
        return []
    return [shell_words("slimtune", "predict", Path(flags["graph"]), Path(flags["image"]))]


if __name__ == "__main__":
    main(["classic", "label_image", *sys.argv[1:]])
