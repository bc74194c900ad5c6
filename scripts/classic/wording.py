"""What today's code says, with the names of an old script's flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from checkpoints.errors import SlimtuneError
from scripts.output import Output

_WORDS = re.compile(r"slimtune .*|(?<![\w-])(--[a-z][\w-]*)(?: REGEX)?")
"""A command line of today up to the end of the line, which stays; or an option."""

_TWICE = re.compile(r"(--\w+) or \1(?!\w)")
"""Two options of today for which there is one flag."""


class OldWords(Output):
    """An Output that says what today's code says with the names of old flags.

    Attributes:
      reword: gives a text with these names.
    """

    def __init__(self, as_json: bool, reword: Callable[[str], str]) -> None:
        super().__init__(as_json)
        self.reword = reword

    def say(self, text: str) -> None:
        """One line on stderr."""
        super().say(self.reword(text))


def rewording(
    script: str, flags: Collection[str], options: Mapping[str, str], today: str
) -> Callable[[str], str]:
    """Gives a function from a text of today's code to one with old flags.

    Args:
      script: its name.
      flags: names of the script's flags.
      options: option of today, without dashes -> the old flag, or other words with a blank in them.
      today: the command whose options the script has no flags for.
    """

    def old(found: re.Match[str]) -> str:
        word = found[1] or found[0].replace(f"{today} --help", f"slimtune classic {script} --help")
        name = word.removeprefix("--")
        if name == word or name in flags or name in ("json", "help"):
            return word
        if name in options:
            return options[name] if " " in options[name] else f"--{options[name]}"
        same = name.replace("-", "_")
        return f"--{same}" if same in flags else f"{today} {word}"

    return lambda text: _TWICE.sub(r"\1", _WORDS.sub(old, text))


def reword_error(error: SlimtuneError, reword: Callable[[str], str]) -> None:
    """Puts old flags into all parts of an error."""
    error.message = reword(error.message)
    for part in ("expected", "received", "next_step"):
        text = getattr(error, part)
        if text is not None:
            setattr(error, part, reword(text))
