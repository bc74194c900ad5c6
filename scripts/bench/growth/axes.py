"""What grows, how far, and the jobs that are measured at each size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.case import Command, Step, Work, python, slimtune

FILES = "scripts.bench.growth.files"


@dataclass(frozen=True)
class Job:
    """One thing that slimtune does.

    Attributes:
      name: as it stands in tables.
      work: the directory of one size, and the size -> what is run. Later jobs find there what
        earlier ones wrote.
      largest: the largest size at which it is measured, or None.
    """

    name: str
    work: Callable[[Path, int], Work]
    largest: int | None = None


@dataclass(frozen=True)
class Axis:
    """What grows.

    Attributes:
      name: one word.
      unit: what is counted.
      sizes: from small to large, tenfold or more each.
      make: writes the files of one size into a directory.
      jobs: in the order they run.
    """

    name: str
    unit: str
    sizes: tuple[int, ...]
    make: Callable[[Path, int], Command]
    jobs: tuple[Job, ...]


def _made(kind: str) -> Callable[[Path, int], Command]:
    return lambda directory, size: python(FILES, kind, directory, str(size))


def _slimtune(*arguments: str) -> Callable[[Path, int], Work]:
    """The command line; "{}" stands for the directory, "{size}" for the size."""
    return lambda directory, size: slimtune(
        *(text.replace("{}", str(directory)).replace("{size}", str(size)) for text in arguments)
    )


def _step(function: str, *arguments: str) -> Callable[[Path, int], Work]:
    return lambda directory, size: Step(
        function, tuple(text.replace("{}", str(directory)) for text in arguments)
    )


_OVER = ("--overwrite", "--json")
_GIGABYTE = 10**9


def _data_build(val: str) -> Job:
    work = _slimtune("data", "build", "{}/pictures", "{}/data", "--val", val, *_OVER)
    return Job("data build", work)


AXES = (
    Axis(
        "variables",
        "variables",
        (100, 1_000, 10_000, 100_000),
        _made("variables"),
        (
            Job("inspect", _slimtune("inspect", "{}/v2.ckpt", "--json")),
            Job("read", _step("scripts.bench.groups.read_values:read_with_slimtune", "{}/v2.ckpt")),
            Job("verify", _slimtune("verify", "{}/v2.ckpt", "--json")),
            Job("convert to V1", _slimtune("convert", "{}/v2.ckpt", "{}/v1", "--to", "v1", *_OVER)),
            Job("convert to V2", _slimtune("convert", "{}/v1", "{}/again", "--to", "v2", *_OVER)),
            Job("diff", _slimtune("diff", "{}/v2.ckpt", "{}/again", "--json")),
        ),
    ),
    Axis(
        "bytes",
        "bytes",
        (10**7, 10**8, 10**9, 10**10),
        _made("bytes"),
        (
            Job("inspect", _slimtune("inspect", "{}/large.ckpt", "--json")),
            Job("verify", _slimtune("verify", "{}/large.ckpt", "--json"), _GIGABYTE),
            Job(
                "convert to V1",
                _slimtune("convert", "{}/large.ckpt", "{}/v1", "--to", "v1", *_OVER),
                _GIGABYTE,
            ),
            Job("diff", _slimtune("diff", "{}/large.ckpt", "{}/v1", "--json"), _GIGABYTE),
        ),
    ),
    Axis(
        "nodes",
        "nodes",
        (1_000, 10_000, 100_000),
        _made("nodes"),
        (
            Job("inspect", _slimtune("inspect", "{}/graph.pb", "--json")),
            Job("thaw", _slimtune("convert", "{}/graph.pb", "{}/thawed.ckpt", *_OVER)),
            Job(
                "freeze",
                _slimtune(
                    *("convert", "{}/thawed.ckpt", "{}/frozen.pb", "--outputs", "out"), *_OVER
                ),
            ),
            Job(
                "fold",
                _slimtune(
                    *("convert", "{}/graph.pb", "{}/folded.pb", "--optimize", "--verify", "none"),
                    *_OVER,
                ),
            ),
            Job("diff", _slimtune("diff", "{}/graph.pb", "{}/frozen.pb", "--json")),
        ),
    ),
    Axis(
        "pictures",
        "pictures",
        (1_000, 10_000, 100_000),
        _made("pictures"),
        (
            _data_build("0"),
            Job("check pictures", _slimtune("data", "check", "{}/pictures", "--json")),
            Job("check shards", _slimtune("data", "check", "{}/data", "--json")),
            Job(
                "training pipeline",
                lambda directory, size: Step(
                    "scripts.bench.groups.read_pictures:train",
                    (str(directory / "data"), "32", str(min(size, 10_000))),
                ),
            ),
            Job(
                "evaluation pipeline",
                lambda directory, size: Step(
                    f"{FILES}:evaluate", (str(directory / "data"), "32", str(size))
                ),
            ),
        ),
    ),
    Axis(
        "classes",
        "classes",
        (100, 1_000, 10_000),
        _made("classes"),
        (
            _data_build("0.1"),
            Job("data check", _slimtune("data", "check", "{}/data", "--json")),
            Job(
                "plan",
                _slimtune(
                    *("plan", "--net", "inception_v3_sample", "--checkpoint", "sample"),
                    *("--classes", "{size}", "--json"),
                ),
            ),
            Job(
                "train 5 steps",
                _slimtune(
                    *("train", "{}/data", "--run", "{}/run", "--net", "inception_v3_sample"),
                    *("--checkpoint", "sample", "--steps", "5", "--cache", "off", *_OVER),
                ),
            ),
            # As text: --json prints the matrix of confusions, classes times classes.
            Job("evaluate", _slimtune("evaluate", "{}/run", "{}/data")),
            Job("report", _slimtune("report", "{}/run", "--json")),
            Job("export", _slimtune("convert", "{}/run", "{}/model.pb", *_OVER)),
        ),
    ),
)
