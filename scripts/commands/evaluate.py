"""slimtune evaluate: how good a model is on a split."""

from __future__ import annotations

import click

from scripts.output import Output
from scripts.verb import shell_words, verb


@verb("evaluate", example="slimtune evaluate runs/flowers flowers-data --split val")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path())
@click.option("--split", metavar="train|val|test", help="Default: val, else test.")
@click.option("--net", metavar="NAME", help="The net of a checkpoint.")
@click.option("--trust", is_flag=True, help="Let a graph use files, network and Python ops.")
def command(
    output: Output, model: str, data: str, split: str | None, net: str | None, trust: bool
) -> None:
    """Score MODEL on DATA, each picture once.

    MODEL is a run, a .pb, .onnx or .tflite, a SavedModel, or a checkpoint with --net.
    """
    from rich.table import Table

    from finetune.evaluation import evaluate

    found = evaluate(model, data, split=split, net=net, trust=trust, progress=output)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("class", "pictures", "precision", "recall"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    for row in found.per_class():
        shares = ("-" if row[k] is None else f"{row[k]:.1%}" for k in ("precision", "recall"))
        table.add_row(row["class"], str(row["count"]), *shares)
    top5 = "" if found.top5 is None else f", top-5 {found.top5:.1%}"
    step = "" if found.step is None else f" at step {found.step}"
    output.result(
        {"model": model, "data": data, **found.as_json()},
        table,
        f"{model}{step}: accuracy {found.accuracy:.1%}{top5} on {found.count} pictures of "
        f"{found.split}.",
    )
    output.next(shell_words("slimtune", "convert", model, "model.pb"))
