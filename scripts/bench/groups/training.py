"""Group `training`: a new head on Inception-v3, against the plain recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from checkpoints.errors import VerificationError
from checkpoints.progress import SILENT, Progress
from scripts.bench.case import Case, Contender, Peer, Step, python
from scripts.bench.process import run_work

HEAD_TARGET = 20.0

NET = "inception_v3"
CLASSES = 5
PICTURES = 1000
WIDTH, HEIGHT = 500, 375
EPOCHS = 20
PEER_SHARE = 80
"""The peer runs one of so many parts of the steps, which are all alike."""


def cases(directory: Path, progress: Progress = SILENT) -> list[Case]:
    """Draws the pictures, writes Inception-v3's weights (0.6 GB together), and makes the cases."""
    with progress.task(f"Drawing {PICTURES} pictures of {WIDTH}x{HEIGHT}", None):
        sizes = map(str, (PICTURES, WIDTH, HEIGHT))
        run_work(python("scripts.bench.groups.input_files", directory, *sizes), directory)
    with progress.task("Writing Inception-v3's checkpoint with TensorFlow", None):
        run_work(python("scripts.bench.groups.inception_files", directory), directory)
    return [head_case(directory / "dataset", directory / "v2" / "model.ckpt")]


def head_case(dataset: Path, checkpoint: Path) -> Case:
    """Head training: features once and steps on them, against the whole net in every step.

    Args:
      dataset: directory of shards.
      checkpoint: prefix of the net's weights.
    """
    # A batch of 32 at the end of an epoch goes on with the next epoch.
    steps = EPOCHS * -(-PICTURES // 32)
    paths = (str(dataset), str(checkpoint))
    return Case(
        name="head",
        title=f"{EPOCHS} epochs of {PICTURES} pictures, features included",
        ours=Contender(
            "slimtune train",
            Step("scripts.bench.groups.train_head:train", (*paths, NET, str(EPOCHS))),
        ),
        peers=(
            Peer(
                "tf-slim, whole net",
                Step(
                    "scripts.bench.peers.train_head:train",
                    (*paths, str(CLASSES), str(steps // PEER_SHARE)),
                ),
                target=HEAD_TARGET,
                times=PEER_SHARE,
            ),
        ),
        check=_same_pictures,
        most_rounds=1,
    )


def _same_pictures(printed: Mapping[str, str]) -> str:
    """Compares how many pictures were trained on."""
    ours, theirs = (json.loads(text) for text in printed.values())
    if ours != theirs * PEER_SHARE:
        raise VerificationError(
            "The two did not train on as many pictures.",
            expected=f"{ours}",
            received=f"{theirs} x {PEER_SHARE}",
        )
    return f"{ours} pictures trained on"
