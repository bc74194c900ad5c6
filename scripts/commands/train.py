"""slimtune train: fine-tune a net on pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkpoints.command_lines import shell_words
from scripts.commands.plan import plan_options
from scripts.output import Output, one_line
from scripts.training_options import (
    course_options,
    feature_options,
    given_options,
    head_options,
    partition_options,
    place_options,
    rate_options,
    unfreeze_options,
)
from scripts.verb import verb


@verb(
    "train",
    example="slimtune data sample flowers flowers\n"
    "slimtune train flowers --run runs/flowers --checkpoint sample",
)
@click.argument("data", type=click.Path())
@click.option("--run", required=True, type=click.Path(), metavar="DIR", help="The run directory.")
@plan_options
@partition_options
@click.option("--steps", type=int, metavar="N", help="Steps of the whole run.")
@click.option("--epochs", type=int, metavar="N", help="Or how often each picture is shown; 10.")
@click.option("--batch-size", type=int, metavar="N", help="Pictures a step, of all machines; 32.")
@click.option(
    "--label-offset",
    type=int,
    metavar="N",
    help="The label of the first class, where the data do not say it: 1 leaves a background out.",
)
@rate_options
@unfreeze_options
@head_options
@feature_options
@click.option("--seed", type=int, metavar="N", help="Of initial values, order, distortion; 0.")
@course_options
@place_options
@click.option("--resume", is_flag=True, help="Go on with an unfinished run.")
@click.option("--overwrite", is_flag=True, help="Start again.")
def command(output: Output, recipe: str | None, **options: Any) -> None:
    """Fine-tune a net on DATA: a dataset directory, or pictures of any kind data build takes.

    Without options: Inception-v3 from its published checkpoint, the main head trained, everything
    else frozen and proved bit-equal at the end. What is frozen runs once a picture, and its
    features are stored for all epochs and later runs.
    """
    from finetune.config import TrainConfig
    from finetune.training.training import train

    result = train(TrainConfig(**given_options(recipe, options)), progress=output)
    lines = [f"{one_line(result.run)}: step {result.step}."]
    if result.accuracy is not None:
        lines.append(f"Validation accuracy {result.accuracy:.1%}.")
    if result.pictures_per_second:
        lines.append(f"{result.pictures_per_second:.0f} pictures/s.")
    if result.is_follower:
        output.result(result.as_json(), " ".join(lines))
        return
    output.result(result.as_json(), " ".join(lines), f"Report: {one_line(result.run)}/report.html")
    output.next(
        shell_words("slimtune", "evaluate", Path(result.run), Path(options["data"])),
        shell_words("slimtune", "convert", Path(result.run), "model.pb"),
    )
