"""A tiny net and tiny pictures, so that training takes a second."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from checkpoints.published import NETS, Net, Paper

TINY = Net(
    name="tiny",
    builder="slimtune_tiny_net:build",
    scope="Tiny",
    image_size=16,
    preprocessing="inception",
    main_head="Tiny/Logits",
    auxiliary_heads=("Tiny/AuxLogits",),
    bottleneck="PreLogits",
    logits="Logits",
    paper=Paper("none", "none", 2016),
)


def build_tiny_net(
    images, num_classes, is_training, *, dropout_keep_prob=0.9, depth_multiplier=1.0
):
    """Two convolutions with batch norm, a main and an auxiliary head; all of TF-Slim's layers."""
    from exporters.runtime import load_tensorflow
    from finetune.slim import load_slim

    tf, slim = load_tensorflow(), load_slim()
    with (
        tf.compat.v1.variable_scope("Tiny"),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
        slim.arg_scope([slim.batch_norm], decay=0.9),
        slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, stride=2),
    ):
        first = slim.conv2d(images, 8, [3, 3], scope="Conv2d_1")
        net = slim.conv2d(first, 16, [3, 3], scope="Conv2d_10")
        head = {"activation_fn": None, "normalizer_fn": None, "stride": 1}
        with tf.compat.v1.variable_scope("AuxLogits"):
            pooled = tf.reduce_mean(first, [1, 2], keepdims=True)
            aux = slim.conv2d(pooled, num_classes, [1, 1], scope="fc", **head)
        with tf.compat.v1.variable_scope("Logits"):
            pooled = tf.reduce_mean(net, [1, 2], keepdims=True)
            pooled = slim.dropout(pooled, dropout_keep_prob)
            logits = slim.conv2d(pooled, num_classes, [1, 1], scope="fc", **head)
    logits = tf.squeeze(logits, [1, 2])
    return logits, {
        "PreLogits": pooled,
        "Logits": logits,
        "AuxLogits": tf.squeeze(aux, [1, 2]),
    }


@pytest.fixture
def tiny_net(monkeypatch):
    """The net `tiny`, registered for one test."""
    return register_tiny_net(monkeypatch)


@pytest.fixture(scope="module")
def lasting_tiny_net():
    """The net `tiny`, registered for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        yield register_tiny_net(patch)


def register_tiny_net(patch):
    module = types.ModuleType("slimtune_tiny_net")
    module.build = build_tiny_net
    patch.setitem(sys.modules, "slimtune_tiny_net", module)
    patch.setitem(NETS, "tiny", TINY)
    return TINY


@pytest.fixture(scope="session")
def tiny_run(colours, tmp_path_factory):
    """A finished run of the tiny net, of one step, as it was made."""
    from finetune import TrainConfig, train

    run = tmp_path_factory.mktemp("tiny run") / "run"
    with pytest.MonkeyPatch.context() as patch:
        register_tiny_net(patch)
        train(TrainConfig(data=str(colours), run=str(run), net="tiny", checkpoint="none", steps=1))
    return run


@pytest.fixture
def run(tiny_run, tmp_path, tiny_net):
    """A finished run of the tiny net, of one step."""
    return shutil.copytree(tiny_run, tmp_path / "run")


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory):
    """A V2 checkpoint of the tiny net with 7 classes, written by TensorFlow's Saver."""
    from exporters.runtime import load_tensorflow
    from finetune.nets import build_net

    v1 = load_tensorflow().compat.v1
    path = tmp_path_factory.mktemp("tiny weights") / "tiny.ckpt"
    with (
        pytest.MonkeyPatch.context() as patch,
        v1.Graph().as_default(),
        v1.Session() as session,
    ):
        register_tiny_net(patch)
        v1.set_random_seed(11)
        build_net("tiny", v1.placeholder(v1.float32, [None, 16, 16, 3]), 7)
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(save_relative_paths=True)
        saver.save(session, str(path), write_meta_graph=False)
    return path


@pytest.fixture
def tiny_checkpoint(tiny_weights, tiny_net, tmp_path):
    """A copy of those weights, with the net `tiny` registered."""
    shutil.copytree(tiny_weights.parent, tmp_path / "weights")
    return tmp_path / "weights" / tiny_weights.name


class Forks:
    """Trainings in forks of one process that has everything loaded: forking_trainer.py."""

    def __init__(self, directory):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.errors = (directory / "errors.txt").open("w+")
        self.place = 0
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking_trainer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            text=True,
        )

    def begin(self, **options):
        """Begins one; gives its process number."""
        return self._begin(options, 1)[0]

    def begin_all(self, options):
        """Begins one for each; gives their process numbers."""
        return self._begin(options, len(options))

    def _begin(self, asked, count):
        self.place = self.errors.seek(0, os.SEEK_END)
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return [int(self.process.stdout.readline()) for _ in range(count)]

    def end(self):
        """Waits for the first that was not waited for; gives its exit status, negative for a signal."""
        return int(self.process.stdout.readline())

    def run(self, **options):
        self.begin(**options)
        return self.end()

    def said(self):
        """What those begun last wrote to stderr."""
        self.errors.seek(self.place)
        return self.errors.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    opened = Forks(tmp_path_factory.mktemp("forks"))
    yield opened
    opened.close()
