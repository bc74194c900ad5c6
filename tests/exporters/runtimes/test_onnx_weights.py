"""Large weights pass tf2onnx by, and the model is the one that it would have made of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import exporters
from exporters.runtimes import onnx_weights
from exporters.runtimes.runners import open_runner

pytestmark = pytest.mark.tensorflow

FLOAT = np.dtype("float32")


@pytest.fixture
def net(builder, tmp_path):
    """Convolution with batch norm, depthwise convolution, and two products, one transposed.

    One weight is read through Identity, one by two products, and one as the left side too.
    """
    generator = np.random.default_rng(3)

    def drawn(*shape):
        return generator.normal(0, 0.5, shape).astype(np.float32)

    def convolve(op, name, *inputs):
        builder.add(op, name, *inputs, T=FLOAT, padding="SAME")
        builder.graph_def.node[-1].attr["strides"].list.i.extend([1, 1, 1, 1])

    builder.add("Placeholder", "images", dtype=FLOAT, shape=(None, 4, 4, 3))
    builder.const("filter", drawn(3, 3, 3, 8))
    builder.add("Identity", "filter/read", "filter", T=FLOAT)
    convolve("Conv2D", "conv", "images", "filter/read")
    parts = [builder.const(f"bn/{name}", np.abs(drawn(8)) + 0.5) for name in "abcd"]
    builder.add("FusedBatchNormV3", "bn", "conv", *parts, T=FLOAT, U=FLOAT, is_training=False)
    convolve(
        "DepthwiseConv2dNative", "deep", "bn", builder.const("deep/weights", drawn(3, 3, 8, 2))
    )
    builder.const("flat", np.array([-1, 256], np.int32))
    builder.add("Reshape", "row", "deep", "flat", T=FLOAT, Tshape=np.dtype("int32"))
    builder.const("first", drawn(16, 256))
    builder.add("MatMul", "product", "row", "first", T=FLOAT, transpose_b=True)
    builder.const("twice", drawn(16, 16))
    builder.add("MatMul", "again", "product", "twice", T=FLOAT)
    builder.add("MatMul", "out", "again", "twice", T=FLOAT)
    builder.const("added", drawn(16, 16))
    builder.add("MatMul", "other", "added", "out", T=FLOAT, transpose_b=True)
    builder.add("MatMul", "last", "other", "added", T=FLOAT, transpose_a=True)
    path = tmp_path / "net.pb"
    path.write_bytes(builder.graph_def.SerializeToString())
    return path


def converted(net, path, large, monkeypatch):
    """The model with constants of so many bytes set aside, which weights these were, and answers."""
    import onnx

    aside = []
    set_aside = onnx_weights.set_weights_aside

    def noted(frozen):
        graph_def, weights = set_aside(frozen)
        aside.extend(weights)
        return graph_def, weights

    monkeypatch.setattr(onnx_weights, "LARGE", large)
    monkeypatch.setattr("exporters.writers.onnx.set_weights_aside", noted)
    conversion = exporters.convert(net, path, outputs=["last"], verify="run")
    assert conversion.verification.passed
    images = np.random.default_rng(0).normal(size=(3, 4, 4, 3)).astype(np.float32)
    with open_runner(path) as runner:
        (answers,) = runner.run(images)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert conversion.nodes == len(model.graph.node)
    assert [entry.name for entry in model.graph.input] == ["images:0"]
    return model, aside, answers


def test_the_model_is_the_same_with_and_without(net, tmp_path, monkeypatch):
    from onnx import numpy_helper

    plain, none, answers = converted(net, tmp_path / "plain.onnx", 1 << 30, monkeypatch)
    ours, aside, same = converted(net, tmp_path / "ours.onnx", 1, monkeypatch)
    assert none == []
    assert len(aside) == 4
    assert {"first:0", "twice:0"} < set(aside)
    assert "added:0" not in aside
    np.testing.assert_array_equal(same, answers)

    def ops(model):
        return Counter(node.op_type for node in model.graph.node)

    def values(model):
        floats = [entry for entry in model.graph.initializer if entry.data_type == 1]
        return Counter(numpy_helper.to_array(entry).tobytes() for entry in floats)

    assert ops(ours) == ops(plain)
    assert values(ours) == values(plain)
