"""slimtune formats: which form of a model becomes which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.output import Output
from scripts.rows import Rows
from scripts.verb import verb

if TYPE_CHECKING:
    from rich.table import Table

    from exporters.forms import Form

_WIDTH = 80
"""Columns that the matrix takes."""


@verb("formats", example="slimtune formats")
def command(output: Output) -> None:
    """Show what `slimtune convert` reads and writes, and what goes to what."""
    from exporters.forms import FORMS
    from exporters.runtimes.extras import is_installed

    written = list(FORMS.values())
    headings = ("--to", "what it is", "by the name")
    forms, rows = Rows(*headings, texts=headings), []
    for form in written:
        forms.add(form.name, form.title, form.example)
        rows.append(
            {
                "name": form.name,
                "title": form.title,
                "example": form.example,
                "from": list(form.sources),
                "extra": form.extra,
                "installed": all(map(is_installed, form.packages)),
            }
        )
    matrix = _matrix(written) if output.console.width >= _WIDTH else _lists(written)
    missing = [
        f"To be installed first for {row['name']}: pip install 'slimtune[{row['extra']}]'"
        for row in rows
        if not row["installed"]
    ]
    output.result({"formats": rows}, forms, "", matrix, *missing)


def _matrix(written: list[Form]) -> Table:
    """A row for what is read, a column for what is written."""
    from rich.table import Table

    # One blank between columns: the widest row has to fit a terminal of 80.
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("from \\ to", *(form.name for form in written)):
        table.add_column(heading)
    for source in _sources(written):
        table.add_row(source, *("x" if source in form.sources else "" for form in written))
    return table


def _lists(written: list[Form]) -> Rows:
    """The same for a terminal that is too narrow."""
    table = Rows("from", "to", texts=("from", "to"))
    for source in _sources(written):
        table.add(source, ", ".join(form.name for form in written if source in form.sources))
    return table


def _sources(written: list[Form]) -> list[str]:
    return list(dict.fromkeys(name for form in written for name in form.sources))
