"""Case O5: what TF-Slim's README and its flowers walkthrough tell to type, in their order."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from PIL import Image

import checkpoints
from exporters.runtime import load_tensorflow
from finetune.datasets.public_data import PUBLIC_DATA

pytestmark = pytest.mark.tensorflow


class Walk:
    """Types the lines; each step reads what the ones before it have written.

    Attributes:
      net: its name as the lines have it.
      heads: the scopes that are not restored, and that train first.
      size: --train_image_size and --image_size, or None.
      steps: of the two trainings.
    """

    def __init__(self, slimtune, folder: Path, net: str, heads: str, size: int | None, steps: int):
        self.slimtune = slimtune
        self.folder = folder
        self.net, self.heads, self.size, self.steps = net, heads, size, steps
        self.dataset = folder / "flowers"
        self.train_dir = folder / "flowers-models" / net

    def type(self, script: str, *flags: str) -> tuple[str, str]:
        """One line; gives what it printed to stdout and to stderr."""
        code, out, err = self.slimtune("classic", script, *flags)
        assert code == 0, err
        return out, err

    def convert_data(self) -> None:
        self.type("download_and_convert_data", "--dataset_name=flowers",
                  f"--dataset_dir={self.dataset}")  # fmt: skip

    def train(self, train_dir: Path, checkpoint: Path, rate: str, *more: str) -> str:
        size = [f"--train_image_size={self.size}"] if self.size else []
        return self.type(
            "train_image_classifier",
            f"--train_dir={train_dir}",
            "--dataset_name=flowers",
            "--dataset_split_name=train",
            f"--dataset_dir={self.dataset}",
            f"--model_name={self.net}",
            f"--checkpoint_path={checkpoint}",
            *more,
            f"--max_number_of_steps={self.steps}",
            "--batch_size=4",
            f"--learning_rate={rate}",
            "--learning_rate_decay_type=fixed",
            "--save_interval_secs=60",
            "--save_summaries_secs=60",
            "--log_every_n_steps=100",
            "--optimizer=rmsprop",
            "--weight_decay=0.00004",
            *size,
        )[1]

    def train_heads(self, checkpoint: Path) -> str:
        scopes = [f"--{flag}={self.heads}" for flag in ("checkpoint_exclude_scopes", "trainable_scopes")]  # fmt: skip
        return self.train(self.train_dir, checkpoint, "0.01", *scopes)

    def train_all(self) -> str:
        return self.train(self.train_dir / "all", self.train_dir, "0.0001")

    def evaluate(self, directory: Path, *more: str) -> dict[str, float]:
        out, _ = self.type(
            "eval_image_classifier",
            "--alsologtostderr",
            f"--checkpoint_path={directory}",
            f"--eval_dir={directory}",
            "--dataset_name=flowers",
            "--dataset_split_name=validation",
            f"--dataset_dir={self.dataset}",
            f"--model_name={self.net}",
            *more,
        )
        lines = [re.fullmatch(r"(eval/\w+)\[(\S+)\]", line) for line in out.splitlines()]
        return {match[1]: float(match[2]) for match in lines if match}

    def export(self) -> Path:
        graph = self.folder / f"{self.net}_inf_graph.pb"
        size = [f"--image_size={self.size}"] if self.size else []
        self.type(
            "export_inference_graph",
            "--alsologtostderr",
            f"--model_name={self.net}",
            f"--output_file={graph}",
            "--dataset_name=flowers",
            *size,
        )
        return graph

    def freeze(self, graph: Path, checkpoint: Path, answers: str) -> Path:
        frozen = self.folder / f"frozen_{self.net}.pb"
        self.type(
            "freeze_graph",
            f"--input_graph={graph}",
            f"--input_checkpoint={checkpoint}",
            "--input_binary=true",
            f"--output_graph={frozen}",
            f"--output_node_names={answers}",
        )
        return frozen

    def label(self, frozen: Path, answers: str, image: Path, size: int) -> list[str]:
        out, _ = self.type(
            "label_image",
            f"--image={image}",
            "--input_layer=input",
            f"--output_layer={answers}",
            f"--graph={frozen}",
            f"--labels={self.dataset / 'labels.txt'}",
            "--input_mean=128",
            "--input_std=128",
            f"--input_height={size}",
            f"--input_width={size}",
        )
        return out.splitlines()


@pytest.fixture
def served(monkeypatch, tmp_path, http_server, flowers_archive):
    """The tutorials' archive on this machine, and a cache of the test's own."""
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    http_server.files["/flower_photos.tgz"] = flowers_archive
    here = dataclasses.replace(PUBLIC_DATA["flowers"], addresses=(http_server.url(""),))
    monkeypatch.setitem(PUBLIC_DATA, "flowers", here)


@pytest.fixture
def daisy(tmp_path):
    """A picture of the colour that the daisies have."""
    path = tmp_path / "daisy.jpg"
    Image.fromarray(np.full((24, 24, 3), 40, np.uint8)).save(path, "JPEG")
    return path


def events_of(folder: Path) -> dict[str, tuple[int, float]]:
    """Tag -> step and value of the evaluations in a directory's event files."""
    tf = load_tensorflow()
    found = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if value.tag.startswith("eval/"):
                    found[value.tag] = (event.step, value.simple_value)
    return found


def frozen_by_tensorflow(graph: Path, checkpoint: Path, answers: str, out: Path) -> Path:
    """The same by TensorFlow's own tool, which the graph has to suit too."""
    from tensorflow.python.tools import freeze_graph

    freeze_graph.freeze_graph(
        str(graph), "", True, str(checkpoint), answers, "", "", str(out), True, ""
    )
    return out


def answers_of(frozen: Path, answers: str, pictures: np.ndarray) -> np.ndarray:
    tf = load_tensorflow()
    v1 = tf.compat.v1
    message = v1.GraphDef.FromString(frozen.read_bytes())
    with tf.Graph().as_default(), v1.Session() as session:
        (tensor,) = tf.import_graph_def(message, name="", return_elements=[f"{answers}:0"])
        return session.run(tensor, {"input:0": pictures})


def walk_through(walk: Walk, checkpoint: Path, answers: str, size: int, image: Path) -> None:
    """The whole of it, and what each step has to leave for the next."""
    tf = load_tensorflow()
    heads = walk.heads.split(",")
    last = f"model.ckpt-{walk.steps}"
    walk.convert_data()

    err = walk.train_heads(checkpoint)
    run = walk.train_dir
    names = {path.name for path in run.iterdir()}
    assert {f"{last}.index", f"{last}.data-00000-of-00001", "checkpoint", "graph.pbtxt"} <= names
    assert f'model_checkpoint_path: "{last}"' in (run / "checkpoint").read_text()
    trained = tf.compat.v1.GraphDef()
    text_format.Parse((run / "graph.pbtxt").read_text(), trained)
    assert any(node.name == "global_step" for node in trained.node)
    with checkpoints.open(checkpoint) as before, checkpoints.open(run / last) as after:
        for name in before:
            if not any(name.startswith(head) for head in heads):
                assert np.array_equal(before[name], after[name]), name
        first_heads = {name: after[name] for name in after if after.role(name) == "model"}
    assert f"  slimtune train {walk.dataset} --run {run} --net {walk.net} " in err

    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert "it goes on" in walk.train_heads(checkpoint)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before

    scores = walk.evaluate(run)
    assert set(scores) == {"eval/Accuracy", "eval/Recall_5"}
    assert scores["eval/Recall_5"] == 1.0
    code, out, _ = walk.slimtune("evaluate", run, walk.dataset, "--json")
    assert code == 0 and json.loads(out)["accuracy"] == pytest.approx(scores["eval/Accuracy"])
    assert events_of(run) == {
        tag: (walk.steps, pytest.approx(value)) for tag, value in scores.items()
    }

    walk.train_all()
    with checkpoints.open(run / "all" / last) as everything:
        moved = [n for n, value in first_heads.items() if not np.array_equal(value, everything[n])]
    assert len(moved) > len(first_heads) * 0.9
    assert set(walk.evaluate(run / "all", f"--eval_image_size={size + 4}")) == set(scores)

    graph = walk.export()
    exported = tf.compat.v1.GraphDef.FromString(graph.read_bytes())
    nodes = {node.name: node for node in exported.node}
    assert nodes["input"].op == "Placeholder" and answers in nodes
    assert {node.op for node in nodes.values() if node.name in first_heads} == {"VariableV2"}
    assert "VarHandleOp" not in {node.op for node in nodes.values()}

    saved = run / "all" / last
    frozen = walk.freeze(graph, saved, answers)
    theirs = frozen_by_tensorflow(graph, saved, answers, walk.folder / "theirs.pb")
    pictures = np.random.default_rng(1).uniform(-1, 1, (2, size, size, 3)).astype(np.float32)
    ours = answers_of(frozen, answers, pictures)
    assert ours.shape == (2, 5) and ours.sum(axis=1) == pytest.approx([1, 1])
    assert np.array_equal(ours, answers_of(theirs, answers, pictures))
    lines = walk.label(frozen, answers, image, size)
    assert len(lines) == 5
    assert sum(float(line.split()[-1]) for line in lines) == pytest.approx(1, abs=1e-4)


def test_the_walkthrough_on_a_tiny_net(slimtune, tiny_net, served, write_v1, tmp_path, daisy):
    checkpoint = write_v1("tiny", 16, 7, "tiny.ckpt")
    walk = Walk(slimtune, tmp_path, "tiny", "Tiny/Logits,Tiny/AuxLogits", None, 12)
    walk_through(walk, checkpoint, "probabilities", 16, daisy)


@pytest.mark.long
def test_the_walkthrough_on_inception_v3(slimtune, served, write_v1, tmp_path, daisy):
    checkpoint = write_v1("inception_v3", 299, 1001, "inception_v3.ckpt")
    heads = "InceptionV3/Logits,InceptionV3/AuxLogits"
    walk = Walk(slimtune, tmp_path, "inception_v3", heads, 149, 2)
    walk_through(walk, checkpoint, "InceptionV3/Predictions/Reshape_1", 149, daisy)
