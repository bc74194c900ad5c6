"""Command lines as they are typed, for the next step that a message names."""

from __future__ import annotations

import shlex
from pathlib import Path


def shell_words(*words: str | Path) -> str:
    """A command line, words quoted where a shell needs it.

    Args:
      words: names and flags as text; what is a Path is written so that no command takes it for
        an option: `./-name`.
    """
    return " ".join(_quoted(path_word(word) if isinstance(word, Path) else word) for word in words)


def _quoted(word: str) -> str:
    """A word quoted for a shell; $'...' where it has what cannot be typed: control characters, bytes."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def path_word(path: Path) -> str:
    """A path as a word of its own, not quoted."""
    return f"./{path}" if str(path).startswith("-") else str(path)
