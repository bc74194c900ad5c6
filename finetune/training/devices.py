"""--device: which CPU or GPU a process uses."""

from __future__ import annotations

import os

from checkpoints.errors import RunError, UsageError
from finetune.training.option_checks import DEVICE
from finetune.training.precision import has_gpu

VARIABLE = "CUDA_VISIBLE_DEVICES"


def use_device(name: str) -> None:
    """Lets TensorFlow see the CPU alone, or one GPU; for the whole process, before its first step.

    Args:
      name: cpu, gpu or gpu:N, of those that CUDA_VISIBLE_DEVICES leaves where that is set.

    Raises:
      RunError: there is no such GPU, or TensorFlow has taken its devices already.
      UsageError: the name is none.
    """
    found = DEVICE.fullmatch(name)
    if found is None:
        raise UsageError(f"There is no device {name!r}.", expected="cpu, gpu or gpu:N")
    number = int(found[1] or 0)
    before = os.environ.get(VARIABLE)
    known = None if before is None else [one for one in before.split(",") if one.strip()]
    if name == "cpu":
        os.environ[VARIABLE] = "-1"
        if has_gpu():
            raise RunError(
                "TensorFlow has taken a GPU in this process already.",
                next_step=f"Set {VARIABLE}=-1 before it starts.",
            )
        return
    if known is None or number < len(known):
        os.environ[VARIABLE] = str(number) if known is None else known[number]
    if (known is not None and number >= len(known)) or not has_gpu():
        raise RunError(
            f"There is no device {name} for TensorFlow here.",
            expected="a GPU that it can use",
            received="none" if before is None else f"{VARIABLE}={before}",
            next_step="Leave --device out; nvidia-smi shows the GPUs of the machine.",
        )
