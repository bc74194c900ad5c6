"""The command `slimtune`: finds the verb, runs it, and turns errors into messages."""

from __future__ import annotations

import importlib
import io
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence

import click

from checkpoints.errors import SlimtuneError

COMMANDS: dict[str, str] = {
    "inspect": "scripts.commands.inspect",
    "verify": "scripts.commands.verify",
    "diff": "scripts.commands.diff",
    "average": "scripts.commands.average",
    "nets": "scripts.commands.nets",
    "download": "scripts.commands.download",
    "data": "scripts.commands.data",
    "plan": "scripts.commands.plan",
    "train": "scripts.commands.train",
    "evaluate": "scripts.commands.evaluate",
    "convert": "scripts.commands.convert",
    "formats": "scripts.commands.formats",
    "predict": "scripts.commands.predict",
    "features": "scripts.commands.features",
    "compare": "scripts.commands.compare",
    "report": "scripts.commands.report",
    "demo": "scripts.commands.demo",
    "bench": "scripts.commands.bench",
    "doctor": "scripts.commands.doctor",
}
"""Verb -> the module that holds it as `command`, loaded when its help or itself is wanted."""


class Verbs(click.Group):
    """A group whose commands load on use, listed in the order a person meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the verb's module."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slimtune")
def cli() -> None:
    """Transfer learning and model export for TF-Slim nets and TensorFlow 1 model files."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb and exits: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names need not be UTF-8; escaped like this they are valid in JSON as well.
            stream.reconfigure(errors="backslashreplace")
    if threading.current_thread() is threading.main_thread():
        # Ended by the system: what was begun beside its place is removed on the way out.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        # click gives the code of an Exit, as --help and verbs that found something raise it.
        given = cli.main(arguments, prog_name="slimtune", standalone_mode=False)
        code = given if isinstance(given, int) else 0
    except SlimtuneError as error:
        code = _tell(error.as_json(), str(error), as_json, error.exit_code)
    except click.ClickException as error:
        code = _tell_usage(error, arguments, as_json)
    except (KeyboardInterrupt, click.Abort):
        code = _tell(
            {"type": "Interrupted", "message": "Interrupted."}, "Interrupted.", as_json, 130
        )
    except BrokenPipeError:
        # The reader of our output (as in `slimtune nets | head`) has gone; nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        code = _tell_os_error(error, as_json)
    sys.exit(code)


def _tell(value: dict[str, str | None], text: str, as_json: bool, code: int) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"error": value}, ensure_ascii=False) + "\n")
    sys.stderr.write(f"Error: {text}\n")
    return code


def _tell_usage(error: click.ClickException, arguments: Sequence[str], as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    received = _typed(error, arguments)
    path = context.command_path if context is not None else "slimtune"
    help_command = f"{path} --help"
    value: dict[str, str | None] = {
        "type": "UsageError",
        "message": error.format_message(),
        "received": received,
        "next": help_command,
    }
    text = f"{error.format_message()}\nReceived: {received}\nNext: {help_command}"
    return _tell(value, text, as_json, error.exit_code)


def _typed(error: click.ClickException, arguments: Sequence[str]) -> str:
    """The word that a usage error is about, as it was typed; else all words."""
    if isinstance(error, click.NoSuchOption):
        return error.option_name
    flags = error.param.opts if isinstance(error, click.BadParameter) and error.param else []
    for place, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag in flags and flag.startswith("-") and equals:
            return shlex.join([value])
        if word in flags and word.startswith("-") and place + 1 < len(arguments):
            return shlex.join([arguments[place + 1]])
    return shlex.join(["slimtune", *arguments])


def _tell_os_error(error: OSError, as_json: bool) -> int:
    """The operating system's word: no space, no permission, no such file."""
    from checkpoints.temporary_names import without_temporary_names

    # Of a renaming that failed, the second name is the one that a person gave.
    name = error.filename2 or error.filename
    where = f"{without_temporary_names(str(name))}: " if name else ""
    message = f"{where}{error.strerror or error}"
    next_step = "Check that the place exists, is what it should be, has room and can be written."
    value = {
        "type": type(error).__name__,
        "message": message,
        "received": None,
        "next": next_step,
    }
    return _tell(value, f"{message}\nNext: {next_step}", as_json, 1)


if __name__ == "__main__":
    main()
