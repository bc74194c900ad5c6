"""What is in .onnx and .tflite files, read without the extras that run them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from checkpoints.errors import GraphError
from checkpoints.wire import VARINT, encode_header, encode_tag, encode_varint
from exporters.metadata import Metadata
from exporters.runtime import load_tensorflow
from exporters.runtimes.contents import Tensor
from exporters.runtimes.onnx_contents import onnx_contents
from exporters.runtimes.tflite_contents import tflite_contents


def message(number: int, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return encode_header(number, len(payload)) + payload


def number(field: int, value: int) -> bytes:
    return encode_tag(field, VARINT) + encode_varint(value)


def value_info(field: int, name: str, dtype: int, *sizes: int | None) -> bytes:
    dimensions = [
        message(1, message(2, b"batch") if size is None else number(1, size)) for size in sizes
    ]
    shape = message(2, *dimensions)
    return message(
        field, message(1, name.encode()), message(2, message(1, number(1, dtype), shape))
    )


def initializer(name: str, dtype: int, *sizes: int) -> bytes:
    dims = message(1, *map(encode_varint, sizes))
    return message(5, dims, number(2, dtype), message(8, name.encode()))


def onnx_model(*more: bytes) -> bytes:
    graph = message(
        7,
        message(1, message(4, b"MatMul")),
        message(1, message(4, b"Relu")),
        message(1, message(4, b"Relu")),
        initializer("w", 1, 4, 3),
        initializer("shape", 7, 2),
        value_info(11, "x", 1, None, 4),
        value_info(11, "w", 1, 4, 3),
        value_info(12, "y", 10, None, 3),
    )
    return number(1, 8) + message(2, b"me") + graph + message(8, number(2, 17)) + b"".join(more)


def test_an_onnx_model(tmp_path):
    path = tmp_path / "m.onnx"
    metadata = Metadata(classes=("a", "b", "c"))
    stored = message(14, message(1, b"slimtune/metadata"), message(2, metadata.to_text().encode()))
    path.write_bytes(onnx_model(stored, message(14, message(1, b"other"), message(2, b"x"))))
    found = onnx_contents(path)
    assert found.inputs == (Tensor("x", "float32", (None, 4)),)
    assert found.outputs == (Tensor("y", "float16", (None, 3)),)
    assert found.ops == {"Relu": 2, "MatMul": 1}
    assert (found.parameters, found.metadata) == (12, metadata)
    assert (found.written_for, found.written_by) == ("opset 17", "me")


def read_damaged(read, source: bytes, path, seed: int, most_changes: int, least_bytes: int):
    """Reads 300 copies with changed bytes and cut ends; what is refused is refused with its name."""
    generator = random.Random(seed)
    for _ in range(300):
        data = bytearray(source)
        for _ in range(generator.randrange(1, most_changes + 1)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(bytes(data[: generator.randrange(least_bytes, len(data) + 1)]))
        try:
            read(path)
        except GraphError as error:
            assert str(path) in error.message


@pytest.mark.parametrize("seed", range(3))
def test_damaged_onnx_models(tmp_path, seed):
    read_damaged(onnx_contents, onnx_model(), tmp_path / "m.onnx", seed, 3, 1)


@pytest.fixture(scope="module")
def tflite_model(tmp_path_factory):
    """A net of two layers that TensorFlow's own converter wrote."""
    tf = load_tensorflow()
    first = tf.constant(np.ones((4, 8), np.float32))
    second = tf.constant(np.ones((8, 3), np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "pictures")])
    def net(pictures):
        return tf.nn.softmax(tf.nn.relu(pictures @ first) @ second)

    converter = tf.lite.TFLiteConverter.from_concrete_functions([net.get_concrete_function()])
    path = tmp_path_factory.mktemp("tflite") / "m.tflite"
    path.write_bytes(converter.convert())
    return path


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore")
def test_a_tflite_model(tflite_model):
    found = tflite_contents(tflite_model)
    assert found.inputs == (Tensor("pictures", "float32", (None, 4)),)
    (output,) = found.outputs
    assert (output.dtype, output.shape) == ("float32", (None, 3))
    assert found.ops == {"FULLY_CONNECTED": 2, "SOFTMAX": 1}
    assert found.parameters >= 4 * 8 + 8 * 3
    assert found.written_for == "schema 3"
    assert found.metadata is None


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_damaged_tflite_models(tflite_model, tmp_path, seed):
    read_damaged(tflite_contents, tflite_model.read_bytes(), tmp_path / "m.tflite", seed, 5, 8)
