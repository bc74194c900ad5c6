"""Options of `evaluate` and `predict` for graphs that another program wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from finetune.foreign_graph import Description


def foreign_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --preprocessing and --labels."""
    labels = click.option(
        "--labels",
        type=click.Path(),
        metavar="FILE",
        help="Its class names, one a line; with --preprocessing.",
    )
    preprocessing = click.option(
        "--preprocessing",
        metavar="KIND",
        help="Of a graph that another program wrote: inception, vgg, lenet, cifar or none.",
    )
    return preprocessing(labels(function))


def describe(preprocessing: str | None, labels: str | None) -> Description | None:
    """What was said of such a graph; None where nothing was."""
    if preprocessing is None:
        if labels is not None:
            raise click.UsageError("--labels goes with --preprocessing.")
        return None
    from finetune.foreign_graph import Description

    return Description(preprocessing, None if labels is None else Path(labels))
