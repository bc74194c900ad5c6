"""Whole nets, saved as people train them, become frozen graphs that answer like their evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import exporters
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow
from finetune.slim import load_slim

pytestmark = pytest.mark.tensorflow

CLASSES = 7
BATCH = 4
PICTURES = 64
OTHER_BATCHES = (3, 32)


class Answers(NamedTuple):
    """What a net built for evaluation answers.

    Attributes:
      logits: float32 [pictures, classes].
      probabilities: float32 [pictures, classes].
    """

    logits: np.ndarray
    probabilities: np.ndarray


Net = Callable[[Any, bool], tuple[Any, dict[str, Any]]]


def inception_v3(depth_multiplier: float) -> Net:
    def net(images: Any, training: bool) -> tuple[Any, dict[str, Any]]:
        from tf_slim.nets import inception_v3 as inception

        slim = load_slim()
        norm = {"decay": 0.5, "epsilon": 0.001, "updates_collections": "update_ops"}
        with (
            slim.arg_scope(
                [slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(4e-5)
            ),
            slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=norm),
        ):
            return inception.inception_v3(
                images, CLASSES, is_training=training, depth_multiplier=depth_multiplier
            )

    return net


def resnet_v2_50(images: Any, training: bool) -> tuple[Any, dict[str, Any]]:
    from tf_slim.nets import resnet_v2

    return resnet(images, training, resnet_v2.resnet_v2_50)


def resnet_v2_8(images: Any, training: bool) -> tuple[Any, dict[str, Any]]:
    """The first and the last block of four, of one unit and a narrower one."""
    from tf_slim.nets import resnet_v2

    def build(images: Any, num_classes: None, is_training: bool) -> tuple[Any, dict[str, Any]]:
        blocks = [
            resnet_v2.resnet_v2_block("block1", base_depth=16, num_units=1, stride=2),
            resnet_v2.resnet_v2_block("block4", base_depth=32, num_units=1, stride=1),
        ]
        return resnet_v2.resnet_v2(
            images, blocks, num_classes, is_training, include_root_block=True
        )

    return resnet(images, training, build)


def resnet(images: Any, training: bool, build: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    from tf_slim.nets import resnet_utils

    slim = load_slim()
    with slim.arg_scope(resnet_utils.resnet_arg_scope(batch_norm_decay=0.5)):
        net, end_points = build(images, None, is_training=training)
        net = load_tensorflow().squeeze(net, [1, 2])
        net = slim.dropout(net, 0.8, is_training=training, scope="dropout")
        logits = slim.fully_connected(net, CLASSES, activation_fn=None, scope="logits")
    return logits, {**end_points, "Predictions": slim.softmax(logits, scope="predictions")}


def pictures(size: int, count: int, seed: int) -> np.ndarray:
    """Pictures that differ: colours, gradients and stripes; float32 [count, size, size, 3], -1 to 1."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:size, 0:size] / size
    made = []
    for _ in range(count):
        colour = generator.uniform(-0.6, 0.6, 3)
        slope = generator.uniform(-0.5, 0.5, (2, 3))
        stripes = np.sin(generator.uniform(2, 40) * (rows + generator.uniform(-1, 1) * columns))
        picture = colour + rows[..., None] * slope[0] + columns[..., None] * slope[1]
        made.append(picture + 0.3 * stripes[..., None])
    return np.clip(made, -1, 1).astype(np.float32)


def iterator_input(tf: Any, size: int) -> Any:
    """Pictures decoded from bytes, augmented, in batches, as tf.data gives them in training."""

    def load(seed: Any) -> Any:
        image = tf.random.uniform([size + 8, size + 8, 3], seed=1)
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, [size, size, 3]))
        return tf.image.random_brightness(image, 0.1) * 2.0 - 1.0, seed % CLASSES

    data = tf.data.Dataset.range(1000).shuffle(100).repeat().map(load)
    data = data.batch(BATCH, drop_remainder=True).prefetch(2)
    return tf.compat.v1.data.make_one_shot_iterator(data).get_next()


def build_training(tf: Any, net: Net, size: int) -> None:
    """Losses, RMSProp, updates in the train op, global step and summaries, as slim's scripts have."""
    v1 = tf.compat.v1
    slim = load_slim()
    step = v1.train.get_or_create_global_step()
    images, labels = iterator_input(tf, size)
    logits, end_points = net(images, True)
    one_hot = slim.one_hot_encoding(labels, CLASSES)
    if "AuxLogits" in end_points:
        v1.losses.softmax_cross_entropy(
            one_hot, end_points["AuxLogits"], label_smoothing=0.1, weights=0.4, scope="aux_loss"
        )
    v1.losses.softmax_cross_entropy(one_hot, logits, label_smoothing=0.1)
    for name, tensor in end_points.items():
        v1.summary.histogram(f"activations/{name}", tensor)
        v1.summary.scalar(f"sparsity/{name}", tf.math.zero_fraction(tensor))
    for loss in v1.losses.get_losses():
        v1.summary.scalar(f"losses/{loss.op.name}", loss)
    rate = v1.train.exponential_decay(0.01, step, 100, 0.94, staircase=True)
    v1.summary.scalar("learning_rate", rate)
    optimizer = v1.train.RMSPropOptimizer(rate, decay=0.9, momentum=0.9, epsilon=1.0)
    slim.learning.create_train_op(v1.losses.get_total_loss(), optimizer, step)
    v1.summary.merge_all()


def train(directory: Path, net: Net, size: int) -> tuple[Path, Answers]:
    """Saves a training graph whose net tells pictures apart; also the evaluation net's answers."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    prefix = directory / "model.ckpt"
    evaluation = tf.Graph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with evaluation.as_default():
            x = v1.placeholder(tf.float32, [None, size, size, 3])
            logits, end_points = net(x, False)
            probabilities = end_points["Predictions"]
            evaluation_saver = v1.train.Saver()
        batch = pictures(size, PICTURES, 1)

        def evaluate() -> Answers:
            with v1.Session(graph=evaluation) as session:
                evaluation_saver.restore(session, str(prefix))
                return Answers(*session.run([logits, probabilities], {x: batch}))

        training = tf.Graph()
        with training.as_default():
            v1.set_random_seed(3)
            build_training(tf, net, size)
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
            images = training.get_tensor_by_name("IteratorGetNext:0")
            heads = [
                v
                for v in v1.trainable_variables()
                if v.shape[-1] == CLASSES and len(v.shape) in (1, 4)
            ]
            saver = v1.train.Saver()
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                for seed in range(6):
                    # A decay of 0.5: the averages come close to what the pictures have.
                    session.run(updates, {images: pictures(size, BATCH, seed)})
                for variable in heads:
                    wide = np.random.default_rng(5).normal(0, 1, variable.shape)
                    variable.load(wide.astype(np.float32), session)
                saver.save(session, str(prefix))
                centre = evaluate().logits.reshape(PICTURES, CLASSES).mean(axis=0)
                for variable in heads:
                    if len(variable.shape) == 1:
                        variable.load(session.run(variable) - centre, session)
                saver.save(session, str(prefix))
        return prefix, evaluate()


def check(directory: Path, net: Net, size: int) -> exporters.conversion.Conversion:
    prefix, expected = train(directory, net, size)
    assert len(set(expected.logits.reshape(PICTURES, CLASSES).argmax(axis=1))) >= 3
    done = exporters.convert(prefix, directory / "m.pb")
    assert done.inputs[0].as_json() == {
        "name": "IteratorGetNext:0",
        "dtype": "float32",
        "shape": [None, size, size, 3],
    }
    assert len(done.inputs) == len(done.outputs) == 1
    assert done.outputs[0].shape == (None, CLASSES)
    assert (done.verification.mode, done.verification.top1_agreement) == ("run", 1.0)
    output = done.outputs[0].name
    before = read_graph(done.path).nodes
    softmax = output.partition(":")[0]
    while before[softmax].op != "Softmax":
        softmax = before[softmax].input[0]
    logits = f"{before[softmax].input[0]}:0"
    batch = pictures(size, PICTURES, 1)
    correct = expected.logits.reshape(PICTURES, CLASSES)
    for batch_size in OTHER_BATCHES:
        answers, scores = run(done.path, batch, batch_size, [output, logits])
        np.testing.assert_allclose(scores, correct, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(answers, expected.probabilities, rtol=1e-3, atol=1e-5)
        assert (answers.argmax(axis=1) == correct.argmax(axis=1)).all()
    return done


def run(path: Path, images: np.ndarray, batch_size: int, fetches: list[str]) -> list[np.ndarray]:
    """What TensorFlow itself gets from a .pb for all pictures, so many at a time."""
    tf = load_tensorflow()
    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session() as session:
            parts = [
                session.run(fetches, {"IteratorGetNext:0": images[start : start + batch_size]})
                for start in range(0, PICTURES, batch_size)
            ]
    return [
        np.concatenate(values).reshape(PICTURES, CLASSES) for values in zip(*parts, strict=True)
    ]


@pytest.mark.parametrize(
    ("net", "size"),
    [
        pytest.param(resnet_v2_8, 49, id="resnet_v2_8"),
        pytest.param(inception_v3(0.25), 149, id="inception_v3", marks=pytest.mark.long),
        pytest.param(resnet_v2_50, 49, id="resnet_v2_50", marks=pytest.mark.long),
        pytest.param(inception_v3(1.0), 299, id="inception_v3-full", marks=pytest.mark.long),
        pytest.param(resnet_v2_50, 224, id="resnet_v2_50-full", marks=pytest.mark.long),
    ],
)
def test_a_training_meta_of_slims_nets(tmp_path, net, size):
    done = check(tmp_path, net, size)
    assert any("batch norms normalise with their moving averages" in note for note in done.notes)
    assert any("dropout taken out" in note for note in done.notes)


def lenet(images: Any, training: bool) -> Any:
    """784 -> 5x5x32 -> pool -> 5x5x64 -> pool -> 1024 -> dropout -> 10, as written by hand."""
    tf = load_tensorflow()
    v1 = tf.compat.v1

    def variables(*shape: int) -> tuple[Any, Any]:
        weights = v1.get_variable(
            "weights", shape, initializer=v1.truncated_normal_initializer(stddev=0.1)
        )
        biases = v1.get_variable("biases", shape[-1:], initializer=v1.constant_initializer(0.1))
        v1.add_to_collection("losses", 0.001 * tf.nn.l2_loss(weights))
        return weights, biases

    net = tf.reshape(images, [-1, 28, 28, 1])
    for name, channels in (("layer1", (1, 8)), ("layer2", (8, 16))):
        with v1.variable_scope(name):
            weights, biases = variables(5, 5, *channels)
            net = tf.nn.relu(tf.nn.conv2d(net, weights, 1, "SAME") + biases)
            net = tf.nn.max_pool2d(net, 2, 2, "SAME")
    with v1.variable_scope("dense"):
        weights, biases = variables(784, 64)
        net = tf.nn.relu(tf.matmul(tf.reshape(net, [-1, 784]), weights) + biases)
    if training:
        # floor(keep + noise) as tf.nn.dropout was until TensorFlow 1.12.
        keep = v1.placeholder(tf.float32)
        noise = v1.random_uniform(tf.shape(net), dtype=net.dtype)
        net = v1.div(net, keep) * tf.floor(keep + noise)
    with v1.variable_scope("softmax_linear"):
        weights, biases = variables(64, 10)
        return tf.add(tf.matmul(net, weights), biases, name="logits")


def test_a_net_trained_from_a_queue_of_records(tmp_path):
    """The notes' LeNet-5: TFRecord reader, shuffle_batch, dropout with a fed share, Adam."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    generator = np.random.default_rng(0)
    # A bright bar whose place is the class, over noise: learnt in a few steps.
    images = generator.integers(0, 80, (PICTURES, 28, 28), dtype=np.uint8)
    for index, image in enumerate(images):
        first = 2 + index % 10 * 2
        image[:, first : first + 2] = 255
    images = images.reshape(PICTURES, 784)
    with tf.io.TFRecordWriter(str(tmp_path / "mnist.tfrecord")) as writer:
        for index, image in enumerate(images):
            feature = {
                "image_raw": tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[image.tobytes()])
                ),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[index % 10])),
            }
            features = tf.train.Features(feature=feature)
            writer.write(tf.train.Example(features=features).SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tf.Graph().as_default():
            v1.set_random_seed(1)
            files = v1.train.string_input_producer([str(tmp_path / "mnist.tfrecord")])
            _, serialized = v1.TFRecordReader().read(files)
            fields = {
                "image_raw": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64),
            }
            example = tf.io.parse_single_example(serialized, fields)
            pixels = tf.io.decode_raw(example["image_raw"], tf.uint8)
            pixels.set_shape([784])
            pixels = tf.cast(pixels, tf.float32) / 255.0 - 0.5
            batch, labels = v1.train.shuffle_batch(
                [pixels, example["label"]], BATCH, 20 * BATCH, min_after_dequeue=10
            )
            logits = lenet(batch, True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
            step = v1.train.get_or_create_global_step()
            total = loss + tf.add_n(v1.get_collection("losses"))
            train_op = v1.train.AdamOptimizer(3e-3).minimize(total, step)
            keep = next(
                n
                for n in tf.compat.v1.get_default_graph().get_operations()
                if n.type == "Placeholder"
            ).outputs[0]
            saver = v1.train.Saver()
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                coordinator = tf.train.Coordinator()
                threads = v1.train.start_queue_runners(session, coordinator)
                for _ in range(100):
                    session.run(train_op, {keep: 0.5})
                saver.save(session, str(tmp_path / "model.ckpt"), step)
                coordinator.request_stop()
                coordinator.join(threads)
        with tf.Graph().as_default():
            x = v1.placeholder(tf.float32, [None, 784])
            logits = lenet(x, False)
            with v1.Session() as session:
                v1.train.Saver().restore(session, str(tmp_path / "model.ckpt-100"))
                pictures = images.astype(np.float32) / 255.0 - 0.5
                expected = session.run(logits, {x: pictures})
    assert len(set(expected.argmax(axis=1))) >= 3
    done = exporters.convert(tmp_path / "model.ckpt-100", tmp_path / "m.pb")
    assert done.inputs[0].as_json() == {
        "name": "shuffle_batch:0",
        "dtype": "float32",
        "shape": [None, 784],
    }
    assert [endpoint.name for endpoint in done.inputs] == ["shuffle_batch:0"]
    assert done.outputs[0].name == "softmax_linear/logits:0"
    graph_def = v1.GraphDef.FromString(done.path.read_bytes())
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with v1.Session() as session:
            for size in (1, PICTURES):
                found = session.run(done.outputs[0].name, {"shuffle_batch:0": pictures[:size]})
                np.testing.assert_allclose(found, expected[:size], rtol=1e-4, atol=1e-5)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
