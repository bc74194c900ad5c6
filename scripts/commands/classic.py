"""slimtune classic: the scripts of TF-Slim and TensorFlow 1, with their old flags. They load on use."""

from __future__ import annotations

import click

from scripts.verb import LazyGroup

SUBCOMMANDS: dict[str, str] = {
    "download_and_convert_data": "scripts.classic.download_and_convert_data",
    "train_image_classifier": "scripts.classic.train_image_classifier",
    "eval_image_classifier": "scripts.classic.eval_image_classifier",
    "export_inference_graph": "scripts.classic.export_inference_graph",
    "freeze_graph": "scripts.classic.freeze_graph",
    "inspect_checkpoint": "scripts.classic.inspect_checkpoint",
    "optimize_for_inference": "scripts.classic.optimize_for_inference",
    "strip_unused": "scripts.classic.strip_unused",
    "retrain": "scripts.classic.retrain",
    "label_image": "scripts.classic.label_image",
}
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
