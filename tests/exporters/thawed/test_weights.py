"""Which constants of a frozen graph were variables."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.messages import DataType
from exporters.thawed.weights import find_weights

FLOAT = np.dtype("float32")


def ones(*shape):
    return np.ones(shape, np.float32)


def found(builder):
    return {weight.name: weight for weight in find_weights(builder.graph)}


@pytest.fixture
def picture(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 6, 6, 1))
    return builder


def test_constants_read_as_variables(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    for name, read in (
        ("a", "a/read"),
        ("b", "b/Read/ReadVariableOp"),
        ("c", "dense/MatMul/ReadVariableOp_1"),
        ("d", "dense/Cast_ReadVariableOp"),
    ):
        builder.const(name, np.int32(3))
        builder.add("Identity", read, name, T=np.dtype("int32"))
    builder.const("e", ones(2))
    builder.add("Identity", "anything", "e", T=FLOAT, _class=[b"loc:@e"])
    builder.const("no", ones(2))
    builder.add("Identity", "thread", "no", T=FLOAT)
    weights = found(builder)
    assert list(weights) == ["a", "b", "c", "d", "e"]
    assert [weight.is_trainable for weight in weights.values()] == [False] * 4 + [True]


def test_weights_of_ops_and_what_they_are(picture):
    picture.const("filter", ones(3, 3, 1, 2))
    picture.add("Conv2D", "conv", "x", "filter", T=FLOAT)
    for name in ("scale", "offset", "average", "spread"):
        picture.const(name, ones(2))
    picture.add("FusedBatchNormV3", "norm", "conv", "scale", "offset", "average", "spread", T=FLOAT)
    picture.const("depth", ones(3, 3, 2, 1))
    picture.add("DepthwiseConv2dNative", "depthwise", "norm", "depth", T=FLOAT)
    picture.const("bias", ones(2))
    picture.add("BiasAdd", "biased", "depthwise", "bias", T=FLOAT)
    picture.const("shape", np.array([-1, 72], np.int32))
    picture.add("Reshape", "flat", "biased", "shape", T=FLOAT)
    picture.const("kernel", ones(3, 72))
    picture.const("axes", np.array([1, 0], np.int32))
    picture.add("Transpose", "turned", "kernel", "axes", T=FLOAT)
    picture.add("MatMul", "dense", "flat", "turned", T=FLOAT)
    picture.const("shift", ones(3))
    picture.add("AddV2", "logits", "dense", "shift", T=FLOAT)
    picture.const("half", np.float32(0.5))
    picture.add("Mul", "halved", "logits", "half", T=FLOAT)
    picture.const("table", ones(5, 2))
    picture.const("ids", np.array([1], np.int32))
    picture.add("GatherV2", "embedding", "table", "ids", T=FLOAT)
    weights = found(picture)
    assert {name: (set(weight.roles), weight.is_trainable) for name, weight in weights.items()} == {
        "filter": ({"weights"}, True),
        "scale": ({"scale"}, True),
        "offset": ({"offset"}, True),
        "average": ({"mean"}, False),
        "spread": ({"variance"}, False),
        "depth": ({"weights"}, True),
        "bias": ({"offset"}, True),
        "kernel": ({"weights"}, True),
        "shift": ({"offset"}, True),
        "table": ({"weights"}, True),
    }
    assert weights["filter"].shape == (3, 3, 1, 2)


def test_an_unfused_batch_norm(picture):
    picture.const("filter", ones(3, 3, 1, 2))
    picture.add("Conv2D", "conv", "x", "filter", T=FLOAT)
    for name in ("a", "b", "c", "d"):
        picture.const(name, ones(2))
    picture.const("epsilon", np.float32(0.001))
    picture.add("Add", "sum", "a", "epsilon", T=FLOAT)
    picture.add("Rsqrt", "rsqrt", "sum", T=FLOAT)
    picture.add("Mul", "mul", "rsqrt", "b", T=FLOAT)
    picture.add("Mul", "scaled", "conv", "mul", T=FLOAT)
    picture.add("Mul", "moved", "c", "mul", T=FLOAT)
    picture.add("Sub", "sub", "d", "moved", T=FLOAT)
    picture.add("Add", "out", "scaled", "sub", T=FLOAT)
    weights = found(picture)
    assert {name: set(weight.roles) for name, weight in weights.items()} == {
        "filter": {"weights"},
        "a": {"variance"},
        "b": {"scale"},
        "c": {"mean"},
        "d": {"offset"},
    }


@pytest.mark.parametrize(
    "name", ["n/moving_mean", "moving_variance_1", "bn/running_var", "w/ExponentialMovingAverage"]
)
def test_names_of_moving_averages(builder, name):
    builder.const(name, ones(2))
    builder.add("Identity", f"{name}/read", name, T=FLOAT)
    (weight,) = find_weights(builder.graph)
    assert weight.is_moving and not weight.is_trainable


def test_a_read_that_was_folded_gives_its_variable_the_name_it_had(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.const("w/read", ones(2, 2))
    builder.add("MatMul", "one", "x", "w/read", T=FLOAT)
    builder.const("w/Read/ReadVariableOp", ones(2, 2))
    builder.add("MatMul", "two", "one", "w/Read/ReadVariableOp", T=FLOAT)
    builder.const("v/read", ones(2, 2))
    builder.add("MatMul", "v", "two", "v/read", T=FLOAT)
    assert [(weight.node, weight.name) for weight in find_weights(builder.graph)] == [
        ("w/read", "w"),
        ("w/Read/ReadVariableOp", "w/Read/ReadVariableOp"),
        ("v/read", "v/read"),
    ]


def test_weights_are_followed_into_functions(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.const("w", ones(2, 2))
    builder.const("unused", ones(2, 2))
    builder.add("PartitionedCall", "call", "x", "w", "unused")
    call = builder.graph_def.node[-1]
    call.attr["f"].func.name = "outer"
    library = builder.graph_def.library
    outer = library.function.add()
    outer.signature.name = "outer"
    inner = library.function.add()
    inner.signature.name = "inner"
    for function in (outer, inner):
        for name in ("p", "q", "r"):
            function.signature.input_arg.add(name=name, type=DataType.DT_FLOAT)
    outer.node_def.add(name="again", op="inner", input=["p", "q", "r"])
    outer.node_def.add(name="loop", op="outer", input=["p", "q", "r"])
    inner.node_def.add(name="kept", op="Identity", input=["q"])
    inner.node_def.add(name="product", op="MatMul", input=["p", "kept:output:0"])
    assert [weight.name for weight in find_weights(builder.graph)] == ["w"]


def test_anchors_means_of_pictures_and_sizes_are_no_weights(picture):
    picture.const("mean", ones(1))
    picture.add("Sub", "centred", "x", "mean", T=FLOAT)
    picture.const("filter", ones(3, 3, 1, 2))
    picture.add("Conv2D", "conv", "centred", "filter", T=FLOAT)
    picture.const("shape", np.array([-1, 4], np.int32))
    picture.add("Reshape", "boxes", "conv", "shape", T=FLOAT)
    picture.const("anchors", ones(4))
    picture.add("AddV2", "out", "boxes", "anchors", T=FLOAT)
    assert [weight.name for weight in find_weights(picture.graph)] == ["filter"]


def test_many_constants_behind_one_long_chain(builder):
    count = 3000
    names = [builder.const(f"c{index}", ones(1, 2)) for index in range(count)]
    builder.add("ConcatV2", "all", *names[:1000])
    previous = "all"
    for index in range(count):
        previous = builder.add("Identity", f"i{index}", previous, T=FLOAT)
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 2))
    builder.add("MatMul", "out", "x", previous, T=FLOAT)
    assert len(find_weights(builder.graph)) == 1000
