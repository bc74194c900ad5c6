"""What every verb has: an example in its help, --json, and an Output to speak through."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from typing import Any

import click

from scripts.output import Output


def verb(name: str, *, example: str) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a click command of a function whose first argument is the Output.

    Args:
      name: the verb as it is typed.
      example: one or more command lines that run as they stand, shown in the help.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(as_json: bool, **options: Any) -> None:
            function(Output(as_json), **options)

        with_json = click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object on stdout."
        )(run)
        lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
        return click.command(name, epilog=f"\b\nExample:\n{lines}")(with_json)

    return decorate


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names in one or several options, comma-separated; a blank after a comma is forgiven."""

    name = "name,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Splits one option's text."""
        if isinstance(value, tuple):
            return value
        return tuple(part for part in re.split(r"\s*,\s*", str(value).strip()) if part)


def names_option(*declarations: str, **attributes: Any) -> Callable[[Any], Any]:
    """An option that may be repeated and may hold several names; gives one flat tuple."""

    def flatten(
        ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]
    ) -> tuple[str, ...]:
        if value and not any(value):
            raise click.BadParameter("names nothing.", ctx, param)
        return tuple(name for names in value for name in names)

    return click.option(*declarations, type=Names(), multiple=True, callback=flatten, **attributes)


def shell_words(*words: str) -> str:
    """A command line as it is typed, words quoted where a shell needs it."""
    return shlex.join(words)
