"""A net that is a function of the user's: (inputs, num_classes, is_training) -> (logits, end_points)."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import PlanError, UsageError, listed
from checkpoints.progress import SILENT, Progress
from checkpoints.published import Net, Paper
from exporters.runtime import load_tensorflow
from finetune.nets.file_options import NetOptions
from finetune.slim import quietly

BOTTLENECK = "bottleneck"
DEFAULT_SIZE = 224
DEFAULT_PREPROCESSING = "inception"
_PAPER = Paper("a net of one's own", "its author", 0)
_LAYERS = frozenset({"Conv2D", "MatMul", "BatchMatMulV2"})


@dataclass(frozen=True, eq=False)
class OwnNet(Net):
    """The record of a net from "module:function"; `build` calls the function.

    Attributes:
      scopes: the outermost scopes of its variables.
    """

    scopes: tuple[str, ...] = ()

    @property
    def top_scopes(self) -> tuple[str, ...]:
        """The outermost scopes of its variables."""
        return self.scopes

    def build(
        self, images: Any, num_classes: int, is_training: bool, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Calls the function with those options that it takes, and adds the bottleneck."""
        logits, end_points = _call(
            load_function(self.builder), images, num_classes, is_training, options
        )
        return logits, {BOTTLENECK: _input_of_last_layer(logits), **end_points}


def load_function(name: str) -> Callable[..., Any]:
    """The function that "module:function" names; modules of the current directory are found too.

    Raises:
      UsageError: there is no such module or function.
    """
    module, _, function = name.partition(":")
    here = os.getcwd()  # noqa: PTH109 - sys.path holds texts
    sys.path.insert(0, here)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        return found
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"There is no function {name}.",
            expected="MODULE:FUNCTION, the module in the current directory or installed",
            received=error,
            next_step="Set PYTHONPATH to the directory that the module lies in.",
        ) from error
    finally:
        sys.path.remove(here)


@quietly
def read_own_net(name: str, options: NetOptions, progress: Progress = SILENT) -> OwnNet:
    """Builds the net for two and for three classes: what differs is its head.

    Args:
      name: "module:function".
      options: preprocessing and size, as far as they were given.
      progress: told what was assumed.

    Raises:
      PlanError: the function does not build a net with a head.
    """
    function = load_function(name)
    size = options.image_size or DEFAULT_SIZE
    preprocessing = options.preprocessing or DEFAULT_PREPROCESSING
    progress.say(f"{name}: pictures of {size} pixels, preprocessing {preprocessing}.")
    two, main = _shapes(name, function, size, 2)
    three, _ = _shapes(name, function, size, 3)
    heads = [variable for variable, shape in two.items() if three.get(variable) != shape]
    scopes = list(dict.fromkeys(variable.rpartition("/")[0] or variable for variable in heads))
    mains = [scope for scope in scopes if any(_stands_in(v, scope) for v in main & set(heads))]
    if len(mains) != 1:
        raise PlanError(
            f"{name} has no head that stands in one variable scope.",
            expected="the layer of the logits in a scope of its own, as wide as num_classes",
            received=listed(mains) if mains else "no variable that depends on num_classes",
        )
    return OwnNet(
        name=name,
        builder=name,
        scope=mains[0].partition("/")[0],
        image_size=size,
        preprocessing=preprocessing,  # type: ignore[arg-type]
        main_head=mains[0],
        bottleneck=BOTTLENECK,
        logits="Logits",
        paper=_PAPER,
        scopes=tuple(dict.fromkeys(variable.partition("/")[0] for variable in two)),
    )


def _stands_in(variable: str, scope: str) -> bool:
    return variable == scope or variable.rpartition("/")[0] == scope


def _shapes(
    name: str, function: Callable[..., Any], size: int, classes: int
) -> tuple[dict[str, Sequence[int]], set[str]]:
    """Shapes of all variables, and the names of those that the logits are made with."""
    from finetune.trunk.cut import variables_before

    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        images = v1.placeholder(tf.float32, [None, size, size, 3])
        logits, _ = _call(function, images, classes, False, {})
        if logits.shape.as_list()[1:] != [classes]:
            raise PlanError(
                f"{name} does not give logits.",
                expected=f"[batch, {classes}] for {classes} classes",
                received=logits.shape,
            )
        variables = v1.global_variables()
        shapes = {variable.op.name: variable.shape.as_list() for variable in variables}
        return shapes, {variable.op.name for variable in variables_before(logits, variables)}


def _call(
    function: Callable[..., Any], images: Any, classes: int, is_training: bool, options: Any
) -> tuple[Any, dict[str, Any]]:
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    taken = {key: value for key, value in options.items() if takes_any or key in parameters}
    logits, end_points = function(images, classes, is_training, **taken)
    return logits, dict(end_points)


def _input_of_last_layer(logits: Any) -> Any:
    operation = logits.op
    while operation.type not in _LAYERS and operation.inputs:
        operation = operation.inputs[0].op
    return operation.inputs[0] if operation.inputs else logits
