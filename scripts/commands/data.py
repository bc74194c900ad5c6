"""slimtune data: pictures, datasets and what is in them. The commands load on use."""

from __future__ import annotations

import click

from scripts.verb import LazyGroup

SUBCOMMANDS: dict[str, str] = {
    "sample": "scripts.commands.data_sample",
    "download": "scripts.commands.data_download",
    "build": "scripts.commands.data_build",
    "check": "scripts.commands.data_check",
    "show": "scripts.commands.data_show",
}
"""What follows `data` -> the module that holds it as `command`."""


@click.group(
    "data",
    cls=LazyGroup,
    table=SUBCOMMANDS,
    epilog="\b\nExample:\n  slimtune data build flowers shards",
)
def command() -> None:
    """Make datasets of pictures, check them, look at them."""
