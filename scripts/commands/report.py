"""slimtune report: the page about a run."""

from __future__ import annotations

from pathlib import Path

import click

from scripts.output import Output, one_line
from scripts.verb import verb


@verb("report", example="slimtune report runs/flowers --model model.pb")
@click.argument("run", type=click.Path())
@click.option(
    "--model",
    type=click.Path(),
    metavar="FILE",
    help="An export of the run: run on the evaluated pictures too, and compared.",
)
@click.option("--trust", is_flag=True, help="Let the export use files, network and Python ops.")
def command(output: Output, run: str, model: str | None, trust: bool) -> None:
    """Write RUN/report.html again: what was trained from what, how well, and how to repeat it.

    One page without scripts and network: learning curves, confusion matrix, classes, surest
    mistakes as pictures, calibration, phases, the plan, the options and the commands. What
    --model found stays on the page until the run changes.
    """
    from finetune.report import write_report

    found = None
    if model is not None:
        from finetune.report.exported import compare_export
        from finetune.report.facts import read_facts
        from finetune.run import Run

        found = compare_export(read_facts(Run(Path(run))), model, trust=trust, progress=output)
    path = write_report(run, model_verification=found, progress=output)
    value = {"run": run, "report": str(path), "bytes": path.stat().st_size}
    if found is None:
        output.result(value, one_line(path))
        return
    output.result(
        {**value, "verification": found},
        f"{one_line(model)}: {found['top1_agreement']:.1%} of {found['pictures']} first answers as the run's, "
        f"probabilities at most {found['max_abs']:.2g} apart.",
        one_line(path),
    )
    if not found["passed"]:
        raise click.exceptions.Exit(1)
