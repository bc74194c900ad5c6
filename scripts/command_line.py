"""Finds the verb, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import click

from checkpoints.errors import SlimtuneError
from checkpoints.temporary_names import without_temporary_names
from scripts.completing import understand_bash
from scripts.main import COMMANDS
from scripts.output import json_line, printable, to_stdout
from scripts.verb import LazyGroup


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="slimtune")
def cli() -> None:
    """Transfer learning and model export for TF-Slim nets and TensorFlow 1 model files."""


def run(arguments: Sequence[str]) -> int:
    """Runs one verb; gives the exit code, once all that was printed has got to its reader."""
    arguments = list(arguments)
    as_json = "--json" in arguments
    if not _have_streams():
        return 1
    if threading.current_thread() is threading.main_thread():
        # Ended by the system: what was begun beside its place is removed on the way out.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if "_SLIMTUNE_COMPLETE" in os.environ:
        understand_bash()
    try:
        # click gives the code of an Exit, as --help and verbs that found something raise it.
        given = cli.main(arguments, prog_name="slimtune", standalone_mode=False)
        code = given if isinstance(given, int) else 0
        with to_stdout():
            pass
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
        code = 1
    except OSError as error:
        code = _tell_os_error(error, as_json)
    except MemoryError as error:
        code = _tell_no_memory(error, as_json)
    _let_go_of_stdout()
    return code


def _have_streams() -> bool:
    """Whether there is somewhere to print to; makes file names of any bytes printable."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - closed with the process
    if sys.stdout is None:
        # Else the first file that is opened would take its number, and get what is printed.
        sys.stderr.write(
            "Error: Standard output is closed.\nNext: Leave >&- out, or send it to /dev/null.\n"
        )
        return False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names need not be UTF-8; escaped like this they are valid in JSON as well.
            stream.reconfigure(errors="backslashreplace")
    return True


def _let_go_of_stdout() -> None:
    """Gives up what cannot be printed, which has been told, so that the end does not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(value: dict[str, str | None], text: str, as_json: bool, code: int) -> int:
    if as_json:
        with suppress(OSError):
            sys.stdout.write(json_line({"error": value}))
            sys.stdout.flush()
    sys.stderr.write(f"Error: {printable(text)}\n")
    return code


def _tell_usage(error: click.ClickException, arguments: Sequence[str], as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    received = _typed(error, arguments)
    path = context.command_path if context is not None else "slimtune"
    help_command = f"{path} --help"
    # click lists choices a line each, behind tabs.
    message = error.format_message().replace("\n\t", " ")
    value: dict[str, str | None] = {
        "type": "UsageError",
        "message": message,
        "received": received,
        "next": help_command,
    }
    text = f"{message}\nReceived: {received}\nNext: {help_command}"
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
    # Of a renaming that failed, the second name is the one that a person gave.
    name = error.filename2 or error.filename
    where = f"{without_temporary_names(str(name))}: " if name else _of_stdout(error)
    message = f"{where}{error.strerror or error}"
    next_step = "Check that the place exists, is what it should be, has room and can be written."
    value = {
        "type": type(error).__name__,
        "message": message,
        "expected": None,
        "received": error.strerror,
        "next": next_step,
    }
    return _tell(value, f"{message}\nNext: {next_step}", as_json, 1)


def _tell_no_memory(error: MemoryError, as_json: bool) -> int:
    """A file may hold more than the machine: compressed arrays do, a thousand times their size."""
    value = {
        "type": "MemoryError",
        "message": "Memory ran out.",
        "expected": None,
        "received": str(error) or None,
        "next": "inspect shows sizes without reading values; leave the largest out (--exclude).",
    }
    return _tell(value, f"{value['message']}\nNext: {value['next']}", as_json, 1)


def _of_stdout(error: OSError) -> str:
    """Says what an error that names no file is of: outputs name theirs, and help is printed."""
    of_writing = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if not of_writing and error.errno in (errno.EIO, errno.EBADF):
        # Reading gives these too; what could not be printed cannot be printed now either.
        try:
            sys.stdout.flush()
        except OSError:
            of_writing = True
    return "Standard output cannot be written: " if of_writing else ""
