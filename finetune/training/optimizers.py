"""Optimisers by name, with the settings of the published recipes."""

from __future__ import annotations

from typing import Any

from exporters.runtime import load_tensorflow

DEFAULT_LEARNING_RATES = {
    "adam": 0.001,
    "rmsprop": 0.01,
    "momentum": 0.01,
    "sgd": 0.1,
    "adagrad": 0.05,
    "ftrl": 0.05,
}
"""A rate that suits each optimiser for a new head on a trained trunk."""


def make_optimizer(name: str, learning_rate: Any) -> Any:
    """A tf.compat.v1.train optimiser.

    Args:
      name: adam; rmsprop (decay 0.9, momentum 0.9, epsilon 1.0, as in TF-Slim's flowers recipe);
        momentum (0.9); sgd; adagrad and ftrl (accumulators start at 0.1).
      learning_rate: float32 scalar tensor.
    """
    train = load_tensorflow().compat.v1.train
    if name == "adam":
        return train.AdamOptimizer(learning_rate)
    if name == "rmsprop":
        return train.RMSPropOptimizer(learning_rate, decay=0.9, momentum=0.9, epsilon=1.0)
    if name == "momentum":
        return train.MomentumOptimizer(learning_rate, momentum=0.9)
    if name == "adagrad":
        return train.AdagradOptimizer(learning_rate, initial_accumulator_value=0.1)
    if name == "ftrl":
        return train.FtrlOptimizer(learning_rate, initial_accumulator_value=0.1)
    return train.GradientDescentOptimizer(learning_rate)
