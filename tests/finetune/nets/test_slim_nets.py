"""Nets of tf_slim.nets as slimtune builds them: end points, shapes, variables, parameters."""

import functools
import math
from typing import Any, NamedTuple

import pytest

from checkpoints.errors import PlanError
from checkpoints.published import NETS
from checkpoints.scopes import in_scope
from exporters.runtime import load_tensorflow
from finetune.nets import build_net

pytestmark = pytest.mark.tensorflow

LONG = pytest.mark.long


class Built(NamedTuple):
    """A net with 1000 classes.

    Attributes:
      net: what build_net gave.
      end_points: name -> shape, in their order.
      variables: name -> shape, in their order.
      trainable: the names of those that train.
    """

    net: Any
    end_points: dict[str, list[int | None]]
    variables: dict[str, list[int]]
    trainable: list[str]


@pytest.fixture(scope="module")
def built():
    """Builds a net of the registry at its own size, once."""

    @functools.cache
    def build(name):
        v1 = load_tensorflow().compat.v1
        size = NETS[name].image_size
        with v1.Graph().as_default():
            net = build_net(name, v1.placeholder(v1.float32, [None, size, size, 3]), 1000)
            return Built(
                net,
                {name: tensor.shape.as_list() for name, tensor in net.end_points.items()},
                {v.op.name: v.shape.as_list() for v in v1.global_variables()},
                [v.op.name for v in v1.trainable_variables()],
            )

    return build


def parameters(net, names):
    return sum(math.prod(net.variables[name]) for name in names)


def check_record(net):
    """The logits, bottleneck and heads are where the net's record says."""
    record = net.net.net
    assert net.net.logits.shape.as_list() == [None, 1000]
    assert net.net.bottleneck.shape.as_list()[1:3] == [1, 1]
    assert all(in_scope(name, record.scope) for name in net.variables)
    head = [name for name in net.variables if in_scope(name, record.main_head)]
    assert [net.variables[name][-1] for name in head] == [1000, 1000]


INCEPTION = {
    "inception_v1": (
        {
            "Conv2d_1a_7x7": (112, 64),
            "MaxPool_2a_3x3": (56, 64),
            "Conv2d_2b_1x1": (56, 64),
            "Conv2d_2c_3x3": (56, 192),
            "MaxPool_3a_3x3": (28, 192),
            "Mixed_3b": (28, 256),
            "Mixed_3c": (28, 480),
            "MaxPool_4a_3x3": (14, 480),
            "Mixed_4b": (14, 512),
            "Mixed_4c": (14, 512),
            "Mixed_4d": (14, 512),
            "Mixed_4e": (14, 528),
            "Mixed_4f": (14, 832),
            "MaxPool_5a_2x2": (7, 832),
            "Mixed_5b": (7, 832),
            "Mixed_5c": (7, 1024),
        },
        5_607_184,
    ),
    "inception_v2": (
        {
            "Conv2d_1a_7x7": (112, 64),
            "MaxPool_2a_3x3": (56, 64),
            "Conv2d_2b_1x1": (56, 64),
            "Conv2d_2c_3x3": (56, 192),
            "MaxPool_3a_3x3": (28, 192),
            "Mixed_3b": (28, 256),
            "Mixed_3c": (28, 320),
            **{f"Mixed_4{letter}": (14, 576) for letter in "abcde"},
            **{f"Mixed_5{letter}": (7, 1024) for letter in "abc"},
        },
        10_173_112,
    ),
}
"""Side and channels of every end point, and what all variables of the base hold: as TF-Slim's own
tests have them (inception_v1_test.py, inception_v2_test.py)."""


@pytest.mark.parametrize("name", INCEPTION)
def test_inception(built, name):
    net = built(name)
    check_record(net)
    base, size = INCEPTION[name]
    assert net.end_points == {
        **{point: [None, side, side, channels] for point, (side, channels) in base.items()},
        "Logits": [None, 1000],
        "Predictions": [None, 1000],
        "PreLogits": [None, 1, 1, 1024],
    }
    head = NETS[name].main_head
    assert parameters(net, [v for v in net.variables if not in_scope(v, head)]) == size
    assert {v for v in net.variables if in_scope(v, head)} == {
        f"{head}/Conv2d_{'0c' if name == 'inception_v1' else '1c'}_1x1/{part}"
        for part in ("weights", "biases")
    }


UNITS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
"""Units of each block: He et al. 2015, table 1; 200 as in He et al. 2016."""

RESNETS = {
    # As torchvision (50 to 152) and timm (200) count them.
    (1, 50): 25_557_032,
    (1, 101): 44_549_160,
    (1, 152): 60_192_808,
    (1, 200): 64_673_832,
    # As Keras counts ResNet50V2, ResNet101V2 and ResNet152V2.
    (2, 50): 25_568_360,
    (2, 101): 44_577_896,
    (2, 152): 60_236_904,
    # A unit more, no first one of a block, has 4 * depth_bottleneck numbers more than in version 1.
    (2, 200): 64_673_832 + (25_568_360 - 25_557_032) + 20 * 4 * 128 + 30 * 4 * 256,
}
"""Version and depth -> trainable parameters with 1000 classes."""

RESNET_CASES = [
    pytest.param(version, depth, marks=[LONG] if depth > 50 else [], id=f"v{version}_{depth}")
    for version, depth in RESNETS
]


def resnet_end_points(version, depth):
    scope = f"resnet_v{version}_{depth}"
    points = {f"{scope}/conv1": (112, 64)}
    side = 56
    for number, units in enumerate(UNITS[depth], start=1):
        width = 32 * 2**number
        for unit in range(1, units + 1):
            path = f"{scope}/block{number}/unit_{unit}/bottleneck_v{version}"
            if unit == 1:
                points[f"{path}/shortcut"] = (side, 4 * width)
            points[f"{path}/conv1"] = (side, width)
            if unit == units and number < 4:
                side //= 2
            points[f"{path}/conv2"] = (side, width)
            points[f"{path}/conv3"] = (side, 4 * width)
            points[path] = (side, 4 * width)
        points[f"{scope}/block{number}"] = (side, 4 * width)
    points = {name: [None, side, side, channels] for name, (side, channels) in points.items()}
    ends = {f"{scope}/logits": [None, 1, 1, 1000], "predictions": [None, 1, 1, 1000]}
    return {**points, **ends, "global_pool": [None, 1, 1, 2048]}


NORM = ("beta", "gamma", "moving_mean", "moving_variance")


def resnet_variables(version, depth):
    """The names in the published checkpoints, such as block1/unit_1/bottleneck_v1/conv1/weights."""
    scope = f"resnet_v{version}_{depth}"
    linear = ("weights", "biases")
    normed = ("weights", *(f"BatchNorm/{part}" for part in NORM))
    names = [f"{scope}/conv1/{part}" for part in (normed if version == 1 else linear)]
    for number, units in enumerate(UNITS[depth], start=1):
        for unit in range(1, units + 1):
            path = f"{scope}/block{number}/unit_{unit}/bottleneck_v{version}"
            last = normed if version == 1 else linear
            names += [f"{path}/shortcut/{part}" for part in last if unit == 1]
            names += [f"{path}/{conv}/{part}" for conv in ("conv1", "conv2") for part in normed]
            names += [f"{path}/conv3/{part}" for part in last]
            names += [f"{path}/preact/{part}" for part in NORM if version == 2]
    names += [f"{scope}/postnorm/{part}" for part in NORM if version == 2]
    return {*names, *(f"{scope}/logits/{part}" for part in linear)}


@pytest.mark.parametrize(("version", "depth"), RESNET_CASES)
def test_resnet(built, version, depth):
    net = built(f"resnet_v{version}_{depth}")
    check_record(net)
    assert net.end_points == resnet_end_points(version, depth)
    assert set(net.variables) == resnet_variables(version, depth)
    assert parameters(net, net.trainable) == RESNETS[version, depth]


DENSE = {
    "vgg_a": ("64 p 128 p 256 256 p 512 512 p 512 512 p", 132_863_336),
    "vgg_16": ("64 64 p 128 128 p 256 256 256 p 512 512 512 p 512 512 512 p", 138_357_544),
    "vgg_19": ("64 64 p 128 128 p 256 256 256 256 p " + 2 * "512 512 512 512 p ", 143_667_240),
}
"""Convolutions and pools of VGG (Simonyan and Zisserman 2014, table 1, columns A, D and E), and
parameters as torchvision counts vgg11, vgg16 and vgg19; table 2 has 133, 138 and 144 million."""


@pytest.mark.parametrize("name", DENSE)
def test_vgg(built, name):
    net = built(name)
    check_record(net)
    layers, size = DENSE[name]
    points, variables = {}, []
    for block, widths in enumerate(layers.split(" p")[:5], start=1):
        side = 448 // 2**block
        for number, width in enumerate(widths.split(), start=1):
            variables.append(f"{name}/conv{block}/conv{block}_{number}")
            points[variables[-1]] = [None, side, side, int(width)]
        points[f"{name}/pool{block}"] = [None, side // 2, side // 2, int(width)]
    points |= {f"{name}/fc6": [None, 1, 1, 4096], f"{name}/fc7": [None, 1, 1, 4096]}
    variables += [f"{name}/fc{number}" for number in (6, 7, 8)]
    assert net.end_points == {**points, f"{name}/fc8": [None, 1000]}
    assert list(net.variables) == [f"{v}/{part}" for v in variables for part in PARTS]
    assert parameters(net, net.trainable) == size


PARTS = ("weights", "biases")

OLDER = {
    "alexnet_v2": (
        {
            "conv1": (54, 64),
            "pool1": (26, 64),
            "conv2": (26, 192),
            "pool2": (12, 192),
            "conv3": (12, 384),
            "conv4": (12, 384),
            "conv5": (12, 256),
            "pool5": (5, 256),
            "fc6": (1, 4096),
            "fc7": (1, 4096),
        },
        # torchvision's alexnet, whose fc6 sees 6 x 6 and whose conv4 has 256 channels.
        61_100_840 - (36 - 25) * 256 * 4096 + 9 * (384 + 256) * 128 + 128,
    ),
    "overfeat": (
        {
            "conv1": (56, 64),
            "pool1": (28, 64),
            "conv2": (24, 256),
            "pool2": (12, 256),
            "conv3": (12, 512),
            "conv4": (12, 1024),
            "conv5": (12, 1024),
            "pool5": (6, 1024),
            "fc6": (1, 3072),
            "fc7": (1, 4096),
        },
        # Sermanet et al. 2013, section 3.4: the fast model has 145 million.
        145_704_424,
    ),
}
"""Side and channels of every end point, in TF-Slim's order, and trainable parameters."""


@pytest.mark.parametrize("name", OLDER)
def test_nets_before_batch_norm(built, name):
    net = built(name)
    check_record(net)
    layers, size = OLDER[name]
    points = {f"{name}/{layer}": [None, side, side, c] for layer, (side, c) in layers.items()}
    assert net.end_points == {**points, f"{name}/fc8": [None, 1000]}
    layers = [layer for layer in (*layers, "fc8") if not layer.startswith("pool")]
    assert list(net.variables) == [f"{name}/{layer}/{part}" for layer in layers for part in PARTS]
    assert parameters(net, net.trainable) == size


@pytest.mark.parametrize(
    ("name", "size", "other"),
    [("vgg_a", 100, "larger"), ("vgg_a", 300, "smaller"), ("alexnet_v2", 299, "smaller")],
)
def test_a_net_with_dense_layers_is_refused_at_other_sizes(name, size, other):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), pytest.raises(PlanError) as caught:
        build_net(name, v1.placeholder(v1.float32, [None, size, size, 3]), 5)
    assert f"{name} cannot be built for pictures of {size} x {size} pixels" in str(caught.value)
    assert caught.value.expected == f"{other} ones, as its own 224"
    assert other in caught.value.next_step
