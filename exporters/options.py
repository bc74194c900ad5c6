"""Options of `convert` that change what a model is written as, and the forms they go with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from checkpoints.errors import UsageError
from exporters.metadata import Metadata
from exporters.values import Array

Quantization = Literal["dynamic", "int8"]
Layout = Literal["nhwc", "nchw"]

Calibration = Callable[[Metadata], Iterable[Array]]
"""From what a model says of itself to batches of its input, float32 [batch, height, width, 3]."""

PreprocessingGraph = Callable[[Metadata], Any]
"""From what a model says of itself to the GraphDef that makes its input of an encoded picture: a
placeholder `encoded` (string [batch]) and a tensor `images` (float32 [batch, height, width, 3])."""

_GRAPHS = ("pb", "pbtxt", "saved-model")
_FORMS: dict[str, tuple[str, ...]] = {
    "--optimize": (*_GRAPHS, "tflite", "onnx"),
    "--compat": _GRAPHS,
    "--quantize": ("tflite",),
    "--layout": ("onnx",),
    "--with-preprocessing": _GRAPHS,
    "--keep-variables": (*_GRAPHS, "meta"),
    "--warm-up": ("saved-model",),
}
"""Option -> the forms that it means something for."""

_OF_FROZEN_GRAPHS = ("--optimize", "--compat", "--with-preprocessing")


@dataclass(frozen=True)
class ModelOptions:
    """How a model is changed on its way.

    Attributes:
      optimize: whether batch norms and constants are folded and Identities taken out.
      compat: whether attributes that older readers do not know are dropped.
      quantize: None, "dynamic" (weights in 8 bits) or "int8" (activations too).
      calibration: pictures for "int8", as the net sees them.
      layout: of ONNX: "nhwc" as in the graph, or "nchw" for the input; None is nhwc.
      with_preprocessing: makes the graph that is put before the model; None puts none.
      keep_variables: whether the graph keeps its variables, and is not frozen.
      warm_up: pictures as the written model takes them, for a server's first requests.
    """

    optimize: bool = False
    compat: bool = False
    quantize: Quantization | None = None
    calibration: Calibration | None = None
    layout: Layout | None = None
    with_preprocessing: PreprocessingGraph | None = None
    keep_variables: bool = False
    warm_up: Calibration | None = None

    def refuse_for(self, form: str) -> None:
        """Raises UsageError where an option says nothing of a form, or another one is missing."""
        given = {
            "--optimize": self.optimize,
            "--compat": self.compat,
            "--quantize": self.quantize is not None,
            "--layout": self.layout is not None,
            "--with-preprocessing": self.with_preprocessing is not None,
            "--keep-variables": self.keep_variables,
            "--warm-up": self.warm_up is not None,
        }
        wrong = [option for option, is_given in given.items() if is_given]
        wrong = [option for option in wrong if form not in _FORMS[option]]
        if wrong:
            raise UsageError(
                f"{', '.join(wrong)} says nothing of the form {form}.",
                expected="; ".join(f"{option} for {', '.join(_FORMS[option])}" for option in wrong),
                received=f"--to {form}",
            )
        frozen_only = [option for option in _OF_FROZEN_GRAPHS if given[option]]
        if self.keep_variables and frozen_only:
            raise UsageError(
                f"{', '.join(frozen_only)} changes a frozen graph, and --keep-variables leaves it"
                " unfrozen.",
                next_step="Leave one out.",
            )
        if (self.quantize == "int8") != (self.calibration is not None):
            raise UsageError(
                "--quantize int8 and --calibration go together: pictures say how large activations"
                " become.",
                next_step="--quantize int8 --calibration DIR",
            )
