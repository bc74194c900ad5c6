"""Which values each training option may have, and how that is said."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from finetune.training.optimizers import SETTINGS, read_settings
from finetune.training.schedules import SCHEDULES

AUGMENTS = ("none", "fast", "full")
CACHES = ("auto", "on", "off")
INITS = ("default", "prototypes")
ACTIVATIONS = ("relu", "leaky-relu")
PRECISIONS = ("auto", "fp32", "bf16")
UNFREEZING = re.compile(r"(\d{1,18})(e?):\s*(\S.*)")
"""The beginning of a stage of --unfreeze-at: a step, or an epoch with an e, and a scope."""

DEVICE = re.compile(r"cpu|gpu(?::(\d+))?")
"""What --device takes: the kind, and which of its kind."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_positive(value: Any) -> bool:
    """A whole number from 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_counting(value: Any) -> bool:
    """A whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """A finite number, of those that a float can hold."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max


def is_above_zero(value: Any) -> bool:
    """A finite number above 0."""
    return is_number(value) and value > 0


def is_from_zero(value: Any) -> bool:
    """A finite number from 0."""
    return is_number(value) and value >= 0


def is_share(value: Any) -> bool:
    """A number from 0, below 1."""
    return is_number(value) and 0 <= value < 1


def is_factor(value: Any) -> bool:
    """A number above 0, up to 1."""
    return is_number(value) and 0 < value <= 1


def is_unfreezing(value: Any) -> bool:
    """Stages as `1000:SCOPE` or `5e:SCOPE`, from 1 on, each followed by further scopes."""
    if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
        return False
    beginnings = [UNFREEZING.fullmatch(part) for part in value]
    begins_with_one = not value or beginnings[0] is not None
    return begins_with_one and all(int(found[1]) > 0 for found in beginnings if found)


def is_rate_factors(value: Any) -> bool:
    """Texts SCOPE=FACTOR with factors from 0."""
    try:
        read_rate_factors(value)
    except (TypeError, ValueError, AttributeError):
        return False
    return True


def read_rate_factors(texts: Sequence[str]) -> dict[str, float]:
    """Scope -> factor of the learning rate, of SCOPE=FACTOR.

    Raises:
      ValueError: a text is none.
    """
    factors = {}
    for text in texts:
        scope, sign, factor = text.rpartition("=")
        if not sign or not scope.strip() or not is_from_zero(float(factor)):
            raise ValueError(text)
        factors[scope.strip().rstrip("/")] = float(factor)
    return factors


def is_settings(value: Any) -> bool:
    """Texts NAME=NUMBER."""
    try:
        return all(map(math.isfinite, read_settings(value).values()))
    except (TypeError, ValueError, AttributeError):
        return False


def unknown_settings(optimizer: Any, options: Any) -> list[str]:
    """Settings that an optimiser does not have; none where one of the two is wrong by itself."""
    if optimizer not in SETTINGS or not is_settings(options):
        return []
    return [name for name in read_settings(options) if name not in SETTINGS[optimizer]]


def _all_positive(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(is_positive, value))


def _one_of(names: Sequence[str]) -> tuple[str, Callable[[Any], bool]]:
    return "one of " + ", ".join(names), names.__contains__


CHECKS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("steps", "a whole number from 1", is_positive),
    ("epochs", "a whole number from 1", is_positive),
    ("batch_size", "a whole number from 1", is_positive),
    ("image_size", "a whole number from 1", is_positive),
    ("label_offset", "a whole number from 0", is_counting),
    ("eval_every", "a whole number from 1", is_positive),
    ("keep", "a whole number from 1", is_positive),
    ("patience", "a whole number from 1", is_positive),
    ("decay_steps", "a whole number from 1", is_positive),
    ("warmup_steps", "a whole number from 0", is_counting),
    ("learning_rate", "a number above 0", is_above_zero),
    ("unfreeze_learning_rate", "a number above 0", is_above_zero),
    ("decay_rate", "a number above 0", is_above_zero),
    ("end_learning_rate", "a number from 0", is_from_zero),
    ("clip_norm", "a number above 0", is_above_zero),
    ("save_seconds", "a number above 0", is_above_zero),
    ("weight_decay", "a number from 0", is_from_zero),
    ("label_smoothing", "a share from 0, below 1", is_share),
    ("dropout", "a share from 0, below 1", is_share),
    ("batch_norm_decay", "a share from 0 to 1", lambda value: is_share(value) or value == 1),
    ("ema", "a share from 0, below 1", is_share),
    ("layer_decay", "a factor above 0, up to 1", is_factor),
    ("hidden", "whole numbers from 1", _all_positive),
    ("activation", *_one_of(ACTIVATIONS)),
    ("optimizer", *_one_of(tuple(SETTINGS))),
    ("optimizer_options", "NAME=NUMBER, ...", is_settings),
    ("schedule", *_one_of(SCHEDULES)),
    ("augment", *_one_of(AUGMENTS)),
    ("init", *_one_of(INITS)),
    ("views", "a whole number from 1", is_positive),
    ("cache", *_one_of(CACHES)),
    ("precision", *_one_of(PRECISIONS)),
    (
        "loss",
        "module:function",
        lambda value: isinstance(value, str) and _FUNCTION.fullmatch(value) is not None,
    ),
    ("unfreeze_at", "STEP:SCOPE,... or EPOCHe:SCOPE,..., from 1 on", is_unfreezing),
    ("learning_rate_factors", "SCOPE=FACTOR, factors from 0", is_rate_factors),
    ("seed", "a whole number from 0", is_counting),
    (
        "device",
        "cpu, gpu or gpu:N",
        lambda value: isinstance(value, str) and DEVICE.fullmatch(value) is not None,
    ),
)
"""Option, what is expected of it, and whether a value is that."""


def wrong_options(options: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The options whose values make no sense: what is wrong with each, and each as received.

    Args:
      options: by their names in TrainConfig; some or all of them; None is left out.
    """
    problems, received = [], []
    for name, expected, is_right in CHECKS:
        value = options.get(name)
        if value is not None and not is_right(value):
            problems.append(f"{flag(name)}: expected {expected}, received {typed(value)}")
            received.append(f"{flag(name)} {typed(value)}")
    return problems, received


def typed(value: Any) -> str:
    """A value as it is typed behind its option; what cannot be typed in a word."""
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    is_plain = isinstance(value, str) and value and value == value.strip()
    return str(value) if is_plain or not isinstance(value, str) else repr(value)


def flag(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")
