"""slimtune compare: one model in several forms, on the same pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scripts.output import Output, one_line
from scripts.rows import Rows
from scripts.verb import names_option, verb

if TYPE_CHECKING:
    from finetune.evaluating.comparison import FormScore


@verb("compare", example="slimtune compare runs/flowers flowers-data --formats pb,tflite,onnx")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path())
@names_option(
    "--formats", metavar="FORM,...", help="pb, saved-model, tflite, onnx; all if left out."
)
@click.option("--split", metavar="train|val|test", help="Default: val, else test.")
@click.option("--net", metavar="NAME", help="The net of a checkpoint.")
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
def command(
    output: Output,
    model: str,
    data: str,
    formats: tuple[str, ...],
    split: str | None,
    net: str | None,
    trust: bool,
) -> None:
    """Write MODEL in several forms, and compare size, answers and speed of each on DATA.

    MODEL is a run, a .pb, a SavedModel, or a checkpoint with --net. Nothing is kept.
    """
    from finetune.evaluating.comparison import FORMATS, compare

    found = compare(
        model,
        data,
        formats=formats or FORMATS,
        split=split,
        net=net,
        trust=trust,
        progress=output,
    )
    errors = [f"{score.form}: {score.error}" for score in found.forms if score.error is not None]
    output.result(
        {"model": model, "data": data, **found.as_json()},
        _table(found.forms),
        f"{one_line(model)}: accuracy {found.accuracy:.1%} on {found.count} pictures of {found.split}.",
        *errors,
    )
    if errors:
        raise click.exceptions.Exit(1)


def _table(scores: tuple[FormScore, ...]) -> Rows:
    headings = ("form", "size", "accuracy", "agreement", "max difference", "ms a picture")
    table = Rows(*headings, texts=("form",))
    for score in scores:
        if score.bytes is None:
            table.add(score.form, *"-" * (len(headings) - 1))
            continue
        table.add(
            score.form,
            f"{score.bytes / 1e6:,.1f} MB",
            f"{score.accuracy:.1%}",
            f"{score.agreement:.1%}",
            f"{score.max_difference:.2g}",
            f"{score.ms:.1f}",
        )
    return table
