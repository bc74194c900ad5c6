"""The small nets for digits: shapes, counts, initial values, losses, and answers by hand."""

import numpy as np
import pytest

from checkpoints.published import get_net
from exporters.graph import as_graph
from exporters.names import tensor_of
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.nets import build_net, inference_graph
from finetune.training.graph import build_training_net
from finetune.training.losses import Target, total_loss
from finetune.training.phases import make_phases

pytestmark = pytest.mark.tensorflow

VARIABLES = {
    "softmax": {"MnistSoftmax/Logits/weights": [784, 10], "MnistSoftmax/Logits/biases": [10]},
    "mlp": {
        "MnistMlp/layer1/weights": [784, 50],
        "MnistMlp/layer1/biases": [50],
        "MnistMlp/layer2/weights": [50, 10],
        "MnistMlp/layer2/biases": [10],
    },
    "lenet": {
        "MnistLenet/conv1/weights": [5, 5, 1, 32],
        "MnistLenet/conv1/biases": [32],
        "MnistLenet/conv2/weights": [5, 5, 32, 64],
        "MnistLenet/conv2/biases": [64],
        "MnistLenet/fc3/weights": [3136, 1024],
        "MnistLenet/fc3/biases": [1024],
        "MnistLenet/fc4/weights": [1024, 10],
        "MnistLenet/fc4/biases": [10],
    },
}
PARAMETERS = {"softmax": 7_850, "mlp": 39_760, "lenet": 3_274_634}
END_POINTS = {
    "softmax": {"Flatten": [784]},
    "mlp": {"layer1": [50]},
    "lenet": {
        "conv1": [28, 28, 32],
        "pool1": [14, 14, 32],
        "conv2": [14, 14, 64],
        "pool2": [7, 7, 64],
        "fc3": [1024],
    },
}
ANSWERS = {"Logits": [10], "Predictions": [10]}
PICTURES = np.random.default_rng(5).random((3, 28, 28, 1), np.float32)


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_end_points_and_parameters(name):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default():
        built = build_net(f"mnist_{name}", v1.placeholder(v1.float32, [None, 28, 28, 1]), 10)
        variables = {v.op.name: v.shape.as_list() for v in v1.trainable_variables()}
        assert len(v1.global_variables()) == len(variables)
        assert v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES) == []
    assert variables == VARIABLES[name]
    assert sum(int(np.prod(shape)) for shape in variables.values()) == PARAMETERS[name]
    shapes = {name: end.shape.as_list()[1:] for name, end in built.end_points.items()}
    assert shapes == {**END_POINTS[name], **ANSWERS}
    assert built.bottleneck is built.end_points[get_net(f"mnist_{name}").bottleneck]


@pytest.mark.parametrize("name", VARIABLES)
def test_the_inference_graph_takes_pictures_of_one_channel(name):
    found = inference_graph(f"mnist_{name}", 10)
    assert as_graph(found.graph_def).shape(tensor_of(found.input)) == (None, 28, 28, 1)


@pytest.mark.parametrize("name", VARIABLES)
def test_initial_values(name):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        build_net(f"mnist_{name}", v1.placeholder(v1.float32, [None, 28, 28, 1]), 10)
        session.run(v1.global_variables_initializer())
        values = {v.op.name: session.run(v) for v in v1.trainable_variables()}
    for variable, value in values.items():
        if name == "softmax":
            assert not value.any()
        elif variable.endswith("biases"):
            assert (value == np.float32(0.1)).all()
        else:
            # A normal distribution of deviation 0.1, cut at two of them, deviates by 0.088.
            assert abs(value).max() <= 0.2
            assert value.std() == pytest.approx(0.088, rel=0.1)
            assert abs(value.mean()) < 0.01


@pytest.fixture
def training():
    """Builds a net in training mode; gives the loss of one batch and the variables' values."""

    def training(name, **options):
        tf = load_tensorflow()
        v1 = tf.compat.v1
        net = get_net(name)
        options = {"trainable": ("all",), "weight_decay": 0.0, "dropout": None, **options}
        config = TrainConfig(data="d", run="r", **options)
        (phase,) = make_phases(config, net, 10, 100)
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(2)
            built = build_training_net(net, tf.constant(PICTURES), 10, phase, config)
            variables = v1.trainable_variables()
            target = Target(tf.constant([1, 7, 7], tf.int64), 10)
            loss = total_loss(built, target, phase.trainable, variables, config)
            session.run(v1.global_variables_initializer())
            found, logits = session.run([loss, built.logits])
            values = {v.op.name: session.run(v) for v in variables}
        return found, logits, values

    return training


def cross_entropy(logits):
    shifted = logits - logits.max(1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -logarithms[np.arange(3), [1, 7, 7]].mean()


def test_the_loss_of_the_mlp_holds_l2_of_both_layers_once(training):
    loss, logits, values = training("mnist_mlp")
    squares = sum(
        (values[f"MnistMlp/{layer}/weights"] ** 2).sum() for layer in ("layer1", "layer2")
    )
    assert loss == pytest.approx(cross_entropy(logits) + 0.001 / 2 * squares, rel=1e-5)


@pytest.mark.parametrize("name", ["mnist_softmax", "mnist_lenet"])
def test_the_loss_of_the_others_is_the_cross_entropy_alone(name, training):
    loss, logits, _ = training(name)
    assert loss == pytest.approx(cross_entropy(logits), rel=1e-5)


def test_lenet_drops_half_in_training_where_it_trains_and_nothing_else(training):
    plain = training("mnist_lenet", dropout=0.0)[1]
    assert not np.allclose(training("mnist_lenet")[1], plain)
    head = ("MnistLenet/fc4",)
    assert not np.allclose(training("mnist_lenet", trainable=head)[1], plain)
    trunk = ("MnistLenet/conv1",)
    np.testing.assert_array_equal(training("mnist_lenet", trainable=trunk)[1], plain)


def relu(values):
    return np.maximum(values, 0)


def convolved(images, kernel):
    """[batch, height, width, in] by [5, 5, in, out], padded with zeros."""
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    found = np.zeros((*images.shape[:3], kernel.shape[3]))
    for row in range(5):
        for column in range(5):
            part = padded[:, row : row + height, column : column + width]
            found += part @ kernel[row, column]
    return found


def pooled(images):
    batch, height, width, channels = images.shape
    return images.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def by_hand(name, values):
    """Logits in float64, by numpy alone."""
    v = {path.partition("/")[2]: value.astype(np.float64) for path, value in values.items()}
    net = PICTURES.astype(np.float64)
    if name == "lenet":
        for layer in ("conv1", "conv2"):
            net = pooled(relu(convolved(net, v[f"{layer}/weights"]) + v[f"{layer}/biases"]))
    net = net.reshape(3, -1)
    *hidden, last = [
        layer for layer in ("layer1", "fc3", "layer2", "fc4", "Logits") if f"{layer}/biases" in v
    ]
    for layer in hidden:
        net = relu(net @ v[f"{layer}/weights"] + v[f"{layer}/biases"])
    return net @ v[f"{last}/weights"] + v[f"{last}/biases"]


@pytest.mark.parametrize("name", VARIABLES)
def test_the_answers_are_those_of_the_formulas(name):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        built = build_net(f"mnist_{name}", v1.constant(PICTURES), 10)
        variables = v1.trainable_variables()
        random = np.random.default_rng(3)
        values = {
            v.op.name: random.normal(0, 0.1, v.shape.as_list()).astype(np.float32)
            for v in variables
        }
        session.run(
            [v.initializer for v in variables],
            {v.initializer.inputs[1]: values[v.op.name] for v in variables},
        )
        logits, probabilities = session.run([built.logits, built.predictions])
    expected = by_hand(name, values)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    shares = np.exp(expected - expected.max(1, keepdims=True))
    np.testing.assert_allclose(probabilities, shares / shares.sum(1, keepdims=True), atol=1e-4)
