"""Keras's InceptionV3 trained as its transfer-learning guide does, as steps to be timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def train(
    layers: str, size: str, batch: str, classes: str, steps: str
) -> Callable[[], dict[str, Any]]:
    """The step: so many calls of train_on_batch, in float32, on pictures that lie in memory.

    Args:
      layers: "head": the base is not trainable and runs in inference mode; "all": all train.
      size: height and width of the input in pixels, at least 75.
      batch: pictures a step.
      classes: length of the logits.
      steps: how many are run a call.
    """
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    shape = (int(size), int(size), 3)
    base = keras.applications.InceptionV3(
        include_top=False, weights=None, input_shape=shape, pooling="avg"
    )
    base.trainable = layers == "all"
    inputs = keras.Input(shape)
    logits = keras.layers.Dense(int(classes))(base(inputs, training=base.trainable))
    model = keras.Model(inputs, logits)
    model.compile(
        keras.optimizers.Adam(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    random = np.random.default_rng(0)
    images = random.uniform(-1, 1, (int(batch), *shape)).astype(np.float32)
    images = keras.ops.convert_to_tensor(images)
    labels = keras.ops.convert_to_tensor(random.integers(0, int(classes), int(batch)))

    def run() -> dict[str, Any]:
        for _ in range(int(steps)):
            loss = model.train_on_batch(images, labels)
        return {
            "pictures": int(steps) * int(batch),
            "loss": float(loss),
            "versions": {"Keras": keras.__version__},
        }

    return run
