"""Pictures of several classes: what is learned, how it is scored, and what every form says."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import exporters
from checkpoints.errors import DataError, RunError, UsageError
from exporters.graph import read_graph
from exporters.metadata import Metadata, read_metadata
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, compare, evaluate, predict, train
from finetune.datasets.build import build
from finetune.datasets.dataset import read_dataset
from finetune.datasets.record_index import read_index
from finetune.evaluating.multi_label import MultiLabelEvaluation, average_precision
from finetune.evaluating.scores import Evaluation
from finetune.input_pipeline import training_dataset
from finetune.model import Model, open_model
from finetune.preprocessing import Preprocessing
from finetune.report import write_report
from finetune.training.class_weights import find_class_weights
from scripts.commands.evaluate import class_table, summary

pytestmark = pytest.mark.tensorflow

CLASSES = ("blue", "green", "red")


def shown(number):
    """Which of blue, green and red a picture shows: every set of them but the empty one."""
    bits = 1 + number % 7
    return [name for place, name in enumerate(CLASSES) if bits >> place & 1]


def draw(number):
    pixels = np.random.default_rng(number).integers(0, 60, (16, 16, 3), np.uint8)
    for name in shown(number):
        pixels[:, :, ("red", "green", "blue").index(name)] += 180
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def paints(tmp_path_factory):
    """56 pictures to train, 14 to validate on, of three classes."""
    folder = tmp_path_factory.mktemp("paints")
    (folder / "in").mkdir()
    lines = ["path,label,split"]
    for number in range(70):
        draw(number).save(folder / "in" / f"{number}.png")
        split = "train" if number < 56 else "val"
        # The first named is not the first in order.
        lines.append(f"{number}.png,{'|'.join(reversed(shown(number)))},{split}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    build(folder / "in", folder / "data", manifest=folder / "labels.csv")
    return folder / "data"


def config(data, run, **options):
    defaults = {"net": "tiny", "batch_size": 8, "steps": 2, "checkpoint": "none"}
    return TrainConfig(
        data=str(data), run=str(run), **{**defaults, "trainable": ("Tiny",), **options}
    )


def test_the_index_has_all_classes_of_a_picture(paints):
    dataset = read_dataset(paints)
    assert dataset.classes == CLASSES
    index = read_index(dataset.split("val"))
    found = {}
    for shard, name_start, length, row in zip(
        index.shards, index.name_starts, index.name_lengths, index.indicators(3), strict=True
    ):
        name = index.paths[shard].read_bytes()[name_start : name_start + length]
        found[int(name.decode().removesuffix(".png"))] = row.tolist()
    expected = {
        number: [int(name in shown(number)) for name in CLASSES] for number in range(56, 70)
    }
    assert found == expected
    with pytest.raises(DataError, match="image/class/labels does not name a class"):
        index.indicators(2)


def test_a_batch_has_a_row_of_classes_for_each_picture(paints):
    load_tensorflow()
    batches = training_dataset(
        read_dataset(paints), Preprocessing("inception", 16), 8, 0, augment="none"
    )
    images, labels = next(iter(batches))
    assert (labels.shape, labels.dtype.name) == ((8, 3), "int64")
    # Preprocessing brings 0 to 255 to -1 to 1; a colour that is shown is bright.
    bright = (images.numpy().mean(axis=(1, 2)) > 0).astype(int)
    np.testing.assert_array_equal(labels.numpy(), bright[:, ::-1])


def test_balanced_weights_count_each_picture_that_shows_a_class(paints):
    # 4 of each 7 pictures show a class: 32 of 56, for each.
    assert find_class_weights("balanced", read_dataset(paints)) == (1.0, 1.0, 1.0)


@pytest.fixture(scope="module")
def trained(paints, lasting_tiny_net, tmp_path_factory):
    """A run that trained the whole tiny net."""
    run = tmp_path_factory.mktemp("several") / "run"
    result = train(config(paints, run, steps=80, augment="none", learning_rate=0.03, dropout=0.0))
    assert result.accuracy >= 0.9
    return run


def test_it_learns_each_class_for_itself(trained, paints):
    found = evaluate(trained, paints)
    assert isinstance(found, MultiLabelEvaluation)
    assert found.labels.shape == found.probabilities.shape == (14, 3)
    assert found.accuracy >= 0.9
    assert found.mean_average_precision >= 0.95
    sums = found.probabilities.sum(axis=1)
    assert sums.max() > 2 > 1.5 > sums.min()
    value = found.as_json(pictures=True)
    assert (value["multi_label"], value["threshold"]) == (True, 0.5)
    assert "confusion" not in value
    assert [row["count"] for row in value["per_class"]] == [8, 8, 8]
    assert len(value["pictures"]) == 14
    stored = json.loads((trained / "evaluation.json").read_text())
    assert stored["accuracy"] == found.accuracy
    assert summary(found).startswith("all classes right ")
    assert class_table(found).headings[-1] == "average precision"


def test_every_form_says_that_each_class_stands_for_itself(trained, paints, tmp_path):
    itself = evaluate(trained, paints)
    graph = read_graph(trained / "inference_graph.pb")
    assert graph.nodes["probabilities"].op == "Sigmoid"
    for form, name in (("pb", "m.pb"), ("saved-model", "m"), ("tflite", "m.tflite")):
        exporters.convert(trained, tmp_path / name, to=form)
        found = evaluate(tmp_path / name, paints)
        assert isinstance(found, MultiLabelEvaluation), form
        np.testing.assert_allclose(found.probabilities, itself.probabilities, atol=1e-4)
    assert read_metadata(read_graph(tmp_path / "m.pb")).multi_label
    [score] = compare(trained, paints, formats=("pb",)).forms
    assert (score.error, score.accuracy, score.agreement) == (None, itself.accuracy, 1.0)


def test_an_onnx_says_so_too(trained, paints, tmp_path):
    exporters.convert(trained, tmp_path / "m.onnx", to="onnx")
    found = evaluate(tmp_path / "m.onnx", paints)
    assert isinstance(found, MultiLabelEvaluation)
    assert found.accuracy == evaluate(trained, paints).accuracy


def test_of_logits_alone_the_probabilities_are_a_sigmoid_too():
    logits = np.array([[0.0, 1000.0, -2.0]], np.float32)
    metadata = Metadata(CLASSES, outputs={"logits": "logits:0"}, multi_label=True)
    model = Model("m.onnx", None, metadata, Preprocessing("inception", 16))
    np.testing.assert_allclose(
        model.probabilities(logits), [[0.5, 1.0, 1 / (1 + np.exp(2.0))]], rtol=1e-6
    )


def test_a_model_of_one_class_a_picture_is_held_against_the_first_named(trained, paints):
    """The same net, whose metadata do not say that pictures have several classes."""
    opened = open_model(trained)
    plain = replace(opened, metadata=replace(opened.metadata, multi_label=False))
    found = evaluate(plain, paints)
    assert type(found) is Evaluation
    first = {f"{number}.png": shown(number)[-1] for number in range(56, 70)}
    assert {
        name: CLASSES[label] for name, label in zip(found.names, found.labels, strict=True)
    } == first


def test_predictions_say_from_where_on_a_class_counts(trained, tmp_path):
    draw(2).save(tmp_path / "blue-green.png")  # bits 3
    [found] = predict(trained, [tmp_path / "blue-green.png"])
    assert found.threshold == 0.5
    assert found.as_json()["threshold"] == 0.5
    assert [one["label"] for one in found.classes if one["probability"] >= 0.5] in (
        ["blue", "green"],
        ["green", "blue"],
    )
    assert found.classes[2]["label"] == "red"
    from scripts.commands.predict import _answers

    assert "; below 50%: red " in _answers(found)


def test_the_page_shows_what_fits(trained):
    page = write_report(trained).read_text()
    assert "right with all classes, of 14 held-out pictures" in page
    assert "Mean average precision" in page
    assert "What is taken for what" not in page
    assert "was not evaluated yet" not in page
    assert "--split val" in page


def test_a_head_on_stored_features_learns_the_same_way(paints, tmp_path, tiny_checkpoint, heard):
    result = train(
        config(
            paints,
            tmp_path / "run",
            checkpoint=str(tiny_checkpoint),
            trainable=("Tiny/Logits",),
            steps=150,
            learning_rate=0.1,
            label_smoothing=0.05,
            class_weights="balanced",
            eval_every=50,
        ),
        progress=heard,
    )
    assert any("Steps run on features" in line and "stored" in line for line in heard.said)
    assert not any("ridge" in line for line in heard.said)
    assert result.accuracy >= 0.5
    assert evaluate(tmp_path / "run", paints).mean_average_precision >= 0.8


def test_what_needs_one_class_a_picture_is_refused(paints, tmp_path, tiny_net):
    for options, reason in (
        ({"loss": "baskets:goods"}, "one label a picture"),
        ({"init": "prototypes"}, "one class a picture"),
    ):
        with pytest.raises(UsageError, match=reason):
            train(config(paints, tmp_path / "run", **options))
    assert not (tmp_path / "run/config.json").exists()


SHOWN = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], np.int64)
SAID = np.array([[0.9, 0.2, 0.1], [0.6, 0.4, 0.7], [0.5, 0.8, 0.0], [0.1, 0.3, 0.2]], np.float32)


def scores():
    return MultiLabelEvaluation(("a", "b", "c"), tuple("wxyz"), SHOWN, SAID, "val", 7)


def test_figures_by_hand():
    found = scores()
    assert found.accuracy == 0.5
    assert found.right.tolist() == [True, False, False, True]
    rows = found.per_class()
    assert [row["count"] for row in rows] == [2, 2, 0]
    assert [row["precision"] for row in rows] == [2 / 3, 1.0, 0.0]
    assert [row["recall"] for row in rows] == [1.0, 0.5, None]
    assert [row["f1"] for row in rows] == [0.8, 2 / 3, 0.0]
    assert [row["average_precision"] for row in rows] == [1.0, 1.0, None]
    assert found.mean_average_precision == 1.0
    assert [(one["path"], one["class"], one["labelled"]) for one in found.mistakes()] == [
        ("x", "c", False), ("x", "b", True), ("y", "a", False),
    ]  # fmt: skip
    assert found.as_json(pictures=True)["pictures"][1] == {
        "name": "x",
        "labels": [0, 1],
        "predicted": [0, 2],
    }


def test_average_precision_takes_equal_probabilities_together():
    shown = np.array([1, 0, 1, 0])
    assert average_precision(shown, np.array([0.9, 0.8, 0.7, 0.1])) == pytest.approx(
        (1 + 2 / 3) / 2
    )
    assert average_precision(shown, np.full(4, 0.3)) == 0.5
    assert average_precision(np.zeros(4, int), np.full(4, 0.3)) is None


def test_a_stored_evaluation_that_is_not_whole_is_refused(trained):
    file = trained / "evaluation.json"
    text = file.read_text()
    try:
        file.write_text(text.replace('"mean_average_precision"', '"mean"'))
        with pytest.raises(RunError, match=r"evaluation\.json is not what train writes"):
            write_report(trained)
    finally:
        file.write_text(text)
