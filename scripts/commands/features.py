"""slimtune features: the bottleneck of every picture, as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from checkpoints.command_lines import shell_words
from scripts.commands.plan import PREPROCESSINGS
from scripts.output import Output, one_line
from scripts.runner_options import runner_options
from scripts.verb import verb


@verb("features", example="slimtune features runs/flowers flowers features.npz")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path())
@click.argument("out", type=click.Path())
@click.option("--net", metavar="NAME", help="The net of a checkpoint.")
@click.option(
    "--bottleneck",
    metavar="TENSOR",
    help="Of a graph without metadata. Default: what feeds its last layer.",
)
@click.option("--input", metavar="TENSOR", help="Of such a graph: what takes the pictures.")
@click.option(
    "--preprocessing", type=click.Choice(PREPROCESSINGS), help="Of such a graph; inception."
)
@click.option("--image-size", type=click.IntRange(1), metavar="PX", help="Of such a graph.")
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
@runner_options
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
def command(output: Output, model: str, data: str, out: str, **options: Any) -> None:
    """Write the bottleneck of every picture of DATA to OUT, an .npz file.

    MODEL is a run, a model file, a checkpoint with --net, or any frozen graph. OUT holds features
    float32 [pictures, channels], labels, paths, splits and classes; numpy.load reads it.
    """
    from finetune.feature_file import features

    written = features(model, data, out, progress=output, **options)
    output.result(
        written.as_json(),
        f"{one_line(written.path)}: {written.channels} features of each of {written.count} pictures, the "
        f"values of {written.tensor}.",
    )
    output.next(shell_words("slimtune", "inspect", Path(written.path)))
