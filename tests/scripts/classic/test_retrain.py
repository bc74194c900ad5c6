"""retrain on a small frozen graph: its files are what label_image, Serving and TensorBoard take."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import checkpoints
from exporters.graph import read_graph
from exporters.metadata import read_metadata

pytestmark = pytest.mark.tensorflow

STEPS = 40


@pytest.fixture(scope="module")
def trunk(tf, tmp_path_factory):
    """A frozen net of 16-pixel pictures in [-1, 1]: the mean of each channel, times a matrix."""
    path = tmp_path_factory.mktemp("trunk") / "trunk.pb"
    with tf.Graph().as_default() as graph:
        images = tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3], name="images")
        pooled = tf.reduce_mean(images, [1, 2], name="pooled")
        tf.nn.softmax(tf.matmul(pooled, tf.ones([3, 7])), name="answers")
        path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@pytest.fixture(scope="module")
def retrained(trunk, colour_pictures, tmp_path_factory):
    """What one call wrote and printed."""
    folder = tmp_path_factory.mktemp("retrained")
    paths = SimpleNamespace(
        folder=folder,
        graph=folder / "output_graph.pb",
        labels=folder / "output_labels.txt",
        run=folder / "logs",
        saved_model=folder / "saved_model" / "1",
        checkpoint=folder / "last",
    )
    from scripts.main import main

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        said = []
        patch.setattr("scripts.output.Output.say", lambda self, text: said.append(text))
        patch.setattr(
            "scripts.output.Output.result", lambda self, value, *lines: said.extend([value, *lines])
        )
        main(
            [
                *(
                    "classic",
                    "retrain",
                    f"--image_dir={colour_pictures}",
                    "--flip_left_right=false",
                ),
                *(f"--output_graph={paths.graph}", f"--output_labels={paths.labels}"),
                *(f"--summaries_dir={paths.run}", f"--tfhub_module={trunk}"),
                *(
                    f"--saved_model_dir={paths.saved_model}",
                    f"--checkpoint_path={paths.checkpoint}",
                ),
                *(
                    f"--how_many_training_steps={STEPS}",
                    "--learning_rate=1",
                    "--train_batch_size=8",
                ),
                *("--intermediate_store_frequency=15", "--validation_batch_size=-1"),
                *(f"--intermediate_output_graphs_dir={folder}/steps/", "--testing_percentage=20"),
                "--print_misclassified_test_images",
            ]
        )
    paths.code = stopped.value.code
    paths.value = next(entry for entry in said if isinstance(entry, dict))
    paths.said = [entry for entry in said if isinstance(entry, str)]
    return paths


def test_the_new_layer_tells_the_colours_apart(retrained):
    value = retrained.value
    assert retrained.code == 0
    assert (value["input"], value["output"]) == ("Placeholder", "final_result")
    assert value["classes"] == ["blue", "green", "red"]
    assert value["test_accuracy"] == 1.0 and value["test_count"] > 5
    lines = [f"Final test accuracy = 100.0% (N={value['test_count']})"]
    lines.append("=== MISCLASSIFIED TEST IMAGES ===")
    place = retrained.said.index(lines[0])
    assert retrained.said[place : place + 2] == lines
    assert retrained.labels.read_text() == "blue\ngreen\nred\n"


def test_the_graph_says_what_it_takes(retrained, trunk):
    graph = read_graph(retrained.graph)
    metadata = read_metadata(graph)
    assert graph.nodes["Placeholder"].op == "Placeholder"
    assert graph.nodes["final_result"].op == "Softmax"
    assert {node.op for node in graph.graph_def.node} <= {
        *("Placeholder", "Const", "Mul", "Sub", "Mean", "MatMul", "BiasAdd", "Softmax", "Reshape"),
        *("Identity", "Shape", "Pack", "StridedSlice", "Slice", "ResizeBilinear"),
    }
    assert metadata.input == "Placeholder:0"
    assert metadata.outputs["probabilities"] == "final_result:0"
    assert metadata.preprocessing["name"] == "unit"
    assert metadata.preprocessing["range"] == [0.0, 1.0]
    assert metadata.step == STEPS


def test_label_image_and_predict_say_the_same(retrained, tf, slimtune, tmp_path):
    image = tmp_path / "green.png"
    Image.fromarray(np.full((40, 30, 3), (40, 200, 60), np.uint8)).save(image)
    code, out, err = slimtune(
        *("classic", "label_image", f"--graph={retrained.graph}", f"--labels={retrained.labels}"),
        *("--input_layer=Placeholder", "--output_layer=final_result", f"--image={image}"),
        *("--input_height=16", "--input_width=16"),
    )
    assert code == 0, err
    scores = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert out.startswith("green ") and set(scores) == {"blue", "green", "red"}
    command = err.splitlines()[-1].split()
    assert command[:2] == ["slimtune", "predict"]
    code, out, err = slimtune(*command[1:], "--json")
    assert code == 0, err
    for found in json.loads(out)["predictions"][0]["classes"]:
        assert found["probability"] == pytest.approx(float(scores[found["label"]]), abs=1e-6)
    # And so does the net as it was trained, which takes values in [-1, 1].
    run = checkpoints.open(retrained.run)
    weights, biases = (run[f"Head/Logits/{name}"] for name in ("weights", "biases"))
    means = np.array([40, 200, 60], np.float64) / 255 * 2 - 1
    logits = means @ weights + biases
    expected = np.exp(logits) / np.exp(logits).sum()
    names = ["blue", "green", "red"]
    np.testing.assert_allclose([float(scores[name]) for name in names], expected, atol=1e-5)


def test_intermediate_graphs_are_of_their_steps(retrained):
    files = sorted(file.name for file in (retrained.folder / "steps").iterdir())
    assert files == ["intermediate_15.pb", "intermediate_30.pb"]
    steps = [read_metadata(read_graph(retrained.folder / "steps" / name)).step for name in files]
    assert steps == [15, 30]


def test_the_saved_model_has_the_signature_that_clients_call(tf, retrained):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        loaded = v1.saved_model.load(session, ["serve"], str(retrained.saved_model))
        signature = loaded.signature_def["serving_default"]
        assert list(signature.inputs) == ["image"] and list(signature.outputs) == ["prediction"]
        pictures = np.zeros((2, 16, 16, 3), np.float32)
        pictures[0, :, :, 0] = pictures[1, :, :, 2] = 1.0
        answers = session.run(
            signature.outputs["prediction"].name, {signature.inputs["image"].name: pictures}
        )
    assert answers.argmax(1).tolist() == [2, 0]


def test_checkpoint_and_events_lie_where_they_were_asked_for(tf, retrained):
    with checkpoints.open(retrained.checkpoint) as saved, checkpoints.open(retrained.run) as run:
        assert np.array_equal(saved["Head/Logits/weights"], run["Head/Logits/weights"])
    tags = set()
    for file in retrained.run.glob("events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            tags |= {value.tag for value in event.summary.value}
    assert any("accuracy" in tag for tag in tags)


def test_the_commands_of_today_are_named(retrained, trunk):
    same = retrained.said[-1].splitlines()
    data = f"{retrained.run}-data"
    assert same[0] == "The same with slimtune:"
    assert same[1].startswith("  slimtune data build ") and same[1].endswith(
        f"{data} --val 0.1 --test 0.2 --overwrite"
    )
    assert same[2:] == [
        f"  slimtune train {data} --run {retrained.run} --recipe retrain --net {trunk} --steps"
        f" {STEPS} --batch-size 8 --learning-rate 1 --overwrite",
        f"  slimtune evaluate {retrained.graph} {data} --split test",
    ]


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--testing_percentage=60", "--validation_percentage=40"], 2, "nothing to train on"),
        (["--eval_step_interval=0"], 2, "Received: --eval_step_interval=0"),
        (["--architecture=inception_v9"], 1, "There is no net for --architecture=inception_v9."),
        (["--tfhub_module=sample.pb"], 1, "There is no net for --tfhub_module=sample.pb."),
        (["--saved_model_dir=."], 1, "Received: --saved_model_dir=."),
        (["--architecture=sample", "--tfhub_module=a"], 2, "both name the net"),
        (["--summaries_dir=/dev"], 1, "/dev is not empty and holds no run."),
        (["--image_dir=nope"], 1, "Received: --image_dir=nope"),
        (["--output_graph=/dev"], 1, "Received: --output_graph=/dev"),
        (["--output_labels="], 2, "Received: --output_labels="),
        (["--final_tensor_name="], 2, "Received: --final_tensor_name="),
        (["--final_tensor_name=a b", "--tfhub_module=sample"], 2, "is no name of a node."),
        (["--final_tensor_name=input", "--architecture=mobilenet_1.0_224"], 2, "has a node input"),
        (["--logging_verbosity=loud"], 2, "Received: loud"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(
    slimtune, colour_pictures, tmp_path, flags, code, said
):
    found, _, err = slimtune(
        *("classic", "retrain", f"--image_dir={colour_pictures}"),
        *(f"--summaries_dir={tmp_path / 'logs'}", f"--output_graph={tmp_path / 'o.pb'}", *flags),
    )
    assert found == code
    assert said in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_weights_that_cannot_be_had_are_told_before_pictures_are_read(
    slimtune, monkeypatch, tmp_path
):
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SLIMTUNE_MIRROR", "http://127.0.0.1:9")
    code, _, err = slimtune(
        *("classic", "retrain", f"--image_dir={tmp_path}", f"--summaries_dir={tmp_path / 'logs'}"),
        "--tfhub_module=https://tfhub.dev/google/imagenet/inception_v1/feature_vector/1",
    )
    assert code == 1
    assert "Next: slimtune download inception_v1 tells how else to get it." in err
    assert "--tfhub_module=sample.\n" in err
    assert not list(tmp_path.glob("logs*"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], {"eval_every": None, "augment": "none", "steps": 4000, "batch_size": 100}),
        (["--random_crop=10"], {"augment": "full", "keep": 3}),
        (
            ["--eval_step_interval=7", "--learning_rate=0.5"],
            {"eval_every": 7, "learning_rate": 0.5},
        ),
        (
            [
                *("--eval_step_interval=20", "--intermediate_store_frequency=30"),
                "--how_many_training_steps=100",
            ],
            # A checkpoint at each of both, all of them kept.
            {"eval_every": 10, "keep": 10, "steps": 100},
        ),
    ],
)
def test_flags_become_options_of_train(
    slimtune, trunk, monkeypatch, colour_pictures, tmp_path, flags, expected
):
    from checkpoints.errors import RunError

    given = []

    def train(config, progress):
        given.append(config)
        raise RunError("Enough.")

    monkeypatch.setattr("finetune.training.training.train", train)
    monkeypatch.setattr("finetune.datasets.build.build", lambda *paths, **options: None)
    code, _, err = slimtune(
        *("classic", "retrain", f"--image_dir={colour_pictures}", f"--tfhub_module={trunk}"),
        *(f"--summaries_dir={tmp_path / 'logs'}", *flags),
    )
    assert code == 1 and "Enough." in err
    assert {name: getattr(given[0], name) for name in expected} == expected
    assert (given[0].net, given[0].optimizer, given[0].overwrite) == (str(trunk), "sgd", True)
    assert ("as slimtune train --augment full does it" in err) == (
        "augment" in expected and bool(flags)
    )


def test_the_graph_looks_at_what_the_net_was_trained_on(retrained, tf):
    v1 = tf.compat.v1
    message = v1.GraphDef.FromString(retrained.graph.read_bytes())
    pictures = np.random.default_rng(5).random((2, 16, 16, 3), np.float32)
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(message, name="")
        mean = next(op for op in graph.get_operations() if op.type == "Mean")
        seen = mean.inputs[0]
        found = session.run(seen, {"Placeholder:0": pictures})
        # An eighth is cut off: one pixel on each side of sixteen.
        middle = tf.raw_ops.ResizeBilinear(images=pictures[:, 1:-1, 1:-1], size=[16, 16])
        np.testing.assert_allclose(found, session.run(middle) * 2 - 1, atol=1e-6)


def test_an_architecture_keeps_the_input_it_had(retrained, tmp_path):
    from scripts.classic.retrain_graph import OldNames, with_old_names

    file = retrained.run / "inference_graph.pb"
    graph = with_old_names(file, OldNames("Mul", "final_result", in_unit_range=False))
    assert graph.nodes["Mul"].op == "Placeholder"
    assert not any(name.startswith("hub_input") for name in graph.nodes)
    metadata = read_metadata(graph)
    assert (metadata.input, metadata.preprocessing["name"]) == ("Mul:0", "inception")
    with pytest.raises(Exception, match="has a node pooled already"):
        with_old_names(file, OldNames("Mul", "pooled", in_unit_range=False))


@pytest.mark.long
def test_flowers_on_mobilenet(shared, slimtune, tmp_path):
    pictures = tmp_path / "pictures"
    chosen = sorted(p for p in (shared / "data/flowers12/train").iterdir() if p.is_dir())[:3]
    for folder in chosen:
        (pictures / folder.name).mkdir(parents=True)
        for file in sorted(folder.iterdir())[:60]:
            shutil.copy(file, pictures / folder.name)
    graph, labels = tmp_path / "graph.pb", tmp_path / "labels.txt"
    code, out, err = slimtune(
        *("classic", "retrain", f"--image_dir={pictures}", f"--output_graph={graph}"),
        *(f"--output_labels={labels}", f"--summaries_dir={tmp_path / 'logs'}", "--json"),
        f"--tfhub_module={shared / 'data/models/mobilenet_v1_1.0_224/frozen.pb'}",
        *("--how_many_training_steps=400", "--testing_percentage=20"),
    )
    assert code == 0, err
    assert json.loads(out)["test_accuracy"] > 0.9
    code, out, err = slimtune(
        *("classic", "label_image", f"--graph={graph}", f"--labels={labels}"),
        *("--input_layer=Placeholder", "--output_layer=final_result"),
        *("--input_height=224", "--input_width=224"),
        f"--image={sorted((pictures / chosen[1].name).iterdir())[0]}",
    )
    assert code == 0, err
    assert out.startswith(f"{chosen[1].name} ")
