"""Reads every value of a checkpoint with TensorFlow, as a step to be timed."""

from __future__ import annotations

from collections.abc import Callable


def read_with_tensorflow(checkpoint: str) -> Callable[[], int]:
    """The step: opens the checkpoint, reads all variables, returns the sum of their words."""
    import tensorflow as tf

    from scripts.bench.groups.read_values import word_sum

    def step() -> int:
        reader = tf.train.load_checkpoint(checkpoint)
        return word_sum(reader.get_tensor(name) for name in reader.get_variable_to_shape_map())

    return step
