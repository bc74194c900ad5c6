"""slimtune data sample: pictures drawn by slimtune itself, to try everything without a network."""

from __future__ import annotations

from pathlib import Path

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output
from scripts.verb import verb


@verb("sample", example="slimtune data sample flowers pictures --per-class 120 --seed 1")
@click.argument("what", type=click.Choice(["flowers", "digits"]))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--per-class",
    type=click.IntRange(1),
    metavar="N",
    help="Pictures of each class. Default: 120 flowers, 600 digits.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is already there.")
def command(
    output: Output, what: str, out: Path, per_class: int | None, seed: int, overwrite: bool
) -> None:
    """Draw pictures into the directory OUT, the same for the same seed.

    flowers: five kinds, class folders of JPEGs. digits: 0 to 9, the four IDX files that MNIST
    comes in; one picture in six goes to the test files.
    """
    from finetune.data import sample

    drawn = sample(what, out, per_class=per_class, seed=seed, overwrite=overwrite, progress=output)
    value = {"path": drawn.out_dir, "classes": drawn.classes, "count": drawn.count, "seed": seed}
    output.result(
        value,
        f"{drawn.count} pictures of {len(drawn.classes)} classes "
        f"({', '.join(drawn.classes)}) are in {drawn.out_dir}.",
    )
    output.next(shell_words("slimtune", "data", "build", Path(out), "shards"))
