"""Makes the small base that ships with slimtune: `python -m scripts.sample_base OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from checkpoints.errors import SlimtuneError
from scripts.output import Output
from scripts.verb import verb


@verb("sample_base", example="python -m scripts.sample_base base --scratch /tmp")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S")
@click.option(
    "--scratch",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A directory with 4 GB of room for the drawn pictures. Default: the system's.",
)
@click.option(
    "--snapshots",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to leave the variables after every thousand steps.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is already there.")
def command(
    output: Output,
    out: Path,
    seed: int,
    scratch: Path | None,
    snapshots: Path | None,
    overwrite: bool,
) -> None:
    """Draw shapes and textures, pretrain the small Inception-v3 on them, write it to OUT.

    About half an hour on two cores.
    """
    from checkpoints.files import refuse_existing
    from finetune.sample.base import write_base
    from finetune.sample.pretrain import Recipe, pretrain

    refuse_existing(out, overwrite, is_directory=True)
    recipe = Recipe(seed=seed)
    made = pretrain(recipe, scratch, snapshots, output)
    write_base(out, made, recipe, overwrite=overwrite)
    output.result(
        {"path": out, "accuracy": made.accuracy, "seconds": made.seconds},
        f"{made.accuracy:.1%} of held-out shapes are right; {made.seconds / 60:.0f} minutes. "
        f"The base is in {out}.",
    )


def main() -> None:
    """Runs the command; a fault the user can mend ends in a message."""
    try:
        command.main(prog_name="python -m scripts.sample_base")
    except SlimtuneError as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
