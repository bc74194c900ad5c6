"""TFLite and ONNX models: each runs in its own runtime and answers like TensorFlow."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import exporters
from checkpoints.errors import (
    BrokenFileError,
    GraphError,
    UnsupportedError,
    UsageError,
    VerificationError,
)
from exporters.metadata import METADATA_NODE, Metadata, metadata_node
from exporters.options import ModelOptions
from exporters.runtime import GraphRunner
from exporters.runtimes.runners import open_runner
from exporters.runtimes.tflite_runner import LABELS_FILE, METADATA_FILE, read_tflite_metadata

pytestmark = pytest.mark.tensorflow

FLOAT = np.dtype("float32")
ROLES = {"probabilities": "probs:0", "logits": "logits:0", "bottleneck": "pooled:0"}
METADATA = Metadata(
    classes=("Gänse", "花", "C++"),
    preprocessing={"name": "inception", "image_size": 8, "central_fraction": 0.875},
    image_size=8,
    input="images:0",
    outputs=ROLES,
    net="small",
    step=7,
)


def picture_net(builder):
    """Images [?, 8, 8, 3] -> convolution, batch norm, relu -> mean -> dense [3] -> softmax."""
    generator = np.random.default_rng(2)

    def drawn(*shape):
        return generator.normal(0, 0.5, shape).astype(np.float32)

    builder.add("Placeholder", "images", dtype=FLOAT, shape=(None, 8, 8, 3))
    builder.add(
        "Conv2D",
        "conv",
        "images",
        builder.const("filter", drawn(3, 3, 3, 16)),
        T=FLOAT,
        padding="SAME",
    )
    builder.graph_def.node[-1].attr["strides"].list.i.extend([1, 2, 2, 1])
    parts = [builder.const(f"bn/{name}", np.abs(drawn(16)) + 0.5) for name in "abcd"]
    builder.add("FusedBatchNormV3", "bn", "conv", *parts, T=FLOAT, U=FLOAT, is_training=False)
    builder.add("Relu", "relu", "bn", T=FLOAT)
    builder.const("axes", np.array([1, 2], np.int32))
    builder.add("Mean", "pooled", "relu", "axes", T=FLOAT, Tidx=np.dtype("int32"))
    builder.add("MatMul", "product", "pooled", builder.const("w", drawn(16, 3)), T=FLOAT)
    builder.add("BiasAdd", "logits", "product", builder.const("b", drawn(3)), T=FLOAT)
    builder.add("Softmax", "probs", "logits", T=FLOAT)
    builder.graph_def.node.append(metadata_node(METADATA))
    return builder


@pytest.fixture
def model(builder, tmp_path):
    """The net as a .pb, and what TensorFlow says of some pictures."""
    path = tmp_path / "source.pb"
    path.write_bytes(picture_net(builder).graph_def.SerializeToString())
    return path


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(count).uniform(-1, 1, (count, 8, 8, 3)).astype(np.float32)


def answers_of(path, images) -> list[np.ndarray]:
    with GraphRunner(path, ["images"], list(ROLES.values())) as runner:
        return runner.run(images)


def assert_same_answers(path, model, rtol=1e-4):
    """At batch sizes that were never seen, in the order of the roles."""
    with open_runner(path) as runner:
        assert runner.inputs == ("images:0",)
        assert runner.metadata == METADATA
        runner.select_outputs(tuple(ROLES.values()))
        for count in (1, 5):
            found = runner.run(pictures(count))
            for one, other in zip(found, answers_of(model, pictures(count)), strict=True):
                assert one.dtype == np.float32
                np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_answers_and_what_travels(model, tmp_path, name):
    done = exporters.convert(model, tmp_path / name)
    assert done.form == name[2:]
    assert (done.verification.mode, done.verification.passed) == ("run", True)
    assert done.verification.max_rel < 1e-3
    assert done.verification.top1_agreement == 1.0
    assert [output.name for output in done.outputs] == list(ROLES.values())
    assert done.inputs[0].as_json()["shape"] == [None, 8, 8, 3]
    assert done.metadata == METADATA
    assert done.num_bytes == (tmp_path / name).stat().st_size
    assert_same_answers(tmp_path / name, model)


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_optimised_first(model, tmp_path, name):
    done = exporters.convert(model, tmp_path / name, options=ModelOptions(optimize=True))
    assert any("1 batch norm folded" in note for note in done.notes)
    assert_same_answers(tmp_path / name, model)


@pytest.mark.parametrize(("layout", "shape"), [("nhwc", [8, 8, 3]), ("nchw", [3, 8, 8])])
def test_the_layout_of_an_onnx_model(model, tmp_path, layout, shape):
    import onnxruntime

    path = tmp_path / "m.onnx"
    exporters.convert(model, path, options=ModelOptions(layout=layout))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape[1:] == shape
    images = pictures(2)
    given = images if layout == "nhwc" else images.transpose(0, 3, 1, 2)
    found = session.run(["probs:0"], {"images:0": np.ascontiguousarray(given)})[0]
    np.testing.assert_allclose(found, answers_of(model, images)[0], rtol=1e-4, atol=1e-6)
    # The runner takes pictures as every other does.
    assert_same_answers(path, model)


def test_a_layout_without_pictures_is_wrong_usage(dense_net, tmp_path):
    import checkpoints

    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    with pytest.raises(UsageError, match="no input takes any"):
        exporters.convert(
            tmp_path / "m.ckpt",
            tmp_path / "m.onnx",
            graph=dense_net.graph_def,
            outputs=["probs"],
            options=ModelOptions(layout="nchw"),
        )
    assert not (tmp_path / "m.onnx").exists()


def test_what_an_onnx_model_holds(model, tmp_path):
    import onnx

    exporters.convert(model, tmp_path / "m.onnx")
    loaded = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(loaded)
    texts = {entry.key: entry.value for entry in loaded.metadata_props}
    assert json.loads(texts[METADATA_NODE])["classes"] == ["Gänse", "花", "C++"]


def test_what_a_tflite_model_holds(model, tmp_path):
    path = exporters.convert(model, tmp_path / "m.tflite").path
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == [METADATA_FILE, LABELS_FILE]
        assert archive.read(LABELS_FILE).decode() == "Gänse\n花\nC++\n"
    assert read_tflite_metadata(path) == METADATA
    again = exporters.convert(model, tmp_path / "again.tflite").path
    assert again.read_bytes()[-600:] == path.read_bytes()[-600:]


def test_8_bit_weights(model, tmp_path):
    options = ModelOptions(quantize="dynamic")
    done = exporters.convert(model, tmp_path / "m.tflite", options=options)
    assert done.verification.passed
    assert_same_answers(tmp_path / "m.tflite", model, rtol=0.1)


def test_8_bit_activations(model, tmp_path):
    """Calibrated on batches of its input; answers are near, and input and output stay float."""
    asked = []

    def calibration(metadata):
        asked.append(metadata)
        yield pictures(20)
        yield pictures(7)

    options = ModelOptions(quantize="int8", calibration=calibration)
    done = exporters.convert(model, tmp_path / "m.tflite", options=options)
    assert asked == [METADATA]
    assert any("The bias of 1 convolution was corrected" in note for note in done.notes)
    assert done.verification.passed
    assert done.verification.top1_agreement >= 0.9
    with open_runner(tmp_path / "m.tflite") as runner:
        runner.select_outputs(("probs:0",))
        found = runner.run(pictures(30))[0]
    expected = answers_of(model, pictures(30))[0]
    assert (found.argmax(1) == expected.argmax(1)).mean() >= 0.9
    assert np.abs(found - expected).max() < 0.1
    assert not np.array_equal(found, expected)


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_a_model_that_answers_otherwise_is_not_left_in_place(model, tmp_path, name, monkeypatch):
    monkeypatch.setattr("exporters.runtimes.verification.RTOL", 1e-12)
    monkeypatch.setattr("exporters.runtimes.verification.ATOL", 1e-12)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(VerificationError, match="does not answer like its source"):
        exporters.convert(model, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_the_structure_alone_cannot_be_proved(model, tmp_path, name):
    with pytest.raises(UsageError, match="is not that of its source"):
        exporters.convert(model, tmp_path / name, verify="structure")


@pytest.mark.parametrize("name", ["m\udcfe.onnx", "m\udcfe.tflite"])
def test_a_path_that_is_no_utf8_is_refused_before_anything_is_written(model, tmp_path, name):
    message = "the path is not UTF-8, and ONNX Runtime and LiteRT open no other"
    with pytest.raises(UsageError, match=message):
        exporters.convert(model, tmp_path / name)
    assert not (tmp_path / name).exists()
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError, match=message):
        open_runner(tmp_path / name)


def test_without_verification(model, tmp_path):
    done = exporters.convert(model, tmp_path / "m.tflite", verify="none")
    assert (done.verification.mode, done.verification.passed) == ("none", None)
    assert_same_answers(tmp_path / "m.tflite", model)


def test_an_op_that_the_tflite_converter_lacks_is_named(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("Betainc", "out", "x", "x", "x", T=FLOAT)
    (tmp_path / "g.pb").write_bytes(builder.graph_def.SerializeToString())
    with pytest.raises(UnsupportedError, match="converter cannot convert") as caught:
        exporters.convert(tmp_path / "g.pb", tmp_path / "m.tflite", outputs=["out"])
    assert caught.value.received == "ops without a TFLite form: Betainc"
    assert not (tmp_path / "m.tflite").exists()


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
@pytest.mark.parametrize("count", [2, 4])
def test_class_names_have_to_be_as_many_as_there_are_logits(model, tmp_path, name, count):
    (tmp_path / "labels.txt").write_text("".join(f"class {i}\n" for i in range(count)))
    with pytest.raises(GraphError, match="does not fit the model") as caught:
        exporters.convert(model, tmp_path / name, labels=tmp_path / "labels.txt")
    assert (caught.value.expected, caught.value.received) == (
        "3 class names, one for each logit",
        str(count),
    )
    assert not (tmp_path / name).exists()


class TestRunners:
    @pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
    def test_broken_files(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"\x1c\x00\x00\x00TFL3 and nothing of use")
        with pytest.raises(BrokenFileError, match=name):
            open_runner(tmp_path / name)

    def test_something_else(self, tmp_path):
        (tmp_path / "m.tflite").write_bytes(b"hello, world")
        with pytest.raises(BrokenFileError, match="is not a TensorFlow Lite model"):
            open_runner(tmp_path / "m.tflite")

    @pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
    def test_other_shapes_and_inputs(self, model, tmp_path, name):
        exporters.convert(model, tmp_path / name, verify="none")
        with open_runner(tmp_path / name) as runner:
            with pytest.raises(GraphError, match="as it was asked to"):
                runner.run(np.zeros((1, 9, 8, 3), np.float32))
            with pytest.raises(GraphError, match="takes other inputs"):
                runner.run(pictures(1), pictures(1))
            with pytest.raises(GraphError, match="takes other inputs"):
                runner.run(feeds={"pictures:0": pictures(1)})
            with pytest.raises(GraphError, match="has no output nothing"):
                runner.select_outputs(("nothing",))
            assert len(runner.run(pictures(2))) == 3

    @pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
    def test_a_data_set(self, model, tmp_path, name):
        from exporters.runtime import load_tensorflow

        exporters.convert(model, tmp_path / name, verify="none")

        def make_dataset():
            tf = load_tensorflow()
            data = tf.data.Dataset.from_tensor_slices((pictures(5), [4, 3, 2, 1, 0]))
            return data.batch(2)

        with open_runner(tmp_path / name) as runner:
            runner.select_outputs(("probs:0",))
            batches = list(runner.run_dataset(make_dataset))
        assert [list(labels) for _, (labels,) in batches] == [[4, 3], [2, 1], [0]]
        found = np.concatenate([outputs[0] for outputs, _ in batches])
        np.testing.assert_allclose(found, answers_of(model, pictures(5))[0], rtol=1e-4, atol=1e-6)

    def test_files_behind_a_tflite_model_that_are_broken(self, model, tmp_path):
        path = exporters.convert(model, tmp_path / "m.tflite", verify="none").path
        data = bytearray(path.read_bytes())
        place = data.rindex(b"format_version")
        data[place] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(GraphError) as caught:
            read_tflite_metadata(path)
        assert str(path) in str(caught.value)


def test_real_models_keep_their_top_entry(shared, tmp_path):
    """fc_layers in both forms, on inputs of its kind."""
    source = shared / "data/models/fc_layers/frozen.pb"
    digits = np.random.default_rng(0).random((20, 784)).astype(np.float32)
    with GraphRunner(source, ["X"], ["output"]) as runner:
        expected = runner.run(digits)[0]
    for name in ("m.onnx", "m.tflite"):
        done = exporters.convert(source, tmp_path / name, outputs=["output"])
        assert done.verification.top1_agreement == 1.0
        with open_runner(tmp_path / name) as runner:
            found = runner.run(digits)[0]
        np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))


@pytest.mark.long
@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_mobilenet_keeps_its_top_entry(shared, tmp_path, name):
    source = shared / "data/models/mobilenet_v1_1.0_224/frozen.pb"
    done = exporters.convert(source, tmp_path / name)
    assert done.verification.passed
    assert done.verification.top1_agreement == 1.0
