"""slimtune data check: what is wrong with pictures or shards."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from checkpoints.errors import counted
from scripts.output import Output, one_line
from scripts.rows import Rows
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.datasets.findings import CheckResult

_SHOWN = 50


@verb("check", example="slimtune data check flowers\nslimtune data check shards --json")
@click.argument("path", type=click.Path())
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Worker processes. Default: one a core.",
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Levels of folders that make a class's name.",
)
def command(output: Output, path: str, processes: int | None, depth: int) -> None:
    """Find what is wrong with pictures or shards.

    Looks at every picture of PATH, whatever data build takes, or at every record of a dataset, a
    shard or another TFRecord file. Exit 1 where something is found: broken, misnamed or doubled pictures, classes without
    pictures, folders at the wrong level, damaged records, labels that name no class. What
    data build puts right by itself is a note under --json and no problem.
    """
    from finetune.datasets.check import check

    result = check(path, depth=depth, processes=processes, progress=output)
    output.result(result.as_json(), *_renderables(result))
    if result.problems:
        raise click.exceptions.Exit(1)


def _renderables(result: CheckResult) -> list[Rows | str]:

    what = "picture" if result.kind == "pictures" else "record"
    looked = f"{one_line(result.path)}: {counted(result.num_pictures, what)}"
    if result.classes:
        number = len(result.classes)
        looked += f" in {number} class{'' if number == 1 else 'es'}"
    looked += " looked at"
    notes = Counter(note.detail for note in result.notes if note.kind == "changed")
    lines = [f"  put right by data build: {count} x {detail}" for detail, count in notes.items()]
    repeats = sum(note.kind == "repeated" for note in result.notes)
    if repeats:
        lines.append(f"  the same picture again in one class and split: {repeats} x")
    if not result.problems:
        return [f"{looked}, no problems.", *lines]
    headings = ("problem", "where", "what")
    table = Rows(*headings, texts=headings)
    for problem in result.problems[:_SHOWN]:
        table.add(problem.kind, problem.path, problem.detail)
    found = len(result.problems)
    if found > _SHOWN:
        lines.insert(0, f"and {found - _SHOWN} more; --json has all of them.")
    return [f"{looked}, {counted(found, 'problem')}:", table, *lines]
