"""Preprocessing put into a graph, and pictures to calibrate with."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from PIL import Image

import exporters
from checkpoints.errors import DataError, GraphError, NotFoundError
from exporters.graph import read_graph
from exporters.metadata import Metadata
from exporters.options import ModelOptions
from exporters.runtime import GraphRunner
from finetune.model import open_model
from finetune.prediction import predict
from finetune.preprocessing import Preprocessing
from finetune.serving import calibration_pictures, preprocessing_graph

pytestmark = pytest.mark.tensorflow

BAKED = ModelOptions(with_preprocessing=preprocessing_graph)


@pytest.fixture
def model(tiny_net, tiny_checkpoint, tmp_path):
    """The tiny net as a frozen .pb with seven class names."""
    from dataclasses import replace

    from finetune.nets import inference_graph
    from finetune.signature import net_metadata

    graph = inference_graph(tiny_net, 7, 16)
    metadata = net_metadata(graph, "tiny", tuple("abcdefg"), Preprocessing("inception", 16))
    path = tmp_path / "model.pb"
    exporters.convert(
        tiny_checkpoint, path, graph=graph.graph_def, metadata=replace(metadata, step=3)
    )
    return path


def encoded(kind: str, size=(40, 30)) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def test_encoded_pictures_get_the_answers_of_predict(model, tmp_path):
    path = tmp_path / "baked.pb"
    done = exporters.convert(model, path, options=BAKED)
    assert (done.verification.mode, done.verification.passed) == ("run", True)
    assert done.inputs[0].as_json() == {"name": "encoded:0", "dtype": "string", "shape": [None]}
    assert done.metadata.input == "encoded:0"

    files = []
    for kind, name in (("JPEG", "one.jpg"), ("PNG", "two.png"), ("BMP", "three.bmp")):
        files.append(tmp_path / name)
        files[-1].write_bytes(encoded(kind))
    data = np.array([file.read_bytes() for file in files], object)
    with GraphRunner(path, ["encoded"], [done.metadata.outputs["probabilities"]]) as runner:
        found = runner.run(data)[0]
    expected = predict(model, files, top=7)
    for row, prediction in zip(found, expected, strict=True):
        for answer in prediction.classes:
            place = "abcdefg".index(answer["label"])
            assert row[place] == pytest.approx(answer["probability"], abs=1e-4)

    # predict takes the whole as well, and says the same.
    again = predict(path, files, top=7)
    assert [p.classes[0]["label"] for p in again] == [p.classes[0]["label"] for p in expected]
    assert open_model(path).preprocessing == Preprocessing("inception", 16)


def test_optimised_and_for_older_readers_too(model, tmp_path):
    options = ModelOptions(optimize=True, compat=True, with_preprocessing=preprocessing_graph)
    done = exporters.convert(model, tmp_path / "baked.pb", options=options)
    assert done.verification.passed
    assert "FusedBatchNormV3" not in {n.op for n in read_graph(done.path).nodes.values()}
    assert sum(note.startswith("Optimised: 2 batch norms folded") for note in done.notes) == 1
    assert any("Preprocessing stands before" in note for note in done.notes)


def test_a_model_that_does_not_say_its_preprocessing(tmp_path):
    from checkpoints.messages import GraphDef

    graph = GraphDef()
    node = graph.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = 1
    graph.node.add(name="out", op="Neg", input=["x"]).attr["T"].type = 1
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    with pytest.raises(GraphError, match="does not say how pictures become its input"):
        exporters.convert(tmp_path / "g.pb", tmp_path / "m.pb", outputs=["out"], options=BAKED)
    assert not (tmp_path / "m.pb").exists()


def test_calibration_takes_pictures_evenly(colour_pictures):
    metadata = Metadata(preprocessing=Preprocessing("inception", 16).as_json())
    batches = list(calibration_pictures(colour_pictures, limit=30)(metadata))
    assert [batch.shape for batch in batches] == [(16, 16, 16, 3), (14, 16, 16, 3)]
    pictures = np.concatenate(batches)
    assert pictures.dtype == np.float32
    assert pictures.min() >= -1 and pictures.max() <= 1
    # Folders in the order blue, green, red: ten of each.
    strongest = pictures.mean((1, 2)).argmax(1)
    assert strongest.tolist() == [2] * 10 + [1] * 10 + [0] * 10
    every = list(calibration_pictures(colour_pictures / "red")(metadata))
    assert sum(map(len, every)) == 20


def test_calibration_leaves_broken_pictures_out_and_says_so(colour_pictures, tmp_path, heard):
    folder = tmp_path / "some"
    shutil.copytree(colour_pictures / "red", folder)
    (folder / "0.png").write_text("no picture")
    metadata = Metadata(preprocessing=Preprocessing("inception", 16).as_json())
    batches = list(calibration_pictures(folder, progress=heard)(metadata))
    assert [len(batch) for batch in batches] == [16, 3]
    assert heard.said == [
        f"Warning: not calibrated with {folder / '0.png'}: is text, not a picture."
    ]
    for file in folder.iterdir():
        file.write_text("no picture")
    with pytest.raises(DataError, match=r"None of the 20 files of .*some"):
        list(calibration_pictures(folder)(metadata))


def test_calibration_needs_pictures_and_a_preprocessing(tmp_path, colour_pictures):
    with pytest.raises(NotFoundError):
        calibration_pictures(tmp_path / "nothing")
    with pytest.raises(GraphError, match="does not say how pictures"):
        list(calibration_pictures(colour_pictures)(Metadata()))


def test_a_model_without_a_preprocessing_is_calibrated_as_inception_and_told(
    colour_pictures, heard
):
    taken = calibration_pictures(colour_pictures, limit=3, progress=heard)
    (batch,) = taken(Metadata(image_size=20))
    assert batch.shape == (3, 20, 20, 3)
    assert batch.min() < -0.5
    assert heard.said == [
        "The model does not say how pictures become its input: calibrated with the"
        " preprocessing inception, 20 pixels."
    ]


def test_preprocessing_is_put_in_once():
    described = {"name": "inception", "image_size": 24, "in_graph": "input:0"}
    with pytest.raises(GraphError, match="has its preprocessing in it already") as caught:
        preprocessing_graph(Metadata(input="encoded:0", preprocessing=described, image_size=24))
    assert caught.value.received == "encoded:0, which takes the bytes of picture files"
