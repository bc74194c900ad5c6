"""What every verb has: an example in its help, --json, and an Output to speak through."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from scripts.completing import Word
from scripts.output import Output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def verb(
    name: str, *, example: str, cls: type[click.Command] = click.Command
) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a click command of a function whose first argument is the Output.

    Args:
      name: the verb as it is typed.
      example: one or more command lines that run as they stand, shown in the help.
      cls: the kind of command.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(as_json: bool, **options: Any) -> None:
            function(Output(as_json), **options)

        with_json = click.option(
            "--json",
            "as_json",
            is_flag=True,
            help="Print one JSON object on stdout; null where a number is NaN or infinite.",
        )(run)
        for parameter in getattr(with_json, "__click_params__", ()):
            is_name = isinstance(parameter, click.Argument)
            if parameter.type is click.STRING:
                parameter.type = Word(parameter.name or "")
            if isinstance(parameter.type, click.Choice):
                continue
            if is_name or isinstance(parameter.type, click.Path):
                if isinstance(parameter.type, click.Path):
                    # What may not be read is refused (exit 1) by what reads it: no wrong usage.
                    parameter.type.readable = False
                parameter.type = _NonEmpty(parameter.type)
        lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
        return click.command(name, cls=cls, epilog=f"\b\nExample:\n{lines}")(with_json)

    return decorate


class LazyGroup(click.Group):
    """A group whose commands load on use, listed in the order a person meets them."""

    def __init__(self, *arguments: Any, table: Mapping[str, str], **attributes: Any) -> None:
        """Takes the table: word -> the module that holds its command as `command`."""
        super().__init__(*arguments, **attributes)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        module = self._table.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


def option_group(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator; the help has them in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class _NonEmpty(click.ParamType):  # type: ignore[type-arg]
    """A path, a name, ... that is said: an empty path would mean this directory."""

    def __init__(self, type_: click.ParamType) -> None:  # type: ignore[type-arg]
        """Takes over what a parameter's type does beside that."""
        self.name = type_.name
        self._type = type_

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses an empty word; a blank one may be a name."""
        if value == "":
            self.fail("is empty and names nothing; this directory is a dot.", param, ctx)
        return self._type.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """What a shell completes."""
        return self._type.shell_complete(ctx, param, incomplete)


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
