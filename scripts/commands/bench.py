"""slimtune bench: figures against peers, measured here and now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scripts.bench.groups import GROUPS
from scripts.output import Output
from scripts.verb import verb

if TYPE_CHECKING:
    from scripts.bench.result import Report

FIGURES, PLOT, TABLE = "bench.json", "bench.png", "bench.md"
"""What --out holds: every run, the picture, the table."""


@verb("bench", example="slimtune bench\nslimtune bench files --quick --json")
@click.argument("group", type=click.Choice(list(GROUPS)), required=False)
@click.option("--quick", is_flag=True, help="Fewer rounds and cases: one to three minutes a group.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help=f"Write {FIGURES}, {PLOT} and {TABLE} there.",
)
@click.option("--overwrite", is_flag=True, help="Replace the results that --out holds.")
def command(
    output: Output, group: str | None, quick: bool, out: Path | None, overwrite: bool
) -> None:
    """Measure slimtune against its peers.

    GROUP: one group of cases; all where it is left out. Each contender runs in a process of its
    own, in turn with the others (A B A B), after one run that is not counted; time and peak
    memory are medians. Both must come to the same result. The exit code is 1 where a program
    failed or results differ; a missed target is shown and is no failure.
    """
    from scripts.bench.runner import run_groups

    if out is not None:
        _refuse_output(out, overwrite)
    report = run_groups(
        [group] if group else list(GROUPS),
        quick=quick,
        progress=output,
    )
    if out is not None:
        _write(report, out, overwrite)
    _show(output, report, out)
    if report.failed:
        raise click.exceptions.Exit(1)


def _refuse_output(out: Path, overwrite: bool) -> None:
    """Refuses before anything is measured; a directory with other files is never replaced."""
    from checkpoints.errors import OutputExistsError, listed
    from checkpoints.files import refuse_existing

    refuse_existing(out, overwrite, is_directory=True)
    ours = {FIGURES, PLOT, TABLE}
    others = sorted(p.name for p in out.iterdir() if p.name not in ours) if out.is_dir() else []
    if others:
        raise OutputExistsError(
            f"{out} holds other files than results of a benchmark:\n{listed(others)}",
            next_step="Name another directory with --out.",
        )


def _write(report: Report, out: Path, overwrite: bool) -> None:
    from checkpoints.files import atomic_directory, write_json, write_text
    from scripts.bench.plot import write_plot
    from scripts.bench.table import markdown_table

    with atomic_directory(out, overwrite) as directory:
        write_json(directory / FIGURES, report.as_json())
        write_text(directory / TABLE, markdown_table(report))
        write_plot(report, directory / PLOT)


def _show(output: Output, report: Report, out: Path | None) -> None:
    from scripts.bench.machine import machine_line
    from scripts.bench.table import terminal_table

    value = report.as_json()
    if out is not None:
        value["files"] = [str(out / name) for name in (FIGURES, PLOT, TABLE)]
    output.result(value, terminal_table(report), machine_line(report.machine))
    if out is None:
        output.next("slimtune bench --out DIR to keep the figures and a plot")
    else:
        output.next(f"look at {out / PLOT}")
