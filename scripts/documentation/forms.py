"""The table of forms that a model is read in and written in, from the table `convert` uses."""

from __future__ import annotations

from exporters.forms import FORMS
from scripts.documentation.markdown import table

BEGIN, END = "<!-- formats -->", "<!-- /formats -->"
"""What stands around the table in a page written by hand."""


def forms_table() -> str:
    """The table as Markdown: what a form is called, and whether `convert` reads and writes it."""
    sources = {name for form in FORMS.values() for name in form.sources}
    rows = [
        (
            form.title,
            f"`{form.example}`",
            f"`{form.name}`",
            "yes" if form.name in sources else "",
            f"with `slimtune[{form.extra}]`" if form.extra else "yes",
        )
        for form in FORMS.values()
    ]
    return table(("form", "by the name", "`--to`", "read", "written"), rows)


def with_forms_table(page: str) -> str:
    """A page whose table between the two marks is that of today."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{forms_table()}{end}{after}" if end else page
