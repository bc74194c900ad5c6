"""Group `training`: Inception-v3's head and all its layers, against other ways to train them."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from checkpoints.errors import VerificationError
from checkpoints.progress import SILENT, Progress
from finetune.training.precision import CPU_FLAGS, LOSS_TOLERANCE, has_bfloat16
from scripts.bench.case import Case, Check, Contender, Peer, Step, python
from scripts.bench.groups.input import draw_pictures
from scripts.bench.process import run_work

HEAD_TARGET = 20.0
BARE_TARGET = round(1 / 1.05, 3)
BFLOAT16_TARGET = 1.6
AHEAD = 1.0

NET = "inception_v3"
SIZE = 299
CLASSES = 5
PICTURES = 1000
EPOCHS = 20
HEAD_BATCH = 32
PEER_SHARE = 80
"""A peer runs one of so many parts of the head's steps, which are all alike."""

BATCH = 16
"""Pictures of a step that trains all layers."""

ROUNDS, PEER_ROUNDS, TIMED_STEPS = 3, 2, 2

SAME_LOSS = 1e-4
"""How far apart the first losses of one graph on the same batch may be, as a share."""

TORCH_PYTHON = "SLIMTUNE_BENCH_TORCH_PYTHON"
"""Environment variable: the Python interpreter that has torch and timm."""


def cases(directory: Path, quick: bool, progress: Progress = SILENT) -> list[Case]:
    """Draws the pictures, writes Inception-v3's weights (0.6 GB together), and makes the cases."""
    draw_pictures(directory, PICTURES, progress)
    with progress.task("Writing Inception-v3's checkpoint with TensorFlow", None):
        run_work(python("scripts.bench.groups.inception_files", directory), directory)
    return cases_on(directory / "dataset", directory / "v2" / "model.ckpt", NET, SIZE)


def cases_on(dataset: Path, checkpoint: Path, net: str, size: int) -> list[Case]:
    """The cases on any pictures and net.

    Args:
      dataset: directory of shards.
      checkpoint: prefix of the net's weights, its head included.
      net: name of a registered net; the peers' is Inception-v3 in any case.
      size: height and width of the input, in pixels.
    """
    paths = (str(dataset), str(checkpoint))
    head = Contender(
        "slimtune train",
        Step("scripts.bench.groups.train_head:train", (*paths, net, str(EPOCHS))),
    )
    # A batch at the end of an epoch goes on with the next epoch.
    part = str(EPOCHS * -(-PICTURES // HEAD_BATCH) // PEER_SHARE)

    def all_layers(function: str, precision: str = "fp32") -> Step:
        arguments = (*paths, net, str(size), str(BATCH), precision)
        module = "scripts.bench.groups.all_layer_steps"
        return Step(f"{module}:{function}", arguments, repeat=TIMED_STEPS)

    plain = Peer(
        "tf-slim, whole net",
        Step("scripts.bench.peers.train_head:train", (*paths, str(CLASSES), part)),
        target=HEAD_TARGET,
        times=PEER_SHARE,
    )
    found = [
        _head_case("head", head, plain),
        Case(
            name="all-layers",
            title=f"a step of all layers on {BATCH} pictures, input pipeline included",
            ours=Contender("slimtune's step", all_layers("piped")),
            peers=(Peer("bare session step", all_layers("bare"), BARE_TARGET),),
            check=same_work(tolerance=SAME_LOSS),
            most_rounds=ROUNDS,
            warm_up=False,
        ),
        Case(
            name="bf16",
            title=f"a step of all layers on {BATCH} pictures in bfloat16",
            ours=Contender("slimtune, bf16", all_layers("piped", "bf16")),
            peers=(Peer("slimtune, fp32", all_layers("piped"), BFLOAT16_TARGET),),
            check=same_work(tolerance=LOSS_TOLERANCE),
            in_quick=False,
            most_rounds=ROUNDS,
            warm_up=False,
            skipped=None if has_bfloat16() else f"the CPU has none of {', '.join(CPU_FLAGS)}",
        ),
    ]
    interpreter = torch_python()
    timm = str(Path(__file__).parents[1] / "peers" / "train_timm.py")
    no_torch = f"no Python with torch and timm; {TORCH_PYTHON} may name one"
    for name, function, python_of_peer, skipped in (
        ("Keras", "scripts.bench.peers.train_keras:train", None, None),
        ("timm", f"{timm}:train", interpreter, None if interpreter else no_torch),
    ):

        def step(layers: str, batch: int, steps: str, repeat: int) -> Step:
            arguments = (layers, str(SIZE if net == NET else size), str(batch), str(CLASSES), steps)
            return Step(function, arguments, repeat, python_of_peer)  # noqa: B023 - called at once

        peer = Peer(name, step("head", HEAD_BATCH, part, 1), AHEAD, times=PEER_SHARE)
        found += [
            _head_case(f"{name.lower()}-head", head, peer, skipped=skipped),
            Case(
                name=f"{name.lower()}-all",
                title=f"a step of all layers on {BATCH} pictures",
                ours=Contender("slimtune's step", all_layers("piped")),
                peers=(Peer(name, step("all", BATCH, "1", TIMED_STEPS), AHEAD),),
                check=same_work(),
                in_quick=False,
                most_rounds=PEER_ROUNDS,
                warm_up=False,
                skipped=skipped,
            ),
        ]
    return found


def torch_python() -> str | None:
    """The Python that has torch and timm: the one the environment names, else this one, or None."""
    named = os.environ.get(TORCH_PYTHON)
    if named:
        return named
    has_both = all(importlib.util.find_spec(name) for name in ("torch", "timm"))
    return sys.executable if has_both else None


def same_work(times: int = 1, tolerance: float | None = None) -> Check:
    """Compares how many pictures two steps trained on, and looks at their losses.

    Args:
      times: how often the peer's part goes into the job.
      tolerance: how far apart the losses of the first step may be, as a share (of 1, where they
        are smaller), where both began with the same weights and pictures.
    """

    def check(printed: Mapping[str, str]) -> str:
        ours, theirs = (json.loads(text) for text in printed.values())
        if ours["pictures"] != theirs["pictures"] * times:
            raise VerificationError(
                "The two did not train on as many pictures.",
                expected=f"{ours['pictures']}",
                received=f"{theirs['pictures']} x {times}",
            )
        losses = [one["loss"] for one in (ours, theirs)]
        if not all(isinstance(loss, float) and math.isfinite(loss) for loss in losses):
            raise VerificationError("A loss is no number.", expected="two numbers", received=losses)
        told = f"{ours['pictures']} pictures trained on, finite losses"
        if tolerance is not None:
            first, other = ours["first_loss"], theirs["first_loss"]
            if not abs(first - other) <= tolerance * max(1.0, abs(other)):
                raise VerificationError(
                    "The two first losses are apart.",
                    expected=f"{other}, within {tolerance:.2%}",
                    received=first,
                )
            told += f", the first {first:.4f} and {other:.4f}"
        versions = theirs.get("versions", {})
        return told + "".join(f", {name} {version}" for name, version in versions.items())

    return check


def _head_case(name: str, ours: Contender, peer: Peer, skipped: str | None = None) -> Case:
    """Head training: features once and steps on them, against the whole net in every step."""
    return Case(
        name=name,
        title=f"{EPOCHS} epochs of {PICTURES} pictures, features included",
        ours=ours,
        peers=(peer,),
        check=same_work(PEER_SHARE),
        in_quick=False,
        most_rounds=1,
        warm_up=False,
        skipped=skipped,
    )
