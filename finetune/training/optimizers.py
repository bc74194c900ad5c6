"""Optimisers by name, with the settings of the published recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporters.runtime import load_tensorflow

DEFAULT_LEARNING_RATES = {
    "adam": 0.001,
    "rmsprop": 0.01,
    "momentum": 0.01,
    "sgd": 0.1,
    "adagrad": 0.05,
    "adadelta": 1.0,
    "ftrl": 0.05,
}
"""A rate that suits each optimiser for a new head on a trained trunk."""

SETTINGS: Mapping[str, Mapping[str, float]] = {
    "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    # As in TF-Slim's flowers recipe.
    "rmsprop": {"decay": 0.9, "momentum": 0.9, "epsilon": 1.0},
    "momentum": {"momentum": 0.9},
    "sgd": {},
    "adagrad": {"initial_accumulator_value": 0.1},
    "adadelta": {"rho": 0.95, "epsilon": 1e-8},
    "ftrl": {
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
    },
}
"""Optimiser -> its settings beside the rate, by the names of tf.compat.v1.train."""

_CLASSES = {
    "adam": "AdamOptimizer",
    "rmsprop": "RMSPropOptimizer",
    "momentum": "MomentumOptimizer",
    "sgd": "GradientDescentOptimizer",
    "adagrad": "AdagradOptimizer",
    "adadelta": "AdadeltaOptimizer",
    "ftrl": "FtrlOptimizer",
}


def make_optimizer(name: str, learning_rate: Any, options: Sequence[str] = ()) -> Any:
    """A tf.compat.v1.train optimiser.

    Args:
      name: a key of SETTINGS.
      learning_rate: float32 scalar tensor.
      options: NAME=NUMBER of settings that are to differ from SETTINGS.
    """
    kind = getattr(load_tensorflow().compat.v1.train, _CLASSES[name])
    return kind(learning_rate, **{**SETTINGS[name], **read_settings(options)})


def read_settings(options: Sequence[str]) -> dict[str, float]:
    """Setting -> value, of NAME=NUMBER.

    Raises:
      ValueError: a text is none.
    """
    settings = {}
    for text in options:
        name, sign, number = text.partition("=")
        if not sign or not name.strip():
            raise ValueError(text)
        settings[name.strip()] = float(number)
    return settings
