"""A net that is a function of the user's: (inputs, num_classes, is_training) -> (logits, end_points)."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.errors import PlanError, SlimtuneError, UsageError, listed
from checkpoints.progress import SILENT, Progress
from checkpoints.published import Net, Paper
from exporters.runtime import load_tensorflow
from finetune.nets.file_options import NetOptions
from finetune.preprocessing import Preprocessing
from finetune.slim import load_slim, quietly, variables_by_identity

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

    def takes(self, option: str) -> bool:
        """Whether the function has a parameter of this name, or takes any."""
        return bool(_taken(load_function(self.builder), {option: None}))

    def build(
        self, images: Any, num_classes: int, is_training: bool, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Calls the function with those options that it takes, and adds the bottleneck."""
        logits, end_points = _call(
            self.builder, load_function(self.builder), images, num_classes, is_training, options
        )
        return logits, {BOTTLENECK: _input_of_last_layer(logits), **end_points}


def load_function(name: str) -> Callable[..., Any]:
    """The function that "module:function" names; modules of the current directory are found too.

    tf-slim is loaded first, so that a module can import it as it was always imported.

    Raises:
      UsageError: there is no such module or function.
      PlanError: the module's own code fails.
    """
    load_slim()
    module, _, function = name.partition(":")
    here = os.getcwd()  # noqa: PTH109 - sys.path holds texts
    sys.path.insert(0, here)
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise _no_function(name, error) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        own = [frame.filename for frame in frames if "importlib" not in frame.filename]
        raise PlanError(
            f"The module of {name} cannot be imported.",
            received=_failure(error, own[0] if own else module),
            next_step="Correct the module.",
        ) from error
    finally:
        sys.path.remove(here)
    found: Callable[..., Any] | None = getattr(loaded, function, None)
    if not callable(found):
        raise _no_function(name, f"module {module!r} has no function {function!r}")
    return found


def _no_function(name: str, received: object) -> UsageError:
    return UsageError(
        f"There is no function {name}.",
        expected="MODULE:FUNCTION, the module in the current directory or installed",
        received=received,
        next_step="Set PYTHONPATH to the directory that the module lies in.",
    )


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
    shape = (size, size, Preprocessing(preprocessing, size).channels)
    two, main = _shapes(name, function, shape, 2)
    three, _ = _shapes(name, function, shape, 3)
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
    name: str, function: Callable[..., Any], shape: tuple[int, int, int], classes: int
) -> tuple[dict[str, Sequence[int]], set[str]]:
    """Shapes of all variables, and the names of those that the logits are made with."""
    from finetune.trunk.cut import variables_before

    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), variables_by_identity():
        images = v1.placeholder(tf.float32, [None, *shape])
        logits, _ = _call(name, function, images, classes, False, {})
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
    name: str,
    function: Callable[..., Any],
    images: Any,
    classes: int,
    is_training: bool,
    options: Any,
) -> tuple[Any, dict[str, Any]]:
    taken = _taken(function, options)
    expected = "a function (inputs, num_classes, is_training) -> (logits, end_points)"
    found = call_own(name, expected, function, images, classes, is_training, **taken)
    try:
        logits, end_points = found
        end_points = dict(end_points)
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"{name} does not give logits and end points.",
            expected=f"{expected}, the end points a dict",
            received=found,
        ) from error
    if not isinstance(logits, load_tensorflow().Tensor):
        raise PlanError(
            f"{name} does not give logits.",
            expected=f"a tensor [batch, {classes}] for {classes} classes",
            received=str(logits),
        )
    return logits, end_points


def call_own(
    name: str, expected: str, function: Callable[..., Any], *arguments: Any, **named: Any
) -> Any:
    """What a function of the user's gives.

    Args:
      name: "module:function", for the message.
      expected: which arguments it has to take, for the message.
      function: what is called.
      *arguments: what it gets.
      **named: what it gets by name.

    Raises:
      PlanError: it raises something; file, line and message are named.
    """
    try:
        return function(*arguments, **named)
    except SlimtuneError:
        raise
    except Exception as error:
        code = getattr(function, "__code__", None)
        raise PlanError(
            f"The function {name} fails.",
            expected=expected,
            received=_failure(error, name if code is None else code.co_filename),
            next_step="Correct the function.",
        ) from error


def _failure(error: Exception, file: str) -> str:
    """What was raised, and the last line of the file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(error, SyntaxError):
        file, lines = error.filename or file, [error.lineno]
    place = f"{file}, line {lines[-1]}" if lines else file
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]} ({place})"


def _taken(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return {key: value for key, value in options.items() if takes_any or key in parameters}


def _input_of_last_layer(logits: Any) -> Any:
    operation = logits.op
    while operation.type not in _LAYERS and operation.inputs:
        operation = operation.inputs[0].op
    return operation.inputs[0] if operation.inputs else logits
