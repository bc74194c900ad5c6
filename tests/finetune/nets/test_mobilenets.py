"""MobileNet-v1 and -v2 in all published widths: end points, variables, counts, answers."""

import math
import re
from functools import cache

import numpy as np
import pytest
from PIL import Image

import checkpoints
import exporters
from checkpoints.published import NETS
from exporters.graph import read_graph
from exporters.options import ModelOptions
from exporters.runtime import GraphRunner, load_tensorflow
from finetune.nets import build_net

pytestmark = pytest.mark.tensorflow

NAMES = [name for name in NETS if name.startswith("mobilenet_")]
QUICK = {"mobilenet_v1": 224, "mobilenet_v1_025": 128, "mobilenet_v2": 224, "mobilenet_v2_035": 96}
"""Those that are always tested, and at which size; the others are built for 64 pixels."""

ALL = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.long, id=name) for name in NAMES
]
NARROW = [
    pytest.param(name, marks=() if name.endswith(("_025", "_035")) else pytest.mark.long, id=name)
    for name in NAMES
]
NARROWEST_V2 = [
    pytest.param(name, marks=() if name.endswith("_035") else pytest.mark.long, id=name)
    for name in NAMES
]

PARAMETERS = {
    "mobilenet_v1": (4_231_976, 4.24),
    "mobilenet_v1_075": (2_585_560, 2.59),
    "mobilenet_v1_050": (1_331_592, 1.34),
    "mobilenet_v1_025": (470_072, 0.47),
    "mobilenet_v2": (3_504_872, 3.47),
    "mobilenet_v2_140": (6_108_776, 6.06),
    "mobilenet_v2_130": (5_386_792, 5.34),
    "mobilenet_v2_075": (2_636_424, 2.61),
    "mobilenet_v2_050": (1_968_680, 1.95),
    "mobilenet_v2_035": (1_677_128, 1.66),
}
"""Trainable parameters with 1000 classes, as Keras's applications count them; and millions as the
pages of TF-Slim say: mobilenet_v1.md counts all variables but the gammas, mobilenet/README.md
weights and biases without batch norm."""

DAISY = 986
"""The class of daisies in weights that know 1001 classes: ImageNet's 985 and the background."""

V1_BLOCKS = [  # depthwise size, channels in, channels out; Howard et al. 2017, table 1
    (112, 32, 64),
    (56, 64, 128),
    (56, 128, 128),
    (28, 128, 256),
    (28, 256, 256),
    (14, 256, 512),
    *[(14, 512, 512)] * 5,
    (7, 512, 1024),
    (7, 1024, 1024),
]
V2_BLOCKS = [  # size in, size out, inner channels, channels out; Sandler et al. 2018, table 2
    (112, 112, None, 16),
    (112, 56, 96, 24),
    (56, 56, 144, 24),
    (56, 28, 144, 32),
    *[(28, 28, 192, 32)] * 2,
    (28, 14, 192, 64),
    *[(14, 14, 384, 64)] * 3,
    (14, 14, 384, 96),
    *[(14, 14, 576, 96)] * 2,
    (14, 7, 576, 160),
    *[(7, 7, 960, 160)] * 2,
    (7, 7, 960, 320),
]


@cache
def built(name, classes=1000):
    """The net in evaluation mode; its graph, its variables and those that train."""
    v1 = load_tensorflow().compat.v1
    size = QUICK.get(name, 64)
    with v1.Graph().as_default() as graph:
        images = v1.placeholder(v1.float32, [None, size, size, 3], "images")
        net = build_net(name, images, classes)
        return graph, net, v1.global_variables(), v1.trainable_variables()


def shapes(name):
    end_points = built(name)[1].end_points
    return {name: tuple(tensor.shape.as_list()[1:]) for name, tensor in end_points.items()}


def drawn(variables, seed=5):
    """Values that keep activations of the order of one through all layers."""
    generator = np.random.default_rng(seed)
    values = {}
    for variable in variables:
        name, shape = variable.op.name, variable.shape.as_list()
        fan_in = math.prod(shape[:-1]) if "depthwise" not in name else math.prod(shape[:2])
        value = generator.normal(0, 1, shape)
        if name.endswith("weights"):
            value *= math.sqrt(2 / fan_in)
        elif name.endswith(("gamma", "moving_variance")):
            value = generator.uniform(0.7, 1.4, shape)
        else:
            value *= 0.1
        values[name] = value.astype(np.float32)
    return values


def pictures(name, count):
    size = QUICK.get(name, 64)
    return np.random.default_rng(count).uniform(-1, 1, (count, size, size, 3)).astype(np.float32)


def answers(name, values, images):
    """What the net says with these values of its variables."""
    graph, net, variables, _ = built(name)
    v1 = load_tensorflow().compat.v1
    with v1.Session(graph=graph) as session:
        feeds = {v.initializer.inputs[1]: values[v.op.name] for v in variables}
        session.run([v.initializer for v in variables], feeds)
        return session.run(net.logits, {"images:0": images})


def test_every_end_point_of_v1_has_its_shape():
    expected = {"Conv2d_0": (112, 112, 32)}
    for number, (size, before, after) in enumerate(V1_BLOCKS, start=1):
        expected[f"Conv2d_{number}_depthwise"] = (size, size, before)
        expected[f"Conv2d_{number}_pointwise"] = (size, size, after)
    expected |= {"AvgPool_1a": (1, 1, 1024), "Logits": (1000,), "Predictions": (1000,)}
    found = shapes("mobilenet_v1")
    assert found == expected
    assert list(found) == list(expected)


def test_every_end_point_of_v2_has_its_shape():
    expected = {"layer_1": (112, 112, 32)}
    for number, (before, after, inner, channels) in enumerate(V2_BLOCKS, start=2):
        if inner is not None:
            expected[f"layer_{number}/expansion_output"] = (before, before, inner)
        expected[f"layer_{number}/depthwise_output"] = (after, after, inner or 32)
        expected[f"layer_{number}"] = (after, after, channels)
        expected[f"layer_{number}/output"] = (after, after, channels)
    expected |= {"layer_19": (7, 7, 1280), "global_pool": (1, 1, 1280)}
    expected |= {"Logits": (1000,), "Predictions": (1000,)}
    found = shapes("mobilenet_v2")
    assert found == expected
    assert list(found) == list(expected)


def test_a_narrow_v1_is_as_wide_as_tf_slims():
    """The widths that TF-Slim's mobilenet_v1_test.py has for 0.75 at 128 pixels, at a third."""
    found = shapes("mobilenet_v1_025")
    assert found["Conv2d_0"] == (64, 64, 8)
    assert found["Conv2d_1_pointwise"] == (64, 64, 16)
    assert found["Conv2d_5_pointwise"] == (16, 16, 64)
    assert found["Conv2d_11_pointwise"] == (8, 8, 128)
    assert found["Conv2d_13_pointwise"] == (4, 4, 256)


def test_channels_of_a_narrow_v2_are_multiples_of_8_and_the_last_convolution_stays_wide():
    found = shapes("mobilenet_v2_035")
    channels = [found[f"layer_{number}"][2] for number in range(1, 20)]
    assert channels == [16, 8, 8, 8, 16, 16, 16, *[24] * 4, *[32] * 3, *[56] * 3, 112, 1280]
    assert found["layer_5/expansion_output"] == (24, 24, 48)
    assert found["layer_18/output"] == (3, 3, 112)


@pytest.mark.long
def test_a_wide_v2_has_a_wider_last_convolution():
    found = shapes("mobilenet_v2_140")
    assert found["layer_1"] == (32, 32, 48)
    assert found["layer_2"] == (32, 32, 24)
    assert found["layer_18"] == (2, 2, 448)
    assert found["global_pool"] == (1, 1, 1792)


@pytest.mark.parametrize("name", ALL)
def test_it_has_as_many_parameters_as_keras_and_the_pages_of_tf_slim_count(name):
    _, _, variables, trainable = built(name)

    def count(chosen):
        return sum(math.prod(variable.shape.as_list()) for variable in chosen)

    if name.startswith("mobilenet_v1"):
        counted = [v for v in variables if not v.op.name.endswith("gamma")]
    else:
        counted = [v for v in variables if "/BatchNorm/" not in v.op.name]
    assert (count(trainable), round(count(counted) / 1e6, 2)) == PARAMETERS[name]


def test_the_variables_have_the_names_of_the_published_checkpoints():
    """As spelt in mobilenet_v1_1.0_224 and in lists of mobilenet_v2_1.0_224's variables."""
    v1 = ["Conv2d_0/weights"]
    for number in range(1, 14):
        v1 += [f"Conv2d_{number}_depthwise/depthwise_weights", f"Conv2d_{number}_pointwise/weights"]
    v2 = ["Conv/weights"]
    for number in range(17):
        block = f"expanded_conv_{number}" if number else "expanded_conv"
        v2 += [f"{block}/expand/weights"] * (number > 0)
        v2 += [f"{block}/depthwise/depthwise_weights", f"{block}/project/weights"]
    v2 += ["Conv_1/weights"]
    norm = ("gamma", "beta", "moving_mean", "moving_variance")
    for net, scope, layers in (
        ("mobilenet_v1", "MobilenetV1", v1),
        ("mobilenet_v2", "MobilenetV2", v2),
    ):
        expected = {f"{scope}/Logits/Conv2d_1c_1x1/{part}" for part in ("weights", "biases")}
        for layer in layers:
            above = layer.rpartition("/")[0]
            expected |= {f"{scope}/{layer}", *(f"{scope}/{above}/BatchNorm/{n}" for n in norm)}
        found = [variable.op.name for variable in built(net)[2]]
        assert set(found) == expected
        assert len(found) == len(expected) == (137 if net == "mobilenet_v1" else 262)


def in_the_order_of_keras(values):
    """Layer by layer as they are built: kernel and biases, then the batch norm behind."""
    parts = ("weights", "depthwise_weights", "biases")
    norm = ("gamma", "beta", "moving_mean", "moving_variance")
    ordered = []
    for layer in dict.fromkeys(re.sub("(/BatchNorm)?/[^/]*$", "", name) for name in values):
        names = [f"{layer}/{part}" for part in parts] + [f"{layer}/BatchNorm/{n}" for n in norm]
        ordered += [values[name] for name in names if name in values]
    return ordered


@pytest.mark.parametrize("name", NARROWEST_V2)
def test_it_answers_like_the_net_of_keras_with_the_same_weights(name):
    """Keras's own builders are the independent side; the layers stand in the same order."""
    from tf_keras.src.applications import mobilenet, mobilenet_v2

    v1 = load_tensorflow().compat.v1
    make = mobilenet.MobileNet if "_v1" in name else mobilenet_v2.MobileNetV2
    values = drawn(built(name)[2])
    images = pictures(name, 3)
    with v1.Graph().as_default(), v1.Session() as session:
        theirs = make(
            input_shape=images.shape[1:],
            alpha=NETS[name].depth_multiplier,
            weights=None,
            classes=1000,
            classifier_activation=None,
        )
        feeds = {
            weight.initializer.inputs[1]: value.reshape(weight.shape.as_list())
            for weight, value in zip(theirs.weights, in_the_order_of_keras(values), strict=True)
        }
        session.run([weight.initializer for weight in theirs.weights], feeds)
        expected = session.run(theirs.output, {theirs.input: images})
    assert expected.std() > 0.1
    np.testing.assert_allclose(answers(name, values, images), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NARROW)
def test_every_batch_norm_folds_into_the_convolution_before_it(name, tmp_path):
    graph, net, variables, _ = built(name)
    values = drawn(variables)
    checkpoints.write(tmp_path / "net.ckpt", values)
    done = exporters.convert(
        tmp_path / "net.ckpt",
        tmp_path / "folded.pb",
        graph=graph.as_graph_def(),
        outputs=[net.logits.name],
        options=ModelOptions(optimize=True),
    )
    folded = "27" if name.startswith("mobilenet_v1") else "52"
    assert any(f"{folded} batch norms folded" in note for note in done.notes)
    assert not any("BatchNorm" in node.op for node in read_graph(done.path).nodes.values())
    assert (done.verification.mode, done.verification.passed) == ("run", True)


def test_v1_with_thawed_weights_answers_like_the_published_graph_and_knows_daisies(
    shared, tmp_path
):
    source = shared / "data/models/mobilenet_v1_1.0_224/frozen.pb"
    files = sorted((shared / "data/flowers12/test/daisy").iterdir())[:8]
    images = np.stack([np.asarray(Image.open(file), np.float32) / 127.5 - 1 for file in files])
    thawed = exporters.thaw(source, tmp_path / "mobilenet.ckpt").path
    graph, net, _, _ = built("mobilenet_v1", 1001)
    v1 = load_tensorflow().compat.v1
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.train.Saver().restore(session, str(thawed))
        ours = session.run(net.logits, {"images:0": images})
    with GraphRunner(source, ["input"], ["MobilenetV1/Predictions/Reshape"]) as runner:
        theirs = np.concatenate([runner.run(image[None])[0] for image in images])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert (ours.argmax(1) == DAISY).all()
