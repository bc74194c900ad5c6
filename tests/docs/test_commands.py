"""Every command in the pages: all are parsed, and run in their order with small data."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest

from scripts.command_line import cli
from scripts.documentation.commands import walk

NOT_HERE = {
    "docs/beam.md": "several machines and cloud storage; tests/finetune/beam runs what one machine can",
    "docs/benchmarks.md": "half an hour of measurements; tests/scripts/bench runs the groups' cases",
    "docs/classic.md": "tests/scripts/classic types these lines, with the archives they download",
    "docs/workers.md": "several machines, or GPUs; tests/finetune/workers runs processes of one",
}
"""Pages whose commands are not run by this file, and why."""


@dataclass(frozen=True)
class Scenario:
    """What a page's commands find when they are typed one after the other.

    Attributes:
      needs: what lies there before, by the names of World.
      shorter: patterns in a command -> what is typed instead, so that it takes less time.
      leave: beginnings of commands that are not typed, and why.
      quick: how many of the first commands are run in the short form too.
    """

    needs: tuple[str, ...] = ()
    shorter: Mapping[str, str] = field(default_factory=dict)
    leave: Mapping[str, str] = field(default_factory=dict)
    quick: int = 0


SMALL = {r"^(train (?!.*--(net|resume|checkpoint)\b).*)$": r"\1 --checkpoint sample"}
"""The small net in the place of the published one, whose scopes have the same names."""

SCENARIOS = {
    "README.md": Scenario(
        needs=("published", "train.meta", "inception_v3.ckpt"),
        shorter={
            r"^(data sample flowers pictures)$": r"\1 --per-class 12",
            "rose_0001.jpg": "rose_0001.jpg --top 3",
        },
        quick=6,
    ),
    "docs/losses.md": Scenario(
        needs=("pictures", "toys.csv", "picture.jpg", "counts", "baskets.py"),
        shorter={**SMALL, r"^(train .*)$": r"\1 --steps 3"},
    ),
    "docs/migration.md": Scenario(
        needs=(
            "pictures",
            "flowers-data",
            "inception_v3.ckpt",
            "train.ckpt",
            "output_graph.pb",
            "exported",
        ),
        shorter={
            **SMALL,
            "--steps (1000|4000)": "--steps 3",
            r"^(train .* --net keras.pb .*)$": r"\1 --steps 3",
        },
    ),
    "docs/mnist.md": Scenario(
        needs=("digits",),
        shorter={
            r"^(mnist .*)$": r"\1 --steps 20",
            "--epochs 5": "--steps 20",
        },
        leave={"data download": "the internet"},
    ),
    "docs/recipes.md": Scenario(
        needs=(
            "pictures",
            "flowers-data",
            "flower_photos",
            "frozen.pb",
            "toys",
            "toys.csv",
            "few",
            "mynet.py",
        ),
        shorter={
            **SMALL,
            "--steps 1500 --unfreeze-at 1000:": "--steps 3 --unfreeze-at 2:",
            "--epochs 12 --unfreeze-at 5e:all": "--steps 3 --unfreeze-at 2:all",
            "--recipe slim-flowers": "--recipe slim-flowers --steps 3 --unfreeze-at 2:all --batch-size 8",
            "--recipe retrain --net inception_v3": "--recipe retrain --steps 3 --checkpoint sample",
            r"^(train (toys-data|few-data|flowers-data --run runs/balanced).*)$": r"\1 --steps 3",
            "--views 8": "--views 2",
        },
        leave={"data download": "the internet"},
    ),
    "docs/serving.md": Scenario(needs=("pictures", "flowers-data", "runs/flowers")),
    "docs/training.md": Scenario(
        needs=("flowers",), shorter={**SMALL, "--epochs 20": "--epochs 11"}
    ),
    "docs/tutorial.md": Scenario(
        needs=("published", "pictures"), shorter={"--steps 40": "--steps 3"}, quick=4
    ),
}


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words call, and its arguments."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    return command, words


def parse(words: list[str]) -> None:
    """Raises click's error where the words are no command line of ours."""
    command, arguments = command_of(words)
    command.make_context("slimtune", list(arguments))


def test_every_page_with_commands_is_run_or_says_why_not(pages):
    assert set(SCENARIOS) | set(NOT_HERE) == set(pages)


def test_every_command_is_understood(pages):
    lines = [line for found in pages.values() for line in found if "..." not in line.text]
    assert len(lines) > 80
    wrong = []
    for line in lines:
        try:
            parse(line.words)
        except (click.ClickException, AssertionError) as error:
            wrong.append(f"{line.page}:{line.number}: {line.text}: {error}")
    assert wrong == []


def test_every_example_of_the_help_is_understood():
    count = 0
    for _, command in walk(cli):
        for text in re.findall(r"^ *(?:.* \| )?slimtune (.*)$", command.epilog or "", re.MULTILINE):
            if not re.search(r"[<>|)]", text):
                parse(shlex.split(text))
                count += 1
    assert count > 30


def run(page: str, lines: list[Any], folder: Path, world: Any, type_line: Any) -> None:
    """Types a page's commands in a folder, each of which has to end well."""
    scenario = SCENARIOS[page]
    for line in lines:
        text = line.text
        if any(text.startswith(f"slimtune {beginning}") for beginning in scenario.leave):
            continue
        for pattern, instead in scenario.shorter.items():
            text = "slimtune " + re.sub(pattern, instead, text.removeprefix("slimtune "))
        ended = type_line(folder, *type(line)(line.page, line.number, text).words)
        assert ended.status == 0, f"{page}:{line.number}: {text}\n{ended.stdout}{ended.stderr}"


@pytest.fixture
def folder(world, request):
    """A folder for a page's commands, beside the cache that all share."""
    made = world.folder.parent / re.sub(r"\W", "-", request.node.name)
    made.mkdir()
    return made


@pytest.mark.tensorflow
@pytest.mark.parametrize("page", [page for page, found in SCENARIOS.items() if found.quick])
def test_the_first_commands_run(page, pages, folder, world, type_line):
    scenario = SCENARIOS[page]
    for name in set(scenario.needs) - {"published", "train.meta", "inception_v3.ckpt"}:
        world.lay(name, folder)
    run(page, pages[page][: scenario.quick], folder, world, type_line)


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("page", list(SCENARIOS))
def test_all_commands_run_one_after_the_other(page, pages, folder, world, type_line):
    for name in SCENARIOS[page].needs:
        world.lay(name, folder)
    run(page, pages[page], folder, world, type_line)
