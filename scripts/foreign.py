"""Options of `evaluate` and `predict` for graphs that another program wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scripts.verb import option_group

if TYPE_CHECKING:
    from finetune.foreign_graph import Description


foreign_options = option_group(
    click.option(
        "--preprocessing",
        metavar="KIND",
        help="Of a graph that another program wrote: inception, vgg, lenet, cifar, grey, none or unit.",
    ),
    click.option(
        "--labels",
        type=click.Path(),
        metavar="FILE",
        help="Its class names, one a line; with --preprocessing.",
    ),
)


def describe(preprocessing: str | None, labels: str | None) -> Description | None:
    """What was said of such a graph; None where nothing was."""
    if preprocessing is None:
        if labels is not None:
            raise click.UsageError("--labels goes with --preprocessing.")
        return None
    from finetune.foreign_graph import Description

    return Description(preprocessing, None if labels is None else Path(labels))
