"""slimtune train: fine-tune a net on pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkpoints.command_lines import shell_words
from scripts.commands.plan import plan_options
from scripts.output import Output
from scripts.verb import verb

OPTIMIZERS = ("adam", "rmsprop", "momentum", "sgd")
SCHEDULES = ("fixed", "exponential")
AUGMENTS = ("none", "fast", "full")


@verb(
    "train",
    example="slimtune data sample flowers flowers\n"
    "slimtune train flowers --run runs/flowers --checkpoint sample",
)
@click.argument("data", type=click.Path())
@click.option("--run", required=True, type=click.Path(), metavar="DIR", help="The run directory.")
@plan_options
@click.option("--steps", type=int, metavar="N", help="Steps of the whole run.")
@click.option("--epochs", type=int, metavar="N", help="Or how often each picture is shown; 10.")
@click.option("--batch-size", type=int, metavar="N", help="Pictures a step; 32.")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS), help="adam.")
@click.option("--learning-rate", type=float, metavar="RATE", help="One that suits the optimiser.")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="Of the learning rate; fixed.")
@click.option("--decay-steps", type=int, metavar="N", help="Steps of one decay; two epochs.")
@click.option("--decay-rate", type=float, metavar="FACTOR", help="Factor of one decay; 0.94.")
@click.option("--staircase", is_flag=True, default=None, help="Decay in stairs.")
@click.option(
    "--weight-decay", type=float, metavar="FACTOR", help="L2 of trained weights; 0.00004."
)
@click.option("--label-smoothing", type=float, metavar="SHARE", help="0.")
@click.option("--dropout", type=float, metavar="SHARE", help="Before the logits; the net's own.")
@click.option(
    "--augment", type=click.Choice(AUGMENTS), help="Distortion of training pictures; full."
)
@click.option("--seed", type=int, metavar="N", help="Of initial values, order, distortion; 0.")
@click.option("--eval-every", type=int, metavar="STEPS", help="Between evaluations; five in a run.")
@click.option(
    "--keep", type=int, metavar="N", help="How many checkpoints are kept, the best apart; 3."
)
@click.option("--resume", is_flag=True, help="Go on with an unfinished run.")
@click.option("--overwrite", is_flag=True, help="Start again.")
def command(output: Output, **options: Any) -> None:
    """Fine-tune a net on DATA: a dataset directory, or a folder of class folders of pictures.

    Without options: Inception-v3 from its published checkpoint, the main head trained, everything
    else frozen and proved bit-equal at the end.
    """
    from finetune.config import TrainConfig
    from finetune.training import train

    given = {name: value for name, value in options.items() if value not in (None, ())}
    result = train(TrainConfig(**given), progress=output)
    lines = [f"{result.run}: step {result.step}."]
    if result.accuracy is not None:
        lines.append(f"Validation accuracy {result.accuracy:.1%}.")
    if result.pictures_per_second:
        lines.append(f"{result.pictures_per_second:.0f} pictures/s.")
    output.result(result.as_json(), " ".join(lines), f"Report: {result.run}/report.html")
    output.next(
        shell_words("slimtune", "evaluate", Path(result.run), Path(options["data"])),
        shell_words("slimtune", "convert", Path(result.run), "model.pb"),
    )
