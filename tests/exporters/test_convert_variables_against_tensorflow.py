"""TensorFlow's Saver restores what convert writes of what a Saver wrote, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from checkpoints import Slicing
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

VALUES = {
    "global_step": np.array(2**40, np.int64),
    "scalar": np.array(0.1, np.float32),
    "flag": np.array(True),
    "words": np.array([b"a", b"", b"long" * 90, b"\0x"], object),
    "empty": np.zeros((3, 0), np.float32),
    "net/weights": np.random.default_rng(0).standard_normal((70, 9)).astype(np.float32),
    "net/half": np.array([1.5, -np.inf, np.nan], np.float16),
    "bytes": np.arange(256, dtype=np.uint8),
    "complex": np.array([1 + 2j], np.complex64),
}


class Saver:
    """A graph with these variables, and TensorFlow's Saver for them in either version."""

    def __init__(self):
        self.tf = load_tensorflow()
        self.v1 = self.tf.compat.v1
        self.graph = self.tf.Graph()
        with self.graph.as_default():
            self.variables = {
                name: self.v1.get_variable(
                    name, initializer=self.tf.constant(value), use_resource=False
                )
                for name, value in VALUES.items()
            }
            versions = self.v1.train.SaverDef
            self.savers = {
                name: self.v1.train.Saver(write_version=getattr(versions, name.upper()))
                for name in ("v1", "v2")
            }

    def save(self, path, version):
        with self.v1.Session(graph=self.graph) as session:
            session.run([variable.initializer for variable in self.variables.values()])
            saver = self.savers[version]
            saver.save(session, str(path), write_meta_graph=False, write_state=False)

    def restore(self, path, version):
        with self.v1.Session(graph=self.graph) as session:
            self.savers[version].restore(session, str(path))
            return session.run(self.variables)


@pytest.fixture(scope="module")
def saver():
    return Saver()


@pytest.fixture(scope="module")
def sources(saver, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved by TensorFlow")
    for version in ("v1", "v2"):
        saver.save(folder / version, version)
    return folder


def assert_restored(saver, path, version):
    for name, value in saver.restore(path, version).items():
        expected = VALUES[name]
        assert np.asarray(value).dtype == expected.dtype
        assert np.asarray(value).shape == expected.shape
        if expected.dtype == object:
            assert np.asarray(value).tolist() == expected.tolist()
        else:
            assert np.asarray(value).tobytes() == expected.tobytes()


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("source", ["v1", "v2"])
def test_either_version_becomes_either(saver, sources, tmp_path, source, version):
    exporters.convert(sources / source, tmp_path / "copy", to=version)
    assert_restored(saver, tmp_path / "copy", version)
    copies = {path.name.replace("copy", version): path for path in tmp_path.iterdir()}
    for name, path in copies.items():
        assert path.read_bytes() == (sources / name).read_bytes()


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_through_npz(saver, sources, tmp_path, version):
    exporters.convert(sources / version, tmp_path / "a.npz")
    exporters.convert(tmp_path / "a.npz", tmp_path / "copy", to=version)
    assert_restored(saver, tmp_path / "copy", version)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_in_slices(saver, sources, tmp_path, version):
    exporters.convert(sources / version, tmp_path / "copy", to=version, slicing=Slicing(4, 0))
    assert_restored(saver, tmp_path / "copy", version)
    exporters.convert(tmp_path / "copy", tmp_path / "whole", to=version)
    for path in tmp_path.glob("whole*"):
        whole = sources / path.name.replace("whole", version)
        assert path.read_bytes() == whole.read_bytes()
