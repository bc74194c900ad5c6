"""What the walk through the study notes shares: TensorFlow, and a graph with its session."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def tf():
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


@pytest.fixture(scope="session")
def v1(tf):
    return tf.compat.v1


@pytest.fixture
def session(v1):
    """A session of a new graph; both are current."""
    with v1.Graph().as_default(), v1.Session() as opened:
        yield opened
