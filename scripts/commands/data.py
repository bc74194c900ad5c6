"""slimtune data: pictures, datasets and what is in them. The commands load on use."""

from __future__ import annotations

import importlib

import click

SUBCOMMANDS: dict[str, str] = {
    "sample": "scripts.commands.data_sample",
    "download": "scripts.commands.data_download",
    "build": "scripts.commands.data_build",
    "check": "scripts.commands.data_check",
    "show": "scripts.commands.data_show",
}
"""What follows `data` -> the module that holds it as `command`."""


class DataVerbs(click.Group):
    """A group whose commands load on use, in the order of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        module = SUBCOMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.group("data", cls=DataVerbs, epilog="\b\nExample:\n  slimtune data build flowers shards")
def command() -> None:
    """Make datasets of pictures, check them, look at them."""
