"""Group `input`: pictures to shards and shards to batches, against plain TensorFlow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkpoints.errors import VerificationError
from checkpoints.progress import SILENT, Progress
from scripts.bench.case import Case, Check, Contender, Peer, Step, python, slimtune
from scripts.bench.process import run_work

TRAIN_TARGET = 1.8
EVALUATE_TARGET = 1.0
BUILD_TARGET = 2.5

PICTURES = 1024
WIDTH, HEIGHT = 500, 375
NET_SIZE = 299


def cases(directory: Path, quick: bool, progress: Progress = SILENT) -> list[Case]:
    """Draws the pictures in `directory` (0.2 GB) and makes the cases on them."""
    draw_pictures(directory, PICTURES, progress)
    return cases_on(directory, PICTURES, NET_SIZE)


def draw_pictures(directory: Path, count: int, progress: Progress) -> None:
    """Draws so many pictures of a photograph's size, in a process of its own, and their dataset."""
    with progress.task(f"Drawing {count} pictures of {WIDTH}x{HEIGHT}", None):
        sizes = map(str, (count, WIDTH, HEIGHT))
        run_work(python("scripts.bench.groups.input_files", directory, *sizes), directory)


def cases_on(directory: Path, count: int, size: int) -> list[Case]:
    """The cases on any pictures.

    Args:
      directory: holds `pictures`, class folders, and `dataset`, built of them.
      count: how many there are.
      size: of the net's input, in pixels.
    """
    arguments = (str(directory / "dataset"), str(size), str(count))
    ours, plain = "scripts.bench.groups.read_pictures", "scripts.bench.peers.read_pictures"
    return [
        Case(
            name="train",
            title="an epoch of distorted pictures",
            ours=Contender("slimtune", Step(f"{ours}:train", arguments, repeat=3)),
            peers=(Peer("tf.data", Step(f"{plain}:train", arguments, repeat=3), TRAIN_TARGET),),
            check=same_result(f"pictures of each class in an epoch of {count}"),
        ),
        Case(
            name="evaluate",
            title="each picture once, as evaluation sees it",
            ours=Contender("slimtune", Step(f"{ours}:evaluate", arguments, repeat=3)),
            peers=(
                Peer("tf.data", Step(f"{plain}:evaluate", arguments, repeat=3), EVALUATE_TARGET),
            ),
            check=same_result(f"pixels and labels of {count} pictures, bit for bit"),
        ),
        _build_case(directory),
    ]


def same_result(what: str) -> Check:
    """Compares what two steps returned; `what` says what that is."""

    def check(printed: Mapping[str, str]) -> str:
        ours, theirs = (json.loads(text) for text in printed.values())
        if ours != theirs:
            raise VerificationError(
                "The two pipelines did not give the same pictures.",
                expected=theirs,
                received=ours,
            )
        return what

    return check


def _build_case(directory: Path) -> Case:
    pictures = directory / "pictures"
    ours, theirs = directory / "slimtune-shards", directory / "slim-shards"
    return Case(
        name="build",
        title="class folders to shards, each picture decoded",
        ours=Contender(
            "slimtune data build",
            slimtune("data", "build", pictures, ours, "--val", "0", "--overwrite", "--json"),
        ),
        peers=(
            Peer(
                "TF-Slim's way",
                python("scripts.bench.peers.build_records", pictures, theirs),
                target=BUILD_TARGET,
            ),
        ),
        check=_same_records(ours, theirs),
    )


def _same_records(ours: Path, theirs: Path) -> Check:
    """Compares picture bytes, labels and sizes of two directories of shards, in whatever order."""

    def check(printed: Mapping[str, str]) -> str:
        found, expected = _records(ours), _records(theirs)
        if found != expected:
            raise VerificationError(
                "The two directories do not hold the same records.",
                expected=f"{expected.total()} records",
                received=f"{found.total()}, of which {(found & expected).total()} are there too",
            )
        return f"bytes, labels and sizes of {found.total()} pictures"

    return check


def _records(directory: Path) -> Counter[Any]:
    from finetune.datasets.records import parse_example, read_records

    names = ("image/encoded", "image/class/label", "image/height", "image/width")
    found: Counter[Any] = Counter()
    for path in sorted(directory.glob("*.tfrecord")):
        for record in read_records(path):
            features = parse_example(record)
            found[tuple(features[name][0] for name in names)] += 1
    return found
