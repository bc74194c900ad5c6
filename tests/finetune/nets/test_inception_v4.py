"""Inception-v4 and Inception-ResNet-v2: end points, names of the published checkpoints, counts."""

import math

import pytest

from checkpoints.errors import PlanError
from checkpoints.scopes import in_scope
from exporters.runtime import load_tensorflow
from finetune.nets import build_net

pytestmark = pytest.mark.tensorflow

CLASSES = 1000

V4_END_POINTS = {
    "Conv2d_1a_3x3": (149, 149, 32),
    "Conv2d_2a_3x3": (147, 147, 32),
    "Conv2d_2b_3x3": (147, 147, 64),
    "Mixed_3a": (73, 73, 160),
    "Mixed_4a": (71, 71, 192),
    "Mixed_5a": (35, 35, 384),
    **{f"Mixed_5{letter}": (35, 35, 384) for letter in "bcde"},
    **{f"Mixed_6{letter}": (17, 17, 1024) for letter in "abcdefgh"},
    **{f"Mixed_7{letter}": (8, 8, 1536) for letter in "abcd"},
    "AuxLogits": (CLASSES,),
    "global_pool": (1, 1, 1536),
    "PreLogitsFlatten": (1536,),
    "Logits": (CLASSES,),
    "Predictions": (CLASSES,),
}
"""As in TF-Slim's own test of the net (inception_v4_test.py)."""

V4_CONVOLUTIONS = {
    "": "Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3",
    "Mixed_3a/Branch_1": "Conv2d_0a_3x3",
    "Mixed_4a/Branch_0": "Conv2d_0a_1x1 Conv2d_1a_3x3",
    "Mixed_4a/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_1x7 Conv2d_0c_7x1 Conv2d_1a_3x3",
    "Mixed_5a/Branch_0": "Conv2d_1a_3x3",
    "Mixed_5[bcde]/Branch_0": "Conv2d_0a_1x1",
    "Mixed_5[bcde]/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_3x3",
    "Mixed_5[bcde]/Branch_2": "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_0c_3x3",
    "Mixed_5[bcde]/Branch_3": "Conv2d_0b_1x1",
    "Mixed_6a/Branch_0": "Conv2d_1a_3x3",
    "Mixed_6a/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_1a_3x3",
    "Mixed_6[bcdefgh]/Branch_0": "Conv2d_0a_1x1",
    "Mixed_6[bcdefgh]/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_1x7 Conv2d_0c_7x1",
    "Mixed_6[bcdefgh]/Branch_2": (
        "Conv2d_0a_1x1 Conv2d_0b_7x1 Conv2d_0c_1x7 Conv2d_0d_7x1 Conv2d_0e_1x7"
    ),
    "Mixed_6[bcdefgh]/Branch_3": "Conv2d_0b_1x1",
    "Mixed_7a/Branch_0": "Conv2d_0a_1x1 Conv2d_1a_3x3",
    "Mixed_7a/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_1x7 Conv2d_0c_7x1 Conv2d_1a_3x3",
    "Mixed_7[bcd]/Branch_0": "Conv2d_0a_1x1",
    "Mixed_7[bcd]/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_1x3 Conv2d_0c_3x1",
    "Mixed_7[bcd]/Branch_2": (
        "Conv2d_0a_1x1 Conv2d_0b_3x1 Conv2d_0c_1x3 Conv2d_0d_1x3 Conv2d_0e_3x1"
    ),
    "Mixed_7[bcd]/Branch_3": "Conv2d_0b_1x1",
    "AuxLogits": "Conv2d_1b_1x1 Conv2d_2a",
}
"""Convolutions with batch norm in the published inception_v4.ckpt."""

RESNET_END_POINTS = {
    "Conv2d_1a_3x3": (149, 149, 32),
    "Conv2d_2a_3x3": (147, 147, 32),
    "Conv2d_2b_3x3": (147, 147, 64),
    "MaxPool_3a_3x3": (73, 73, 64),
    "Conv2d_3b_1x1": (73, 73, 80),
    "Conv2d_4a_3x3": (71, 71, 192),
    "MaxPool_5a_3x3": (35, 35, 192),
    "Mixed_5b": (35, 35, 320),
    "Mixed_6a": (17, 17, 1088),
    "PreAuxLogits": (17, 17, 1088),
    "Mixed_7a": (8, 8, 2080),
    "Conv2d_7b_1x1": (8, 8, 1536),
    "AuxLogits": (CLASSES,),
    "global_pool": (1, 1, 1536),
    "PreLogitsFlatten": (1536,),
    "Logits": (CLASSES,),
    "Predictions": (CLASSES,),
}
"""As in TF-Slim's own test of the net (inception_resnet_v2_test.py)."""

RESNET_CONVOLUTIONS = {
    "": "Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3 Conv2d_3b_1x1 Conv2d_4a_3x3 Conv2d_7b_1x1",
    "Mixed_5b/Branch_0": "Conv2d_1x1",
    "Mixed_5b/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_5x5",
    "Mixed_5b/Branch_2": "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_0c_3x3",
    "Mixed_5b/Branch_3": "Conv2d_0b_1x1",
    "Mixed_6a/Branch_0": "Conv2d_1a_3x3",
    "Mixed_6a/Branch_1": "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_1a_3x3",
    "Mixed_7a/Branch_0": "Conv2d_0a_1x1 Conv2d_1a_3x3",
    "Mixed_7a/Branch_1": "Conv2d_0a_1x1 Conv2d_1a_3x3",
    "Mixed_7a/Branch_2": "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_1a_3x3",
    "AuxLogits": "Conv2d_1b_1x1 Conv2d_2a_5x5",
}
RESIDUAL_CONVOLUTIONS = {
    "block35": (
        "Conv2d_1x1",
        "Conv2d_0a_1x1 Conv2d_0b_3x3",
        "Conv2d_0a_1x1 Conv2d_0b_3x3 Conv2d_0c_3x3",
    ),
    "block17": ("Conv2d_1x1", "Conv2d_0a_1x1 Conv2d_0b_1x7 Conv2d_0c_7x1"),
    "block8": ("Conv2d_1x1", "Conv2d_0a_1x1 Conv2d_0b_1x3 Conv2d_0c_3x1"),
}
RESIDUAL_BLOCKS = {
    **{f"Repeat/block35_{number}": "block35" for number in range(1, 11)},
    **{f"Repeat_1/block17_{number}": "block17" for number in range(1, 21)},
    **{f"Repeat_2/block8_{number}": "block8" for number in range(1, 10)},
    "Block8": "block8",
}
"""Convolutions and blocks in the published inception_resnet_v2_2016_08_30.ckpt."""


def spelt_out(scopes):
    """Mixed_5[bc]/Branch_0 -> Mixed_5b/Branch_0 and Mixed_5c/Branch_0, each with its convolutions."""
    for scope, convolutions in scopes.items():
        before, _, rest = scope.partition("[")
        letters, _, after = rest.partition("]")
        for letter in letters or [""]:
            path = f"{before}{letter}{after}" if letters else scope
            yield from (f"{path}/{name}".lstrip("/") for name in convolutions.split())


def normed(convolutions):
    parts = ("weights", "BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance")
    return {f"{convolution}/{part}" for convolution in convolutions for part in parts}


def dense(*layers):
    return {f"{layer}/{part}" for layer in layers for part in ("weights", "biases")}


def residual_convolutions():
    for scope, kind in RESIDUAL_BLOCKS.items():
        for number, names in enumerate(RESIDUAL_CONVOLUTIONS[kind]):
            yield from (f"{scope}/Branch_{number}/{name}" for name in names.split())


VARIABLES = {
    "inception_v4": normed(spelt_out(V4_CONVOLUTIONS))
    | dense("AuxLogits/Aux_logits", "Logits/Logits"),
    "inception_resnet_v2": normed(spelt_out(RESNET_CONVOLUTIONS))
    | normed(residual_convolutions())
    | dense(*(f"{block}/Conv2d_1x1" for block in RESIDUAL_BLOCKS))
    | dense("AuxLogits/Logits", "Logits/Logits"),
}
END_POINTS = {"inception_v4": V4_END_POINTS, "inception_resnet_v2": RESNET_END_POINTS}
PARAMETERS = {"inception_v4": 42_679_816, "inception_resnet_v2": 55_843_464}
"""As timm counts them: without auxiliary head, and with a factor for each channel that is
normalised, which TF-Slim's nets lack. Keras has 55,813,192 of the latter, without the factors."""


@pytest.fixture(
    scope="module",
    params=["inception_v4", pytest.param("inception_resnet_v2", marks=pytest.mark.long)],
)
def built(request):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default():
        net = build_net(request.param, v1.placeholder(v1.float32, [2, 299, 299, 3]), CLASSES)
        shapes = {v.op.name: v.shape.as_list() for v in v1.global_variables()}
        return net, shapes, [v.op.name for v in v1.trainable_variables()]


def test_every_end_point_has_its_shape(built):
    net = built[0]
    shapes = {name: tuple(tensor.shape.as_list()) for name, tensor in net.end_points.items()}
    expected = {name: (2, *shape) for name, shape in END_POINTS[net.net.name].items()}
    assert shapes == expected
    assert list(shapes) == list(expected)


def test_variables_have_the_names_of_the_published_checkpoint(built):
    net, shapes, _ = built
    scope = net.net.scope
    assert {name.removeprefix(f"{scope}/") for name in shapes} == VARIABLES[net.net.name]
    assert shapes[f"{scope}/Logits/Logits/weights"] == [1536, CLASSES]


def test_parameters(built):
    net, shapes, trainable = built
    body = [name for name in trainable if not in_scope(name, net.net.auxiliary_heads[0])]
    counted = sum(math.prod(shapes[name]) for name in body)
    factors = sum(math.prod(shapes[name]) for name in body if name.endswith("/beta"))
    assert counted + factors == PARAMETERS[net.net.name]
    last = {"inception_v4": 1024, "inception_resnet_v2": 1088}[net.net.name]
    aux = sum(math.prod(shapes[name]) for name in trainable if name not in body)
    assert aux == (last + 1) * 128 + (25 * 128 + 1) * 768 + (768 + 1) * CLASSES


def test_what_the_record_names(built):
    net = built[0]
    assert net.logits is net.end_points["Logits"]
    assert net.bottleneck is net.end_points["global_pool"]
    assert net.end_points["Predictions"].op.name == f"{net.net.scope}/Logits/Predictions"
    first = f"{net.net.scope}/{net.net.scope}/Conv2d_1a_3x3/Relu"
    assert net.end_points["Conv2d_1a_3x3"].op.name == first


@pytest.mark.long
def test_pictures_too_small_for_the_auxiliary_head_are_refused():
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), pytest.raises(PlanError, match="96 x 96 pixels") as caught:
        build_net("inception_v4", v1.placeholder(v1.float32, [None, 96, 96, 3]), 5)
    assert caught.value.expected == "larger ones, as its own 299"
