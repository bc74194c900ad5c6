"""slimtune formats: which form of a model becomes which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.output import Output
from scripts.verb import verb

if TYPE_CHECKING:
    from rich.table import Table


@verb("formats", example="slimtune formats")
def command(output: Output) -> None:
    """Show what `slimtune convert` reads and writes, and what goes to what."""
    from exporters.forms import FORMS
    from exporters.runtimes.extras import is_installed

    written = list(FORMS.values())
    forms, rows = _table("--to", "what it is", "by the name"), []
    for form in written:
        forms.add_row(form.name, form.title, form.example)
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
    # One blank between columns: the widest row has to fit a terminal of 80.
    matrix = _table("from \\ to", *(form.name for form in written), padding=(0, 1, 0, 0))
    for source in dict.fromkeys(name for form in written for name in form.sources):
        marks = ("x" if source in form.sources else "" for form in written)
        matrix.add_row(source, *marks)
    missing = [
        f"To be installed first for {row['name']}: pip install 'slimtune[{row['extra']}]'"
        for row in rows
        if not row["installed"]
    ]
    output.result({"formats": rows}, forms, "", matrix, *missing)


def _table(*headings: str, padding: tuple[int, int, int, int] = (0, 1, 0, 1)) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=padding)
    for heading in headings:
        table.add_column(heading)
    return table
