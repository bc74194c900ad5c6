"""The page of all verbs and options, made of what their help is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from scripts.documentation.markdown import code, escape, table

TITLE = "Commands"
INTRODUCTION = """\
Every verb and every option, as `slimtune VERB --help` has them. `--json` is there for all: one JSON
object on stdout, and progress on stderr. The exit code is 0 when it is done; 1 when it was refused or
failed, or when `verify`, `diff` or `data check` found something; 2 for wrong usage; 130 when it was
interrupted."""


def commands_page(root: click.Group) -> str:
    """The whole page as Markdown; commands load as they are met."""
    parts = [f"# {TITLE}\n\n{INTRODUCTION}\n"]
    for words, command in walk(root):
        parts.append(_section(words, command))
    return "\n".join(parts)


def walk(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group with the words that call it, groups before what is in them."""
    context = click.Context(group, info_name="slimtune")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*words, name))


def _section(words: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(("slimtune", *words)))
    anchor = "-".join(words).replace("_", "-")
    level = "#" * (len(words) + 1)
    lines = [f"{level} {' '.join(words)} {{ #{anchor} }}".replace("_", "&#95;"), ""]
    help_text = inspect.cleandoc(command.help or "").replace("\b", "").strip()
    lines += [_prose(help_text), ""]
    if not isinstance(command, click.Group):
        lines += [
            "    " + " ".join([context.command_path, *command.collect_usage_pieces(context)]),
            "",
        ]
    rows = [_row(option, context) for option in _options(command, context)]
    if rows:
        lines.append(table(("option", "what it does", "default"), rows))
    lines += _example(command)
    return "\n".join(lines)


def _options(command: click.Command, context: click.Context) -> list[click.Option]:
    """What is shown in the help, less what every verb has."""
    found = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    general = {"--help", "--json"}
    return [option for option in found if not option.hidden and not general & {*option.opts}]


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    record = option.get_help_record(context)
    flags, text = record if record is not None else (", ".join(option.opts), option.help or "")
    shown = option.get_help_extra(context)
    notes = [shown["range"]] if "range" in shown else []
    notes += ["required"] if option.required else []
    notes += ["may be repeated"] if option.multiple else []
    text = " ".join((option.help or text).replace("\b", "").split())
    text = escape(text) + (f" ({escape(', '.join(notes))})" if notes else "")
    return code(flags), text, code(str(shown["default"])) if "default" in shown else ""


def _prose(text: str) -> str:
    """Paragraphs of a help; names between backticks stay code."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(
        "".join(
            code(part[1:-1]) if part.startswith("`") else escape(part)
            for part in re.split(r"(`[^`]*`)", paragraph)
        )
        for paragraph in paragraphs
    )


def _example(command: click.Command) -> list[str]:
    """The lines below "Example:", as they stand in the help."""
    _, _, lines = (command.epilog or "").partition("Example:\n")
    if not lines:
        return []
    return ["Example:", "", *(f"    {line.strip()}" for line in lines.splitlines()), ""]
