"""slimtune completion: what makes a shell complete verbs, options and paths."""

from __future__ import annotations

import sys

import click

from scripts.output import Output, to_stdout
from scripts.verb import verb

SHELLS = ("bash", "zsh", "fish")


@verb(
    "completion",
    example='eval "$(slimtune completion bash)"\n'
    "slimtune completion fish > ~/.config/fish/completions/slimtune.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(output: Output, shell: str) -> None:
    """Print the script that makes SHELL complete what is typed after slimtune.

    In ~/.bashrc or ~/.zshrc the first line below, with the name of the shell, does it for all
    sessions.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    root = click.get_current_context().find_root()
    assert kind is not None  # noqa: S101 - click has the shells above
    script = kind(root.command, {}, "slimtune", "_SLIMTUNE_COMPLETE").source()
    if output.as_json:
        output.result({"shell": shell, "script": script})
        return
    # It is for a program: no line may be broken, and no character be spelled out.
    with to_stdout():
        sys.stdout.write(script)
