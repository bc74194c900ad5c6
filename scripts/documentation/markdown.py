"""Plain text as Markdown that shows it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SIGNS = re.compile(r"[\\`*_{}\[\]<>&#|~$:]")


def escape(text: str) -> str:
    """Text whose signs mean nothing: those of Markdown and HTML stand as entities."""
    return _SIGNS.sub(lambda sign: f"&#{ord(sign[0])};", text)


def code(text: str) -> str:
    """Text in the letters of a program, in a line or in a table's cell."""
    return f"<code>{escape(text)}</code>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown without line breaks."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
