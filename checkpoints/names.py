"""What the names of variables say: which belong to the net, and which are bookkeeping."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["model", "slot", "ema", "step", "other"]

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Under which an object-based checkpoint keeps the graph of its objects."""
VARIABLE_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
"""What stands behind the path to a variable in the keys of an object-based checkpoint."""
OBJECT_ATTRIBUTES = "/.ATTRIBUTES/"
"""What stands between the path to an object and the name of what it keeps."""

_OBJECT_SLOT = "/.OPTIMIZER_SLOT/"

# Names that optimisers of TensorFlow 1 and tf.contrib give the slots of a variable.
_SLOT = re.compile(
    r"(Adam|AdamAsync|AdaMax|AdamW|Adagrad|AdagradDA|Adadelta|Ftrl|FtrlProximal|GGT|LARS"
    r"|LARSOptimizer|LAMB|LazyAdam|Momentum|MomentumW|NAdam|PowerSign|AddSign|ProximalAdagrad"
    r"|ProximalGradientDescent|RMSProp|Shampoo|YellowFin)(_\d+)?"
)
# Names that mean a slot only below the name of a variable that is there too.
_SLOT_OF_A_VARIABLE = re.compile(
    r"(m|v|vhat|momentum|velocity|rms|mg|accumulator|linear|adam_m|adam_v|accum_grad|accum_var"
    r"|gradient_squared_accumulator|gradient_accumulator)(_\d+)?"
)
_OPTIMIZER_SCALAR = re.compile(
    r"(beta1_power|beta2_power|beta_1|beta_2|beta1|beta2|decay|_?learning_rate|_?iter|_?iterations?"
    r"|current_loss_scale|good_steps|rho|epsilon)(_\d+)?"
)
_ALWAYS_OPTIMIZER = re.compile(r"beta[12]_power(_\d+)?")
_OPTIMIZER_SCOPE = re.compile(
    r"(?i)(.*optimi[sz]er.*|optimizeloss|adam|adamax|adadelta|adagrad|ftrl|nadam|rmsprop|sgd"
    r"|training|train|loss_scale)(_\d+)?"
)
# Keras writes the slots of x/y as Adam/m/x/y, or as adam/x_y_momentum.
_KERAS_SLOT = re.compile(r"(m|u|v|vhat|accumulator|linear)")
_KERAS_SCOPE = re.compile(
    r"(adadelta|adafactor|adagrad|adam|adamax|adamw|ftrl|lamb|lion|muon|nadam|rmsprop"
    r"|schedule_free_adam_w|sgd)(_\d+)?"
)
_KERAS_SLOT_ENDING = re.compile(
    r".+_(momentum|velocity|velocity_hat|norm|accumulator|linear|average_gradient"
    r"|accumulated_grad|accumulated_delta_var|gradient_accumulator)"
)
_KERAS_SLOTS = "_variables"
_EMA = re.compile(r"ExponentialMovingAverage(_\d+)?")
_ZERO_DEBIAS = {"biased": "local_step", "local_step": "biased"}
_STEP = re.compile(r"(global_step|GlobalStep|global_steps)(_\d+)?")


def role(name: str, all_names: Collection[str]) -> Role:
    """What a variable is for.

    Args:
      name: one variable's full name.
      all_names: all names of the checkpoint; give a set or a mapping where there are many.

    Returns:
      "model": the net's own, batch-norm averages included; "slot": an optimiser's; "ema": a
      moving average of a variable, as tf.train.ExponentialMovingAverage keeps it; "step": the
      global step; "other": input positions, counters, the object graph and the like. What is
      in doubt is the model's: the slots of an optimiser that was given a name of its own are.
    """
    if name == OBJECT_GRAPH_KEY:
        return "other"
    if _OBJECT_SLOT in name:
        return "slot"
    path = name.removesuffix(VARIABLE_VALUE)
    if OBJECT_ATTRIBUTES in path:
        return "other"
    parts = path.split("/")
    if _STEP.fullmatch(parts[-1]):
        return "step"
    if any(_EMA.fullmatch(part) for part in parts[1:]):
        return "ema"
    if _is_optimizers(parts, all_names):
        return "slot"
    return "other" if _is_bookkeeping(parts, all_names) else "model"


def averaged_names(names: Collection[str]) -> dict[str, str]:
    """Variable -> its moving average x/ExponentialMovingAverage, of those that have one.

    Where there are several (a second average is called x/ExponentialMovingAverage_1) it is the
    first.
    """
    averages: dict[str, str] = {}
    for name in sorted(names):
        above, _, last = name.rpartition("/")
        if above and _EMA.fullmatch(last):
            averages.setdefault(above, name)
    return averages


def _is_optimizers(parts: list[str], all_names: Collection[str]) -> bool:
    last, above = parts[-1], parts[:-1]
    if _ALWAYS_OPTIMIZER.fullmatch(last):
        return True
    if _OPTIMIZER_SCALAR.fullmatch(last) and above and _OPTIMIZER_SCOPE.fullmatch(above[-1]):
        return True
    if above and _SLOT.fullmatch(last):
        return True
    if len(parts) == 2 and _KERAS_SCOPE.fullmatch(parts[0]) and _KERAS_SLOT_ENDING.fullmatch(last):
        return True
    if len(parts) > 2:
        if parts[-2] == _KERAS_SLOTS and last.isdecimal():
            return True
        if _OPTIMIZER_SCOPE.fullmatch(parts[0]) and _KERAS_SLOT.fullmatch(parts[1]):
            return "/".join(parts[2:]) in all_names
    # Keras puts its own scope before the variable's name.
    return _SLOT_OF_A_VARIABLE.fullmatch(last) is not None and _has_suffix(above, all_names)


def _has_suffix(parts: list[str], all_names: Collection[str]) -> bool:
    """Whether the path, or what is left without its first parts, is a variable's name."""
    return any("/".join(parts[start:]) in all_names for start in range(len(parts)))


def _is_bookkeeping(parts: list[str], all_names: Collection[str]) -> bool:
    last, above = parts[-1], "/".join(parts[:-1])
    if above and last in _ZERO_DEBIAS:
        # A zero-debiased average x has x/biased and x/local_step.
        return any(name in all_names for name in (above, f"{above}/{_ZERO_DEBIAS[last]}"))
    return last in ("save_counter", "eval_step", "epochs") or last.startswith("limit_epochs")
