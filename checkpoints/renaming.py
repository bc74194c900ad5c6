"""`--rename 's|OLD|NEW|'`: sed's substitution, applied to the names of variables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checkpoints.errors import UsageError

_EXAMPLE = "'s|^scope/|other/|'"


@dataclass(frozen=True)
class Renaming:
    """One substitution.

    Attributes:
      text: as it was given.
      pattern: a regular expression of Python's kind.
      new: what stands for a match: text, or the number of a group (0: all that matched).
      everywhere: whether every match in a name is replaced, not only the first.
    """

    text: str
    pattern: re.Pattern[str]
    new: tuple[str | int, ...]
    everywhere: bool

    def apply(self, name: str) -> str:
        """The name after the substitution; the same where nothing matches."""
        return self.pattern.sub(self._replacement, name, count=0 if self.everywhere else 1)

    def _replacement(self, match: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else match.group(part) or "" for part in self.new
        )


def parse_renaming(text: str) -> Renaming:
    r"""Reads `s|OLD|NEW|`, as sed does.

    Any sign may stand for the bars; a backslash makes it a plain sign. In NEW, \1 to \9 are
    OLD's groups and & is all that matched; \& is a plain &. Behind the last bar may stand g
    (every match, not only the first) and i (capitals do not matter).

    Raises:
      UsageError: it is no such text.
    """
    if len(text) < 2 or text[0] != "s" or text[1] in "\\\n":
        raise _error(text, "it does not begin with s and a delimiter")
    delimiter = text[1]
    parts = _split(text[2:], delimiter)
    if len(parts) != 3:
        raise _error(text, f"after the first {delimiter} there are {len(parts) - 1} more, not 2")
    # A delimiter behind a backslash is that sign and nothing else, also where it means something.
    escaped = f"\\{delimiter}"
    old = "".join(re.escape(delimiter) if sign == escaped else sign for sign in parts[0])
    flags = "".join(parts[2])
    if not old:
        raise _error(text, "there is nothing to replace; ^ means the beginning of a name")
    if set(flags) - set("gi"):
        raise _error(text, f"the flags {flags!r} are not g or i")
    try:
        pattern = re.compile(old, re.IGNORECASE if "i" in flags else 0)
    except re.error as error:
        raise _error(text, f"{old!r} is no regular expression: {error}") from error
    replacement = tuple(_new_part(sign, delimiter) for sign in parts[1])
    for part in replacement:
        if isinstance(part, int) and part > pattern.groups:
            raise _error(text, f"\\{part} stands for a group, and {old!r} has {pattern.groups}")
    return Renaming(text, pattern, replacement, "g" in flags)


def _split(text: str, delimiter: str) -> list[list[str]]:
    """The signs between delimiters; a backslash and what follows it are one."""
    parts: list[list[str]] = [[]]
    for sign in re.findall(r"\\.|.", text, re.DOTALL):
        if sign == delimiter:
            parts.append([])
        else:
            parts[-1].append(sign)
    return parts


def _new_part(sign: str, delimiter: str) -> str | int:
    if sign == "&":
        return 0
    if len(sign) == 1:
        return sign
    after = sign[1]
    return int(after) if after in "0123456789" and after != delimiter else after


def _error(text: str, why: str) -> UsageError:
    return UsageError(
        f"--rename {text!r} cannot be used: {why}.",
        expected=f"s|OLD|NEW|, as in {_EXAMPLE}",
        received=text,
        next_step=f"--rename {_EXAMPLE}",
    )
