"""The command: measures axes, prints their tables, and writes table, figures and plots."""

from __future__ import annotations

from pathlib import Path

import click

from checkpoints.files import write_json, write_text
from scripts.bench.growth.axes import AXES
from scripts.bench.growth.measure import measure
from scripts.bench.growth.show import markdown_table, write_plot
from scripts.bench.machine import describe_machine, machine_line


@click.command()
@click.argument("names", nargs=-1, metavar="[AXIS]...")
@click.option("--largest", type=int, help="Leave larger sizes out.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def main(names: tuple[str, ...], largest: int | None, out: Path) -> None:
    """Measures each AXIS, or all; writes AXIS.md, AXIS.json and AXIS.png into --out."""
    unknown = set(names) - {axis.name for axis in AXES}
    if unknown:
        known = ", ".join(axis.name for axis in AXES)
        raise click.BadParameter(f"{', '.join(sorted(unknown))}; there are {known}")
    out.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    click.echo(machine_line(machine))
    for axis in AXES:
        if names and axis.name not in names:
            continue
        growths = measure(axis, largest)
        table = markdown_table(axis, growths)
        click.echo(table)
        write_text(out / f"{axis.name}.md", table)
        figures = [growth.as_json() for growth in growths]
        write_json(out / f"{axis.name}.json", {"machine": machine, "jobs": figures})
        write_plot(axis, growths, out / f"{axis.name}.png")


if __name__ == "__main__":
    main()
