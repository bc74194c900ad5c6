"""Requests to warm TensorFlow Serving up with, read back by protobuf from the fields it documents."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

import exporters
from checkpoints.errors import GraphError
from exporters.options import ModelOptions
from exporters.saved_models.warm_up import PLACE
from finetune.serving import preprocessing_graph, warm_up_pictures

pytestmark = pytest.mark.tensorflow

MESSAGES = {
    "ModelSpec": [(1, "name", ""), (3, "signature_name", "")],
    "InputsEntry": [(1, "key", ""), (2, "value", ".tensorflow.TensorProto")],
    "PredictRequest": [(1, "model_spec", "ModelSpec"), (2, "inputs", "InputsEntry")],
    "PredictLog": [(1, "request", "PredictRequest")],
    "PredictionLog": [(6, "predict_log", "PredictLog")],
}
"""The part of TensorFlow Serving's messages that requests to predict have."""


@pytest.fixture(scope="module")
def prediction_log():
    from tensorflow.core.framework import tensor_pb2

    tensors = tensor_pb2.DESCRIPTOR
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="test_warm_up.proto", package="warm", syntax="proto3", dependency=[tensors.name]
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, key, kind in fields:
            label = field.LABEL_REPEATED if key == "inputs" else field.LABEL_OPTIONAL
            added = message.field.add(name=key, number=number, label=label)
            added.type = field.TYPE_MESSAGE if kind else field.TYPE_STRING
            if kind:
                added.type_name = kind if kind.startswith(".") else f".warm.{kind}"
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    found = descriptor_pool.Default().FindMessageTypeByName("warm.PredictionLog")
    return message_factory.GetMessageClass(found)


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for place, colour in enumerate(["red", "lime"]):
        Image.new("RGB", (20, 20), colour).save(folder / f"{place}.png")
    return folder


def logged(model, prediction_log):
    """What the server would be sent: the key and the values of each request's one input."""
    import tensorflow as tf

    for record in tf.data.TFRecordDataset(str(model / PLACE)).as_numpy_iterator():
        request = prediction_log.FromString(record).predict_log.request
        assert request.model_spec.signature_name == "serving_default"
        assert request.model_spec.name == ""
        (entry,) = request.inputs
        yield entry.key, tf.make_ndarray(entry.value)


def test_requests_hold_pictures_as_the_net_sees_them(
    colour_model, pictures, prediction_log, tmp_path
):
    import tensorflow as tf

    frozen = colour_model.write_pb(tmp_path / "frozen.pb")
    options = ModelOptions(warm_up=warm_up_pictures(pictures))
    exporters.convert(frozen, f"{tmp_path}/model/", options=options)
    sent = list(logged(tmp_path / "model", prediction_log))
    assert [key for key, _ in sent] == ["input", "input"]
    assert [value.shape for _, value in sent] == [(1, 16, 16, 3)] * 2
    assert [value[0, 0, 0].tolist() for _, value in sent] == [
        [1, -1, -1],
        [-1, 1, -1],
    ]
    assert sent[0][1].dtype == np.float32
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    answers = [serve(**{key: tf.constant(value)})["probabilities"] for key, value in sent]
    assert [int(np.argmax(answer)) for answer in answers] == [2, 1]  # red, green


def test_requests_are_whole_files_where_the_model_takes_these(
    colour_model, pictures, prediction_log, tmp_path
):
    frozen = colour_model.write_pb(tmp_path / "frozen.pb")
    options = ModelOptions(
        warm_up=warm_up_pictures(pictures, limit=1), with_preprocessing=preprocessing_graph
    )
    exporters.convert(frozen, f"{tmp_path}/model/", options=options)
    ((_, value),) = logged(tmp_path / "model", prediction_log)
    assert value.tolist() == [(pictures / "0.png").read_bytes()]


def test_other_inputs_are_refused_and_nothing_is_left(pictures, tmp_path):
    from tensorflow.compat import v1

    with v1.Graph().as_default() as graph:
        v1.add(v1.placeholder("int32", [None], name="a"), 1, name="b")
        (tmp_path / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    options = ModelOptions(warm_up=warm_up_pictures(pictures))
    with pytest.raises(GraphError, match="cannot feed the model's input") as refused:
        exporters.convert(
            tmp_path / "frozen.pb", f"{tmp_path}/model/", outputs=["b"], options=options
        )
    assert refused.value.received == "a int32"
    assert not (tmp_path / "model").exists()


def test_other_forms_have_no_use_for_it(slimtune, colour_model, pictures, tmp_path):
    frozen = colour_model.write_pb(tmp_path / "frozen.pb")
    code, _, said = slimtune("convert", frozen, tmp_path / "a.pb", "--warm-up", pictures)
    assert code == 2
    assert "--warm-up says nothing of the form pb." in said
