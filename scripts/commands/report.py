"""slimtune report: the page about a run."""

from __future__ import annotations

import click

from scripts.output import Output
from scripts.verb import verb


@verb("report", example="slimtune report runs/flowers")
@click.argument("run", type=click.Path())
def command(output: Output, run: str) -> None:
    """Write RUN/report.html again: what was trained from what, how well, and how to repeat it.

    One page without scripts and network: learning curves, confusion matrix, classes, surest
    mistakes as pictures, the plan, the options and the commands.
    """
    from finetune.report import write_report

    path = write_report(run, progress=output)
    output.result({"run": run, "report": str(path), "bytes": path.stat().st_size}, str(path))
