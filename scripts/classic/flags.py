"""Flags as TensorFlow 1's scripts take them, for scripts that run today's code.

A script is a module of this folder: its flags as a table, a function decorated with `classic`, and
a row in scripts/commands/classic.py. `slimtune classic NAME` and `python -m scripts.classic.NAME`
both run it.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from checkpoints.errors import SlimtuneError, UnsupportedError, listed
from scripts.classic.checks import check_flags
from scripts.classic.wording import OldWords, reword_error, rewording
from scripts.completing import Word
from scripts.output import Output
from scripts.verb import option_group, verb

_TRUTHS = frozenset(("true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"))


class _Boolean(click.types.BoolParamType):
    """true or false, as old flags spell them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Reads one; a mistake is told with the two words that everybody knows."""
        if isinstance(value, str) and value.lower() not in _TRUTHS:
            self.fail(f"{value!r} is neither true nor false.", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True)
class Flag:
    """A flag of an old script.

    Attributes:
      name: as it is typed behind the dashes.
      type: str, int, float or bool.
      default: what the old script took when it was not given.
      help: what it says.
      choices: the values there are; empty: any.
      required: whether it has to be given.
      path: what it names, as it is looked at before the script runs: "file", "graph", "directory" or
        "dataset" to read, "output" or "output directory" to write, "checkpoint" (found later); empty: no path.
      least: the lowest number that it may be.
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple[str, ...] = field(default=(), kw_only=True)
    required: bool = field(default=False, kw_only=True)
    path: str = field(default="", kw_only=True)
    least: int | None = field(default=None, kw_only=True)

    @property
    def text(self) -> str:
        """What the help says."""
        return self.help

    def _type(self) -> Any:
        if self.choices:
            return click.Choice(self.choices)
        if self.type is bool:
            return _Boolean()
        return Word(self.name, bool(self.path)) if self.type is str else self.type

    def option(self) -> Callable[[Any], Any]:
        """The option of click; what is not given is the default."""
        shown = self.default not in (None, "")
        # An option with a default of None counts as given.
        default = {} if self.required else {"default": self.default}
        return click.option(
            f"--{self.name}",
            self.name,
            type=self._type(),
            required=self.required,
            show_default=shown,
            help=self.text,
            **default,
        )


@dataclass(frozen=True)
class Idle(Flag):
    """A flag that is taken and changes nothing today; `help` says why."""

    @property
    def text(self) -> str:
        """What the help says."""
        return f"No effect: {self.help}"


@dataclass(frozen=True)
class Refused(Flag):
    """A flag that is refused unless it has its default; `help` is the reason.

    Attributes:
      instead: the new way.
    """

    instead: str

    @property
    def text(self) -> str:
        """What the help says."""
        return f"Refused: {self.help} {self.instead}"


EVERYWHERE: tuple[Flag, ...] = (
    Idle("logtostderr", bool, False, "what is said on the way goes to stderr."),
    Idle("alsologtostderr", bool, False, "what is said on the way goes to stderr."),
)
"""Flags that every script took from the library that read its flags."""


def classic(
    name: str,
    *,
    example: str,
    flags: Sequence[Flag],
    today: str,
    options: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a command of a function that takes an Output and, by name, the values of its flags.

    The function gets those flags that have an effect. Flags are spelled as they were: --flag=value,
    --flag value, -flag=value; of booleans also --flag and --noflag.

    Args:
      name: the script's old name.
      example: one or more command lines that run as they stand, shown in the help.
      flags: all flags of the script; Idle and Refused ones too.
      today: the command of today that does most of it, as in "slimtune train".
      options: its options, without dashes -> the flags that messages name instead, where these are
        not spelled alike.
    """
    reword = rewording(name, [flag.name for flag in flags], options or {}, today)
    every = (*flags, *EVERYWHERE)

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(output: Output, /, **values: Any) -> None:
            _refuse(name, every, values)
            _tell_idle(output, every, values)
            effective = [flag for flag in every if not isinstance(flag, Idle | Refused)]
            check_flags(effective, values)
            try:
                function(
                    OldWords(output.as_json, reword),
                    **{flag.name: values[flag.name] for flag in effective},
                )
            except SlimtuneError as error:
                reword_error(error, reword)
                raise

        options = option_group(*(flag.option() for flag in every))
        return verb(name, example=example, cls=_Script)(options(run))

    return decorate


def finish(output: Output, value: dict[str, Any], lines: Sequence[str], *same: str) -> None:
    """The end of a script: what came of it, and the commands that do the same today.

    Args:
      output: where to. The commands go to stderr: what the old script printed may be read by
        another program.
      value: what --json prints, with the commands added under `same`.
      lines: what people read instead.
      same: command lines, each to be typed; none where today's command has no words for it.
    """
    output.result({**value, "same": list(same)}, *lines)
    if same and not output.as_json:
        output.say("\n".join(["The same with slimtune:", *(f"  {command}" for command in same)]))


def spelled_out(words: Sequence[str], booleans: Mapping[str, bool]) -> list[str]:
    """A command line with every flag as --flag=value.

    Args:
      words: as they were typed.
      booleans: the flags there are, and whether each is a boolean; other words stay as they are.
    """
    rest, result = deque(words), []
    while rest:
        word = rest.popleft()
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("-").removeprefix("-")
        if name == flag or name not in booleans:
            negated = name.removeprefix("no")
            is_negation = name not in (flag, negated) and booleans.get(negated) and not equals
            result.append(f"--{negated}=false" if is_negation else word)
        elif equals:
            result.append(f"--{name}={value}")
        elif booleans[name]:
            is_said = bool(rest) and rest[0].lower() in _TRUTHS
            result.append(f"--{name}={rest.popleft() if is_said else 'true'}")
        elif rest:
            result.append(f"--{name}={rest.popleft()}")
        else:
            result.append(f"--{name}")
    return result


class _Script(click.Command):
    """A command whose flags may be spelled as TensorFlow 1's libraries read them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spells the flags out first."""
        booleans = {
            parameter.name: isinstance(parameter.type, _Boolean)
            for parameter in self.params
            if isinstance(parameter, click.Option) and not parameter.is_flag and parameter.name
        }
        return super().parse_args(ctx, spelled_out(args, booleans))


def _refuse(name: str, flags: Sequence[Flag], values: Mapping[str, Any]) -> None:
    refused = [
        flag for flag in flags if isinstance(flag, Refused) and values[flag.name] != flag.default
    ]
    if refused:
        raise UnsupportedError(
            f"{name} does not take these flags today:\n"
            + listed(f"--{flag.name}: {flag.help}" for flag in refused),
            received=" ".join(f"--{flag.name}={values[flag.name]}" for flag in refused),
            next_step=" ".join(dict.fromkeys(flag.instead for flag in refused)),
        )


def _tell_idle(output: Output, flags: Sequence[Flag], values: Mapping[str, Any]) -> None:
    idle = [flag for flag in flags if isinstance(flag, Idle) and values[flag.name] != flag.default]
    if idle:
        lines = listed((f"--{flag.name}: {flag.help}" for flag in idle), limit=len(idle))
        output.say(f"Flags that change nothing today:\n{lines}")
