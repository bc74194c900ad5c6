"""export_inference_graph: a net as a GraphDef without weights, as TF-Slim's script wrote it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from checkpoints.command_lines import shell_words
from scripts.classic import slim
from scripts.classic.flags import Flag, Refused, classic, finish
from scripts.main import main
from scripts.output import Output

_VIDEO = "Leave it out; the nets here are of pictures."

FLAGS = (
    slim.MODEL_NAME,
    Flag("output_file", str, None, "The GraphDef to write.", required=True, path="output"),
    Flag("image_size", int, None, "Height and width in pixels; the net's own.", least=1),
    Flag("batch_size", int, None, "Pictures of a batch; any number.", least=1),
    slim.DATASET_NAME,
    Flag(
        "dataset_dir",
        str,
        "",
        "The dataset, whose classes are counted; the name counts.",
        path="dataset",
    ),
    slim.LABELS_OFFSET,
    Flag("is_training", bool, False, "Write the net as it trains."),
    Flag("write_text_graphdef", bool, False, "Write text."),
    slim.QUANTIZE,
    slim.GRAYSCALE,
    Refused("is_video_model", bool, False, "there are no nets of videos.", _VIDEO),
    Refused("num_frames", int, None, "there are no nets of videos.", _VIDEO),
)


@classic(
    "export_inference_graph",
    example="slimtune classic export_inference_graph --model_name=inception_v3 "
    "--output_file=inception_v3_inf_graph.pb",
    flags=FLAGS,
    today="slimtune convert",
    options={
        **slim.OPTIONS,
    },
)
def command(output: Output, **flags: Any) -> None:
    """Write a net as a GraphDef without weights, for freeze_graph.

    Its input is the placeholder input, its answers are, as in InceptionV3/Predictions/Reshape_1,
    named as TF-Slim names them; variables are of the kind that every TensorFlow freezes. A file
    that is there is replaced, as ever.
    """
    from google.protobuf import text_format

    from checkpoints.files import atomic_file

    net = slim.net_name(flags["model_name"])
    classes = slim.count_classes(
        flags["dataset_name"], flags["dataset_dir"], flags["labels_offset"]
    )
    with output.task(f"Building {net}", None):
        graph_def, answers = build(
            net, classes, flags["image_size"], flags["batch_size"], flags["is_training"]
        )
    path = Path(flags["output_file"])
    with atomic_file(path) as file:
        file.write(
            text_format.MessageToString(graph_def).encode()
            if flags["write_text_graphdef"]
            else graph_def.SerializeToString(deterministic=True)
        )
    words: list[str | Path] = ["slimtune", "convert", "CHECKPOINT", "model.pb", "--net", net]
    words += ["--classes", str(classes)]
    words += ["--image-size", str(flags["image_size"])] if flags["image_size"] else []
    finish(
        output,
        {"path": path, "net": net, "classes": classes, "input": "input", "output": answers},
        [
            f"{path}: {net} with {classes} classes, {len(graph_def.node):,} nodes.",
            f"Input         input\nOutput        {answers}",
        ],
        shell_words(*words),
    )


def build(
    net: str, classes: int, image_size: int | None, batch_size: int | None, is_training: bool
) -> tuple[Any, str]:
    """A net's tensorflow.GraphDef with TF-Slim's names, and the node of its answers.

    Args:
      net: name of a registered net.
      classes: length of the logits.
      image_size: height and width in pixels; None: the net's own.
      batch_size: pictures of a batch; None: any number.
      is_training: batch norm and dropout as in training.
    """
    from checkpoints.published import get_net
    from exporters.runtime import load_tensorflow
    from finetune.nets.build import INPUT, build_net
    from finetune.preprocessing import Preprocessing

    tf = load_tensorflow()
    v1 = tf.compat.v1
    record = get_net(net)
    size = image_size or record.image_size
    channels = Preprocessing(record.preprocessing, size).channels
    with tf.Graph().as_default() as graph:
        # freeze_graph of TensorFlow knows no other kind of variables.
        v1.get_variable_scope().set_use_resource(False)
        images = v1.placeholder(tf.float32, [batch_size, size, size, channels], name=INPUT)
        built = build_net(record, images, classes, is_training=is_training)
        answers = built.end_points.get("Predictions", built.predictions).op.name
        graph_def = graph.as_graph_def()
    if answers != built.predictions.op.name:
        # The answers stand in the graph already, under TF-Slim's name.
        nodes = [node for node in graph_def.node if node.name != built.predictions.op.name]
        del graph_def.node[:]
        graph_def.node.extend(nodes)
    return graph_def, answers


if __name__ == "__main__":
    main(["classic", "export_inference_graph", *sys.argv[1:]])
