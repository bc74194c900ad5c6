"""slimtune classic: the scripts of TF-Slim and TensorFlow 1, with their old flags. They load on use."""

from __future__ import annotations

import click

from scripts.verb import LazyGroup

SUBCOMMANDS: dict[str, str] = {}
"""An old script's name -> the module that holds it as `command`."""


@click.group(
    "classic",
    cls=LazyGroup,
    table=SUBCOMMANDS,
    epilog="\b\nExample:\n  slimtune classic export_inference_graph --model_name=inception_v3 "
    "--output_file=inception_v3_inf_graph.pb",
)
def command() -> None:
    """Run old command lines: TF-Slim's and TensorFlow's scripts."""
