"""The command lines that do a run again, quoted for a shell."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.command_lines import path_word
from finetune.config import TrainConfig
from finetune.report.facts import Facts

POSITIONAL = ("data", "run")


@dataclass(frozen=True)
class Option:
    """One training option.

    Attributes:
      flag: as it is typed.
      value: as it is typed; empty for a switch that is off or an option left out.
      is_default: whether it was left at its default.
    """

    flag: str
    value: str
    is_default: bool


@dataclass(frozen=True)
class Command:
    """A command line and what it is for."""

    purpose: str
    line: str


def options(config: TrainConfig) -> list[Option]:
    """Every option of the run but its paths, those that were given first."""
    found = [
        Option(
            "--" + field.name.replace("_", "-"),
            _typed(getattr(config, field.name)),
            getattr(config, field.name) == field.default,
        )
        for field in dataclasses.fields(config)
        if field.name not in (*POSITIONAL, "resume", "overwrite")
    ]
    return sorted(found, key=lambda option: option.is_default)


def commands(facts: Facts, pictures: Sequence[str]) -> list[Command]:
    """Train, evaluate, convert, predict and report, with the paths of this run.

    Args:
      facts: the run.
      pictures: paths of pictures to predict; without any, a name to be replaced stands there.
    """
    config = facts.config
    directory = facts.run.directory
    if directory.name in ("", ".."):
        # "." and ".." have no name that another could stand beside.
        directory = directory.resolve()
    run = str(directory)
    model = str(directory.parent / "model.pb")
    # Another directory: the run's own would be refused, or lost with --overwrite.
    again = str(directory.with_name(f"{directory.name}-again"))
    train = ["slimtune", "train", _path(config.data), "--run", _path(again)]
    for option in options(config):
        if not option.is_default:
            train += [option.flag] if option.value == "yes" else [option.flag, option.value]
    evaluate = ["slimtune", "evaluate", _path(run), _path(config.data)]
    if facts.evaluated is not None:
        evaluate += ["--split", facts.evaluated.split]
    convert = ["slimtune", "convert", _path(run), _path(model)]
    predict = ["slimtune", "predict", _path(model), *(map(_path, pictures or ["PICTURE.jpg"]))]
    report = ["slimtune", "report", _path(run), "--model", _path(model)]
    lines = [
        ("Train it again", train),
        ("Evaluate it", evaluate),
        ("Freeze it into one file", convert),
        ("Ask that file about pictures", predict),
        ("Write this page again, the file compared", report),
    ]
    return [Command(purpose, shlex.join(words)) for purpose, words in lines]


def _typed(value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return str(value)


def _path(path: str | Path) -> str:
    """A path that no command takes for an option."""
    return path_word(Path(path))
