"""Which net retrain trains a new layer on: names of Hub's modules and old architectures, and files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints.errors import NotFoundError, UnsupportedError, near_names
from checkpoints.published import CHECKPOINTS, NETS, Net

if TYPE_CHECKING:
    from checkpoints.api import Checkpoint

_MODULE = re.compile(r"(mobilenet_v[12])_(\d{3})_(\d+)")
"""As Hub calls MobileNets: the multiplier in hundredths, then the size in pixels."""

_ARCHITECTURE = re.compile(r"mobilenet_(\d\.\d+)_(\d+)")
"""As retrain called them before there was a Hub."""

_QUANTIZED = ("quantops", "_quantized")


@dataclass(frozen=True)
class Trunk:
    """What `--net` and `--checkpoint` of train are given.

    Attributes:
      net: a registered net, or a file with a graph.
      checkpoint: a published name or a path; None where the file has the weights.
    """

    net: str
    checkpoint: str | None


def find_trunk(named: str, flag: str) -> Trunk:
    """The net that a module, an architecture or a path means.

    Args:
      named: the address of a TensorFlow Hub module (its name decides), an old architecture
        (inception_v3, mobilenet_1.0_224), a net or published checkpoint of slimtune, a file with
        a graph (.pb, .pbtxt, .meta, a SavedModel), or a checkpoint, whose variables tell the net.
      flag: what it was given by, for messages.

    Raises:
      NotFoundError: it is none of these.
      UnsupportedError: it is a module on disk, or one for training with simulated quantization.
    """
    from finetune.nets.graph_net import is_graph_file

    path = Path(named)
    if (path / "tfhub_module.pb").is_file():
        raise UnsupportedError(
            f"{path} is a module of TensorFlow Hub, which only its own library loads.",
            expected="a net's name, a frozen graph or a checkpoint",
            received=f"--{flag}={named}",
            next_step="Name the module by its address: its weights are those of a checkpoint that"
            " slimtune nets lists.",
        )
    if path.exists() and is_graph_file(named):
        return Trunk(named, None)
    if path.exists() or any(path.parent.glob(f"{path.name}.*")):
        return Trunk(_net_of(path).name, named)
    trunk = _of_name(named, flag)
    if trunk is None:
        near = near_names(named.rpartition("/")[2], [*NETS, *CHECKPOINTS])
        raise NotFoundError(
            f"There is no net for --{flag}={named}.",
            expected="the address of a Hub module whose net slimtune has, a name from slimtune"
            " nets, or the path of a graph or checkpoint"
            + (f"; near: {', '.join(near)}" * bool(near)),
            received=named,
            next_step="slimtune nets",
        )
    return trunk


def _of_name(named: str, flag: str) -> Trunk | None:
    if any(word in named for word in _QUANTIZED):
        raise UnsupportedError(
            f"--{flag}={named} is for training with simulated quantization, which went with"
            " tf.contrib.",
            expected="the module or architecture without it",
            received=named,
            next_step="Train without; then slimtune convert RUN model.tflite --quantize int8"
            " --calibration PICTURES.",
        )
    for part in (part for part in re.split(r"[:/]+", named) if part):
        module = _MODULE.fullmatch(part)
        architecture = _ARCHITECTURE.fullmatch(part)
        if module is not None:
            part = f"{module[1]}_{int(module[2]) / 100}_{module[3]}"
        elif architecture is not None:
            part = f"mobilenet_v1_{float(architecture[1])}_{architecture[2]}"
        if part in CHECKPOINTS:
            return Trunk(CHECKPOINTS[part].net, part)
        if part in NETS:
            return Trunk(part, None)
    return None


def _net_of(path: Path) -> Net:
    """The registered net whose variables a checkpoint holds.

    Raises:
      NotFoundError: none has them.
    """
    import checkpoints

    with checkpoints.open(path) as saved:
        scopes = {name.partition("/")[0] for name in saved}
        nets = [net for net in NETS.values() if net.scope in scopes]
        if len(nets) > 1:
            # Of one architecture there are several widths.
            nets = [net for net in nets if _fits(net, saved)]
        if not nets:
            raise NotFoundError(
                f"{path} holds the variables of no net that slimtune knows.",
                expected="scopes like " + ", ".join(sorted({net.scope for net in NETS.values()})),
                received=", ".join(sorted(scopes)[:5]) or "no variables",
                next_step="Freeze it with its graph, and name the .pb: slimtune convert.",
            )
    return nets[0]


def _fits(net: Net, saved: Checkpoint) -> bool:
    """Whether a net's variables, its heads apart, are in a checkpoint, shape by shape."""
    from checkpoints.scopes import in_scope
    from finetune.nets.build import inference_graph

    return all(
        variable.name in saved and tuple(saved.variables[variable.name].shape) == variable.shape
        for variable in inference_graph(net, 2).variables
        if not any(in_scope(variable.name, scope) for scope in net.head_scopes)
    )
