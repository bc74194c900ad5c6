"""Rows under headings for people: a table where it fits the terminal, else a paragraph a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from scripts.output import one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

_GAP = 2
_NARROWEST = 16
"""Columns; a text is not broken into shorter pieces."""


class Rows:
    """What rich prints as a table, or, on a terminal too narrow for one, row after row as text.

    Numbers are never broken or cut; texts may take several lines. Cells are plain text:
    square brackets mean nothing, and control characters are spelled out.

    Attributes:
      headings: of the columns.
    """

    def __init__(self, *headings: str, texts: Collection[str]) -> None:
        """Takes the headings, and which of them stand over texts; the others are numbers'."""
        self.headings = headings
        self._is_text = [heading in texts for heading in headings]
        self._rows: list[tuple[Sequence[str], str]] = []

    def add(self, *cells: str, style: str = "") -> None:
        """Adds a row, a cell a column."""
        self._rows.append(([one_line(cell) for cell in cells], style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """How rich prints it."""
        from rich.cells import cell_len
        from rich.padding import Padding
        from rich.text import Text

        columns = zip(self.headings, *(cells for cells, _ in self._rows), strict=True)
        widths = [max(map(cell_len, column)) for column in columns]
        needed = sum(
            min(width, _NARROWEST) if is_text else width
            for width, is_text in zip(widths, self._is_text, strict=True)
        )
        if needed + _GAP * (len(widths) - 1) <= options.max_width:
            yield self._table()
            return
        title = self._is_text.index(True)
        for cells, _ in self._rows:
            yield Text(cells[title], style="bold", overflow="fold", no_wrap=False)
            rest = [
                f"{heading} {cell}"
                for place, (heading, cell) in enumerate(zip(self.headings, cells, strict=True))
                if place != title and cell
            ]
            yield Padding(Text(", ".join(rest), overflow="fold", no_wrap=False), (0, 0, 0, _GAP))

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading, is_text in zip(self.headings, self._is_text, strict=True):
            if is_text:
                table.add_column(heading, overflow="fold")
            else:
                table.add_column(heading, justify="right", no_wrap=True)
        for cells, style in self._rows:
            table.add_row(*map(Text, cells), style=style)
        return table
