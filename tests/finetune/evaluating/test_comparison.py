"""One model in several forms: converted, evaluated, timed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import exporters
from checkpoints.errors import UnsupportedError, UsageError
from exporters.forms import FORMS
from finetune.evaluating import comparison
from finetune.evaluating.comparison import FORMATS, compare
from finetune.evaluating.evaluation import evaluate
from finetune.model import open_model
from finetune.nets import inference_graph
from finetune.prediction import predict
from finetune.preprocessing import Preprocessing
from finetune.signature import net_metadata

pytestmark = pytest.mark.tensorflow

CLASSES = ("blue", "green", "red", "four", "five", "six", "seven")


@pytest.fixture
def model(tiny_net, tiny_checkpoint, tmp_path):
    graph = inference_graph(tiny_net, 7, 16)
    metadata = net_metadata(graph, "tiny", CLASSES, Preprocessing("inception", 16))
    path = tmp_path / "model.pb"
    exporters.convert(tiny_checkpoint, path, graph=graph.graph_def, metadata=metadata)
    return path


def test_every_form_gives_the_same_answers(model, colours, colour_pictures):
    formats = [form for form in FORMATS if FORMS[form].writer]
    found = compare(model, colours, formats=formats)
    assert [score.form for score in found.forms] == formats
    assert {"pb", "tflite", "onnx"} <= set(formats)
    assert (found.split, found.count) == ("val", 16)
    for score in found.forms:
        assert score.error is None, score.error
        assert score.accuracy == found.accuracy
        assert score.agreement == 1.0
        assert score.max_difference < 1e-4
        assert score.ms > 0
        assert score.bytes > 5_000
    assert json.loads(json.dumps(found.as_json()))["forms"][0]["form"] == formats[0]


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_evaluate_and_predict_take_other_forms(model, tmp_path, name, colours, colour_pictures):
    path = exporters.convert(model, tmp_path / name).path
    opened = open_model(path)
    assert opened.classes == CLASSES
    assert opened.graph_def is None
    ours, theirs = evaluate(model, colours), evaluate(path, colours)
    assert (ours.count, ours.names) == (theirs.count, theirs.names)
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=1e-5)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    pictures = sorted((colour_pictures / "red").iterdir())[:3]
    for one, other in zip(predict(model, pictures), predict(path, pictures), strict=True):
        assert [c["label"] for c in one.classes] == [c["label"] for c in other.classes]
    with opened.runner(roles=("bottleneck",)) as runner:
        assert runner.run(np.zeros((2, 16, 16, 3), np.float32))[0].reshape(2, -1).shape == (2, 16)


def test_a_form_that_cannot_be_made_does_not_stop_the_others(model, colours, monkeypatch):
    def refuse(path, form, trust):
        if form == "onnx":
            raise UnsupportedError("It needs tf2onnx.", next_step="pip install it")
        return convert(path, form, trust)

    convert = comparison._convert
    monkeypatch.setattr(comparison, "_convert", refuse)
    found = compare(model, colours, formats=["onnx", "pb"])
    assert found.forms[0].error == "It needs tf2onnx.\nNext: pip install it"
    assert found.forms[0].accuracy is None
    assert found.forms[1].agreement == 1.0


def test_forms_that_cannot_be_run_are_wrong_usage(model, colours):
    with pytest.raises(UsageError, match="npz cannot be run"):
        compare(model, colours, formats=["pb", "npz"])


def test_what_has_no_graph_is_refused(model, colours, tmp_path):
    path = exporters.convert(model, tmp_path / "m.onnx", verify="none").path
    with pytest.raises(UnsupportedError, match="cannot be converted into other forms"):
        compare(path, colours)


def run(capsys, monkeypatch, *arguments):
    from scripts.main import main

    monkeypatch.setattr(sys, "argv", ["slimtune", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr()


def test_the_verb(model, colours, capsys, monkeypatch):
    code, streams = run(
        capsys, monkeypatch, "compare", model, colours, "--formats", "pb, tflite", "--json"
    )
    assert code == 0
    result = json.loads(streams.out)
    assert [form["form"] for form in result["forms"]] == ["pb", "tflite"]
    code, streams = run(capsys, monkeypatch, "compare", model, colours, "--formats", "pb")
    assert code == 0
    assert "max difference" in streams.out
    assert "on 16 pictures of val" in streams.out


def test_formats(capsys, monkeypatch):
    code, streams = run(capsys, monkeypatch, "formats", "--json")
    assert code == 0
    formats = {form["name"]: form for form in json.loads(streams.out)["formats"]}
    assert formats.keys() == {form.name for form in FORMS.values() if form.writer}
    assert formats["onnx"]["extra"] == "onnx"
    assert formats["tflite"]["installed"] is True
    assert "pb" in formats["tflite"]["from"]
    monkeypatch.setattr(
        "exporters.runtimes.extras.is_installed", lambda package: package != "tf2onnx"
    )
    code, streams = run(capsys, monkeypatch, "formats")
    assert "pip install 'slimtune[onnx]'" in streams.out
    assert "slimtune[litert]" not in streams.out


@pytest.mark.long
def test_mobilenet_in_8_bits_says_what_it_says_in_floats(shared, tmp_path):
    """On nine of ten pictures of flowers at least, among 1001 classes."""
    from exporters.options import ModelOptions
    from exporters.runtime import GraphRunner
    from exporters.runtimes.runners import open_runner
    from finetune.serving import calibration_pictures

    source = shared / "data/models/mobilenet_v1_1.0_224/frozen.pb"
    preprocessing = Preprocessing("inception", 224)
    metadata = replace(
        exporters.Metadata(preprocessing=preprocessing.as_json(), image_size=224),
        input="input:0",
        outputs={"logits": "MobilenetV1/Predictions/Reshape:0"},
    )
    options = ModelOptions(
        quantize="int8", calibration=calibration_pictures(shared / "data/flowers12/train")
    )
    path = tmp_path / "m.tflite"
    done = exporters.convert(source, path, metadata=metadata, options=options)
    assert done.verification.top1_agreement > 0.9
    agreeing = 0
    batches = list(calibration_pictures(shared / "data/flowers12/test", limit=240)(metadata))
    with (
        open_runner(path) as runner,
        GraphRunner(source, ["input"], ["MobilenetV1/Predictions/Reshape"]) as floats,
    ):
        for picture in np.concatenate(batches)[:, None]:
            ours, theirs = runner.run(picture)[0], floats.run(picture)[0]
            agreeing += int(ours.argmax() == theirs.argmax())
    assert agreeing >= 0.9 * 240
