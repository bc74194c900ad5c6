"""Every net in the style of tf_slim.nets: trained a step, exchanged with TensorFlow, frozen, exported."""

import dataclasses
import gc

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.published import NETS
from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.nets import inference_graph
from finetune.training.graph import build_training_net, build_training_step
from finetune.training.losses import Target
from finetune.training.phases import make_phases

pytestmark = pytest.mark.tensorflow

NARROW = "inception_v2_narrow"
QUICK = [("mobilenet_v1_025", 33)]
LONG = [
    (NARROW, 33),
    ("inception_v1", 193),
    ("inception_v2", 65),
    ("inception_v3", 107),
    ("inception_v4", 107),
    ("inception_resnet_v2", 107),
    *((f"resnet_v{version}_{depth}", 33) for version in (1, 2) for depth in (50, 101, 152, 200)),
    *((f"vgg_{depth}", 224) for depth in ("a", 16, 19)),
    ("alexnet_v2", 195),
    ("overfeat", 231),
    *((f"mobilenet_{net}", 64) for net in ("v1", "v1_075", "v1_050", "v2", "v2_140", "v2_130")),
    *((f"mobilenet_{net}", 64) for net in ("v2_075", "v2_050", "v2_035")),
]
"""Nets, and the pictures they get: the smallest that they can be built for, or small ones."""

FROZEN_ALONE = ("vgg_a", "vgg_16", "vgg_19", "overfeat")
"""Half a gigabyte of weights and more, for which tf2onnx takes over 24 GB of memory and the TFLite
converter 14: these end with the frozen graph."""

CASES = [
    *(pytest.param(*case, id=case[0]) for case in QUICK),
    *(pytest.param(*case, id=case[0], marks=pytest.mark.long) for case in LONG),
]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Inception-v2 with an eighth of its channels, registered for one test."""
    record = dataclasses.replace(NETS["inception_v2"], name=NARROW, depth_multiplier=0.125)
    monkeypatch.setitem(NETS, NARROW, record)


@pytest.fixture(autouse=True)
def collected():
    """Graphs refer to themselves; left to Python, those of large nets would add up to 20 GB."""
    yield
    gc.collect()


@pytest.mark.parametrize(("net", "size"), CASES)
def test_a_net_trains_a_step_exchanges_checkpoints_with_tensorflow_and_exports(net, size, tmp_path):
    theirs, ours = tmp_path / "theirs.ckpt", tmp_path / "ours.ckpt"
    train_a_step(net, size, theirs, ours)
    graph = inference_graph(net, 2, size)
    frozen = exporters.convert(
        *(ours, tmp_path / "model.pb"),
        graph=graph.graph_def,
        outputs=[graph.probabilities],
        verify="run",
    )
    assert frozen.verification.passed
    assert frozen.verification.top1_agreement == 1.0
    for form in () if net in FROZEN_ALONE else ("tflite", "onnx"):
        done = exporters.convert(frozen.path, tmp_path / f"model.{form}")
        assert (done.verification.mode, done.verification.passed) == ("run", True), form
        assert done.verification.top1_agreement == 1.0, form
        done.path.unlink()


def train_a_step(net, size, theirs, ours):
    """Trains on two pictures, has TensorFlow save a V1 checkpoint and restore the V2 we make of it."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    # Averages of the batch's own, and hardly other weights: else deep nets answer with infinity.
    options = {"learning_rate": 1e-4, "batch_norm_decay": 0.01, "optimizer": "sgd"}
    config = TrainConfig(data="d", run="r", trainable=("all",), batch_size=2, **options)
    (phase,) = make_phases(config, NETS[net], 1, 2)
    pictures = np.random.default_rng(1).uniform(-1, 1, (2, size, size, 3)).astype(np.float32)
    with tf.Graph().as_default():
        v1.set_random_seed(7)
        images = v1.placeholder(tf.float32, pictures.shape)
        built = build_training_net(NETS[net], images, 2, phase, config)
        trained = v1.trainable_variables()
        target = Target(tf.constant([0, 1], tf.int64), 2)
        step = build_training_step(built, target, phase, trained, config)
        variables = v1.global_variables()
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1)
        with v1.Session() as session:
            session.run([variable.initializer for variable in variables])
            head = [v for v in trained if v.op.name.startswith(NETS[net].main_head)]
            before = session.run(head)
            assert np.isfinite(session.run(step.train, {images: pictures}))
            values = session.run(variables)
            after = {v.op.name: value for v, value in zip(variables, values, strict=True)}
            assert not any(map(np.array_equal, before, [after[v.op.name] for v in head]))
            saver.save(session, str(theirs), write_meta_graph=False)
        with checkpoints.open(theirs) as saved:
            assert set(saved) == {variable.op.name for variable in variables}
            checkpoints.write(ours, saved, version="v2")
        theirs.unlink()
        with v1.Session() as session:
            saver.restore(session, str(ours))
            restored = session.run(variables)
        assert all(map(np.array_equal, restored, values))
