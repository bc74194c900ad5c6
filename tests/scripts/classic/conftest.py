"""Small graphs that TensorFlow made and saved, and flowers, as old scripts are given them."""

from __future__ import annotations

import importlib.util
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

PICTURES = np.random.default_rng(3).normal(size=(5, 6, 6, 1)).astype(np.float32)
FLOWERS = ("daisy", "dandelion", "roses", "sunflowers", "tulips")


@dataclass(frozen=True)
class Saved:
    """A graph with its checkpoint, all in one directory.

    Attributes:
      prefix: of the V2 checkpoint; its .meta lies beside it.
    """

    prefix: Path

    @property
    def directory(self) -> Path:
        return self.prefix.parent

    @property
    def text(self) -> Path:
        return self.directory / "graph.pbtxt"

    @property
    def binary(self) -> Path:
        return self.directory / "graph.pb"

    @property
    def v1(self) -> Path:
        return self.directory / "old.ckpt"


@pytest.fixture(scope="session")
def tf() -> Any:
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


def build_net(tf: Any, resource: bool = False) -> None:
    """`pictures` -> convolution, batch norm in inference mode, relu, dense `probabilities`."""
    v1 = tf.compat.v1
    random = np.random.default_rng(7)

    def variable(name: str, *shape: int, positive: bool = False) -> Any:
        value = random.normal(size=shape).astype(np.float32)
        return v1.get_variable(
            name, initializer=np.abs(value) + 0.5 if positive else value, use_resource=resource
        )

    pictures = v1.placeholder(tf.float32, [None, 6, 6, 1], name="pictures")
    with v1.variable_scope("body"):
        net = tf.nn.conv2d(pictures, variable("weights", 3, 3, 1, 4), 1, "SAME")
        net, _, _ = v1.nn.fused_batch_norm(
            net,
            variable("gamma", 4),
            variable("beta", 4),
            variable("mean", 4),
            variable("variance", 4, positive=True),
            is_training=False,
        )
        net = tf.debugging.check_numerics(tf.nn.relu(net), "not finite", name="checked")
    net = tf.reduce_mean(net, [1, 2], name="pooled")
    logits = tf.matmul(net, variable("head/weights", 4, 3)) + variable("head/biases", 3)
    tf.nn.softmax(tf.identity(logits, name="logits"), name="probabilities")


@pytest.fixture(scope="session")
def saved(tf: Any, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A net of reference variables, as V2 and V1 checkpoint, .meta, .pbtxt and .pb."""
    v1 = tf.compat.v1
    found = Saved(tmp_path_factory.mktemp("saved") / "model.ckpt")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        build_net(tf)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(found.prefix))
        v1.train.Saver(write_version=1).save(session, str(found.v1), write_meta_graph=False)
        message = graph.as_graph_def()
    found.binary.write_bytes(message.SerializeToString())
    found.text.write_text(str(message))
    return found


def answers(tf: Any, path: Path, output: str = "probabilities:0") -> np.ndarray:
    """What a frozen graph gives for PICTURES, run by TensorFlow alone."""
    v1 = tf.compat.v1
    message = v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(message, name="")
        return session.run(output, {"pictures:0": PICTURES})


@pytest.fixture(name="answers")
def answers_fixture() -> Any:
    return answers


@pytest.fixture(name="build_net")
def build_net_fixture() -> Any:
    return build_net


@pytest.fixture(scope="session")
def flowers_archive() -> bytes:
    """flower_photos.tgz: 16 JPEGs of 24 x 24, of one colour and some noise, for each kind."""
    random = np.random.default_rng(3)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for place, name in enumerate(FLOWERS):
            colour = np.array([(40, 200)[place >> bit & 1] for bit in range(3)])
            for number in range(16):
                pixels = colour + random.integers(-40, 40, (24, 24, 3))
                picture = io.BytesIO()
                Image.fromarray(pixels.astype(np.uint8)).save(picture, "JPEG", quality=95)
                member = tarfile.TarInfo(f"flower_photos/{name}/{number}.jpg")
                member.size = len(picture.getvalue())
                archive.addfile(member, io.BytesIO(picture.getvalue()))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def tiny_net() -> Any:
    """The net `tiny` of the tests of finetune, registered for the tests of a module."""
    path = Path(__file__).resolve().parents[2] / "finetune/conftest.py"
    spec = importlib.util.spec_from_file_location("slimtune_finetune_conftest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        yield module.register_tiny_net(patch)


@pytest.fixture
def write_v1(tmp_path: Path) -> Any:
    """Writes a V1 checkpoint of a net at random, as TensorFlow's Saver does; gives its path."""

    def write(net: str, size: int, classes: int, name: str) -> Path:
        from exporters.runtime import load_tensorflow
        from finetune.nets import build_net

        v1 = load_tensorflow().compat.v1
        path = tmp_path / "checkpoints" / name
        path.parent.mkdir()
        with v1.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(11)
            build_net(net, v1.placeholder(v1.float32, [None, size, size, 3]), classes)
            session.run(v1.global_variables_initializer())
            saver = v1.train.Saver(write_version=v1.train.SaverDef.V1)
            saver.save(session, str(path), write_meta_graph=False)
        return path

    return write
