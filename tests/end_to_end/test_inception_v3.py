"""The main job on real input: the published form of Inception-v3, photographs, every step.

A V1 checkpoint with Inception-v3's 388 variables and 1001 classes, written by TensorFlow, is
packed and served as the published archive is; the server drops the first connection half-way.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from exporters.runtime import load_tensorflow
from finetune.nets import build_net
from scripts.main import main

pytestmark = pytest.mark.tensorflow

HEADS = ("InceptionV3/Logits", "InceptionV3/AuxLogits")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inception_v3")


@pytest.fixture(scope="module")
def written_by_tensorflow(folder):
    """The bytes of a V1 checkpoint, one file, as the published one is."""
    v1 = load_tensorflow().compat.v1
    path = folder / "written" / "inception_v3.ckpt"
    path.parent.mkdir()
    with v1.Graph().as_default(), v1.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v1.set_random_seed(5)
        build_net("inception_v3", v1.placeholder(v1.float32, [None, 299, 299, 3]), 1001)
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1)
        saver.save(session, str(path), write_meta_graph=False)
    return path


@pytest.fixture
def slimtune(capsys):
    """Runs the command in this process; gives exit code, the JSON on stdout, and stderr."""

    def run(*words):
        with pytest.raises(SystemExit) as stop:
            main([*map(str, words), "--json"])
        captured = capsys.readouterr()
        return stop.value.code, json.loads(captured.out), captured.err

    return run


@pytest.fixture(scope="module")
def state():
    """What one step leaves for the next."""
    return {}


def test_download_goes_on_after_a_dropped_connection(
    folder, written_by_tensorflow, http_server, slimtune, state
):
    data = http_server.add_archive(
        "/inception_v3.tar.gz", {"inception_v3.ckpt": written_by_tensorflow.read_bytes()}
    )
    http_server.faults["/inception_v3.tar.gz"] = [http_server.Fault(cut_at=len(data) // 2)]
    url = http_server.url("/inception_v3.tar.gz")
    code, value, _ = slimtune("download", "inception_v3", "--to", folder / "weights", "--url", url)
    assert code == 0
    asked = http_server.ranges_asked()
    assert asked[0] is None
    assert asked[1].startswith("bytes=")
    state["checkpoint"] = value["path"]
    with Path(value["path"]).open("rb") as file:
        assert file.read() == written_by_tensorflow.read_bytes()


def test_plan_restores_376_and_says_why_twelve_entries_are_left_out(slimtune, state):
    code, value, _ = slimtune(
        "plan", "--net", "inception_v3", "--classes", 12, "--checkpoint", state["checkpoint"]
    )
    assert code == 0
    assert value["totals"]["restored"] == 376
    assert value["totals"]["initialised"] == 12
    initialised = [v["name"] for v in value["variables"] if v["origin"] == "initialised"]
    assert all(name.startswith(HEADS) for name in initialised)
    trainable = [v["name"] for v in value["variables"] if v["state"] == "trainable"]
    assert trainable == [
        "InceptionV3/Logits/Conv2d_1c_1x1/weights",
        "InceptionV3/Logits/Conv2d_1c_1x1/biases",
    ]
    reasons = [entry["reason"] for entry in value["unused"]]
    assert (reasons.count("class-count"), reasons.count("excluded-scope")) == (4, 8)
    assert len(reasons) == 12
    assert value["conflicts"] == []


def test_train_and_resume_leave_the_376_bit_equal(folder, shared, slimtune, state):
    data, run = folder / "data", folder / "run"
    pictures = shared / "data/flowers12/train"
    some = folder / "some.csv"  # six a class: the trunk takes most of a test's time
    with some.open("w") as file:
        for flower in sorted(pictures.iterdir()):
            for picture in sorted(flower.iterdir())[:6]:
                file.write(f"{picture.relative_to(pictures)},{flower.name}\n")
    code, built, _ = slimtune(
        "data", "build", pictures, data, "--manifest", some, "--val", "0.1", "--test", "0.2"
    )
    assert (code, len(built["classes"])) == (0, 12)
    options = ["--net", "inception_v3", "--checkpoint", state["checkpoint"], "--batch-size", "4"]
    code, value, _ = slimtune("train", data, "--run", run, *options, "--steps", "2")
    assert (code, value["step"], value["frozen_verified"]) == (0, 2, 386)
    first = dict(checkpoints.open(run))
    code, value, err = slimtune("train", data, "--run", run, "--resume", "--steps", "4")
    assert (code, value["step"], value["frozen_verified"]) == (0, 4, 386)
    assert "Going on at step 2 of 4." in err

    with checkpoints.open(state["checkpoint"]) as source, checkpoints.open(run) as trained:
        trunk = [name for name in source if not name.startswith(HEADS)]
        assert len(trunk) == 376
        for name in trunk:
            assert trained[name].tobytes() == source[name].tobytes(), name
        head = "InceptionV3/Logits/Conv2d_1c_1x1/weights"
        assert trained[head].shape == (1, 1, 2048, 12)
        assert not np.array_equal(trained[head], first[head])
    state.update(data=data, run=run, classes=built["classes"])


def test_evaluate_counts_each_picture_once(slimtune, state):
    code, value, _ = slimtune("evaluate", state["run"], state["data"], "--split", "test")
    assert code == 0
    assert value["step"] == 4
    assert (
        value["count"] == np.sum(value["confusion"]) == sum(c["count"] for c in value["per_class"])
    )
    assert value["accuracy"] == pytest.approx(np.trace(value["confusion"]) / value["count"])


def test_the_pb_answers_like_the_runs_own_graph_and_predicts_alone(folder, shared, slimtune, state):
    model = folder / "model.pb"
    code, value, _ = slimtune("convert", state["run"], model, "--verify", "run")
    assert code == 0
    assert value["verification"]["passed"] is True
    assert value["verification"]["top1_agreement"] == 1.0
    picture = next((shared / "data/flowers12/test/iris").iterdir())
    code, from_pb, _ = slimtune("predict", model, picture, "--top", 12)
    assert code == 0
    code, from_run, _ = slimtune("predict", state["run"], picture, "--top", 12)
    assert from_pb["predictions"] == from_run["predictions"]

    answers = {c["label"]: c["probability"] for c in from_pb["predictions"][0]["classes"]}
    assert sorted(answers) == sorted(state["classes"])
    own = own_graph_answers(state["run"], picture, len(answers))
    expected = dict(zip((state["run"] / "labels.txt").read_text().splitlines(), own, strict=True))
    assert answers == pytest.approx(expected, rel=1e-4)


def own_graph_answers(run, picture, classes):
    """Probabilities by TensorFlow alone: its net, its Saver, the reference preprocessing."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        image = tf.image.decode_jpeg(picture.read_bytes(), channels=3)
        image = tf.image.central_crop(tf.image.convert_image_dtype(image, tf.float32), 0.875)
        image = v1.image.resize_bilinear(image[None], [299, 299], align_corners=False)
        net = build_net("inception_v3", (image - 0.5) * 2.0, classes)
        v1.train.Saver(v1.global_variables()).restore(session, str(run / "model.ckpt-4"))
        return session.run(net.predictions)[0].tolist()
