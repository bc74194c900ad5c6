"""Training in float32, or with the heavy operations in bfloat16 where that is faster and agrees.

Variables, updates and losses stay float32. TensorFlow's rewriter casts convolutions, matrix
products and what stands between them; oneDNN computes these with the CPU's bfloat16 instructions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.errors import UnsupportedError
from exporters.runtime import load_tensorflow, session_config

CPU_FLAGS = ("avx512_bf16", "amx_bf16")
"""CPU features, one of which makes bfloat16 worth trying."""

LOSS_TOLERANCE = 0.02
LOGITS_TOLERANCE = 0.05
"""Two precisions agree where the loss differs by at most 2 % (of 1, where it is smaller) and the
logits by at most 5 %, root mean square of the difference over that of the logits' spread."""

TRIAL_SECONDS = 30.0
"""A trial costs several seconds; a phase that is shorter in float32 is not worth one."""

_TIMED_STEPS = 3


@dataclass(frozen=True)
class Trial:
    """What a precision came to on the first batches.

    Attributes:
      seconds: of one step, without the update.
      loss: of the first batch.
      logits: of the first batch, float32 [batch, classes].
    """

    seconds: float
    loss: float
    logits: Any


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU computes in bfloat16."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "").split()
    return any(flag in flags for flag in CPU_FLAGS)


def has_gpu() -> bool:
    """Whether TensorFlow has a GPU to run steps on."""
    return bool(load_tensorflow().config.list_physical_devices("GPU"))


def why_float32() -> str | None:
    """Why bfloat16 is out of the question here, in a line; None where it is worth trying.

    On a GPU the counterpart would be float16, by TensorFlow's auto_mixed_precision. Its gradients
    vanish below 6e-8 and are infinite from 65,520 on: it takes a scale on the loss that is found
    while training, and steps that are left out where it was too large, both kept on resuming.
    That is not done here, and a session that leaves it out would train worse without a word.

    Source:
      Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.
    """
    if has_gpu():
        return (
            "Precision fp32: steps run on a GPU; mixed float16 needs its loss scaled, which is not "
            "done here."
        )
    if not has_bfloat16():
        return "Precision fp32: this CPU does not compute in bfloat16."
    return None


def training_session_config(precision: str) -> Any:
    """The ConfigProto of a training session, in which a step gives the same bits each time.

    Args:
      precision: fp32 or bf16.

    Raises:
      UnsupportedError: the CPU has no bfloat16 instructions, or steps run on a GPU.
    """
    config = session_config()
    # AddN begins with whichever input it finds free, so that its last bits depend on what runs
    # beside it. Gradients are added two by two (see training_graph), and this optimiser would
    # make one AddN of that again.
    rewrites = config.graph_options.rewrite_options
    rewrites.arithmetic_optimization = type(rewrites).OFF
    if precision == "bf16":
        if has_gpu():
            raise UnsupportedError(
                "Steps run on a GPU, and bf16 is of the CPU alone.",
                expected="no GPU",
                received=", ".join(
                    device.name for device in load_tensorflow().config.list_physical_devices("GPU")
                ),
                next_step="--precision fp32, or auto; with CUDA_VISIBLE_DEVICES= before the command "
                "it runs on the CPU.",
            )
        if not has_bfloat16():
            raise UnsupportedError(
                "This CPU does not compute in bfloat16.",
                expected=f"{' or '.join(CPU_FLAGS)} among the CPU's flags",
                next_step="--precision fp32, or auto.",
            )
        rewrites.auto_mixed_precision_onednn_bfloat16 = type(rewrites).ON
    return config


def time_steps(
    session: Any,
    loss: Any,
    logits: Any,
    gradients: Any,
    feeds: Callable[[], Mapping[Any, Any]] = dict,
) -> Trial:
    """Runs a few steps that change no variable.

    Args:
      session: with variables and batches ready.
      loss: scalar tensor.
      logits: [batch, classes].
      gradients: an operation that computes all gradients.
      feeds: gives what a step is fed.
    """
    # The first run optimises the graph; its numbers are the ones to compare.
    first_loss, first_logits, _ = session.run((loss, logits, gradients), feeds())
    began = time.perf_counter()
    for _ in range(_TIMED_STEPS):
        session.run((loss, gradients), feeds())
    seconds = (time.perf_counter() - began) / _TIMED_STEPS
    return Trial(seconds, float(first_loss), np.asarray(first_logits, np.float32))


def differences(one: Trial, other: Trial) -> tuple[float, float]:
    """How far apart two trials are: of the loss and of the logits, as shares."""
    loss = abs(one.loss - other.loss) / max(1.0, abs(one.loss))
    spread = float(np.sqrt(np.mean(np.square(one.logits - one.logits.mean()))))
    apart = float(np.sqrt(np.mean(np.square(one.logits - other.logits))))
    logits = apart / spread if spread else math.inf if apart else 0.0
    return loss, logits


def choose(fp32: Trial, try_bfloat16: Callable[[], Trial], steps: int) -> tuple[str, str]:
    """The faster of the precisions that agree.

    Args:
      fp32: what float32 came to.
      try_bfloat16: runs the same in bfloat16; called where it may pay.
      steps: how many steps are left.

    Returns:
      fp32 or bf16, and a line that says why.
    """
    if fp32.seconds * steps < TRIAL_SECONDS:
        return "fp32", (
            f"Precision fp32: {steps} steps of about {fp32.seconds * 1000:.0f} ms are too few for "
            "a trial of bf16 to pay."
        )
    bf16 = try_bfloat16()
    loss, logits = differences(fp32, bf16)
    agrees = loss <= LOSS_TOLERANCE and logits <= LOGITS_TOLERANCE
    precision = "bf16" if agrees and bf16.seconds < fp32.seconds else "fp32"
    word = "within" if agrees else "beyond"
    return precision, (
        f"Precision {precision}: a step takes {fp32.seconds * 1000:.0f} ms in fp32, "
        f"{bf16.seconds * 1000:.0f} ms in bf16; loss differs by {loss:.2%}, logits by "
        f"{logits:.1%}, {word} {LOSS_TOLERANCE:.0%} and {LOGITS_TOLERANCE:.0%}."
    )
