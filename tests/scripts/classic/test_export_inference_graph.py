"""export_inference_graph: a GraphDef without weights, its names and shapes."""

from __future__ import annotations

import json

import pytest
from google.protobuf import text_format

from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def exported(slimtune, tiny_net, tmp_path):
    """Types the script; gives the graph's nodes by name and what --json prints."""

    def type_(*flags, text=False):
        path = tmp_path / "graph.pb"
        code, out, err = slimtune(
            *("classic", "export_inference_graph", f"--output_file={path}", *flags, "--json")
        )
        assert code == 0, err
        graph = load_tensorflow().compat.v1.GraphDef()
        if text:
            text_format.Parse(path.read_text(), graph)
        else:
            graph.ParseFromString(path.read_bytes())
        return {node.name: node for node in graph.node}, json.loads(out)

    return type_


def shape_of(node):
    shape = node.attr["shape"].shape
    return [dimension.size for dimension in shape.dim]


def test_names_and_variables_are_tf_slims(exported):
    nodes, told = exported("--model_name=mobilenet_v1_025", "--image_size=128")
    assert (told["output"], told["classes"]) == ("MobilenetV1/Predictions/Reshape_1", 1001)
    assert nodes["input"].op == "Placeholder" and shape_of(nodes["input"]) == [-1, 128, 128, 3]
    assert told["output"] in nodes and "probabilities" not in nodes
    assert nodes["MobilenetV1/Logits/Conv2d_1c_1x1/weights"].op == "VariableV2"
    assert shape_of(nodes["MobilenetV1/Logits/Conv2d_1c_1x1/biases"]) == [1001]
    assert not {"VarHandleOp", "RandomUniform"} & {
        node.op for node in nodes.values() if "Initializer" not in node.name
    }
    assert told["same"] == [
        "slimtune convert CHECKPOINT model.pb --net mobilenet_v1_025 --classes 1001 --image-size 128"
    ]


@pytest.mark.parametrize("text", [True, False])
def test_batch_training_classes_and_text(exported, colours, text):
    flags = ["--model_name=tiny", f"--dataset_dir={colours}", "--batch_size=2", "--is_training"]
    nodes, told = exported(*flags, *(["--write_text_graphdef"] if text else []), text=text)
    assert shape_of(nodes["input"]) == [2, 16, 16, 3]
    assert (told["classes"], shape_of(nodes["Tiny/Logits/fc/biases"])) == (3, [3])
    assert any("Dropout" in name for name in nodes)
    norms = [node for node in nodes.values() if node.op.startswith("FusedBatchNorm")]
    assert norms and all(node.attr["is_training"].b for node in norms)


def test_the_names_of_datasets_say_how_many_classes(exported):
    assert exported("--model_name=tiny", "--labels_offset=1")[1]["classes"] == 1000
    assert exported("--model_name=tiny", "--dataset_name=flowers")[1]["classes"] == 5


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        (["--dataset_name=roses"], "How many classes 'roses' has is not known.", 1),
        (["--quantize"], "--quantize: training with simulated quantization", 1),
        (
            ["--is_video_model", "--num_frames=3"],
            "--is_video_model: there are no nets of videos.",
            1,
        ),
        (["--image_size=0"], "--image_size counts from 1.", 2),
    ],
)
def test_what_is_refused(slimtune, tiny_net, tmp_path, flags, said, code):
    path = tmp_path / "graph.pb"
    words = ("classic", "export_inference_graph", "--model_name=tiny", f"--output_file={path}")
    got, out, err = slimtune(*words, *flags)
    assert (got, out) == (code, "") and said in err
    assert not path.exists()


def test_a_dataset_that_is_not_there_is_not_its_name(slimtune, tmp_path):
    for data, said in (("nope", "nope is not there."), ("", "holds no")):
        code, _, err = slimtune(
            *("classic", "export_inference_graph", f"--output_file={tmp_path / 'g.pb'}"),
            f"--dataset_dir={tmp_path / data}",
        )
        assert code == 1
        assert said in err
        assert not list(tmp_path.iterdir())
