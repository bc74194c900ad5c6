"""What a shell completes where a word is free text: names of nets and checkpoints, words, files."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _nets() -> Collection[str]:
    from checkpoints.published import NETS

    return NETS


def _checkpoints() -> Collection[str]:
    from checkpoints.published import CHECKPOINTS

    return CHECKPOINTS


def _preprocessings() -> Collection[str]:
    from finetune.preprocessing import KINDS

    return KINDS


def _splits() -> Collection[str]:
    return ("train", "val", "test")


def _forms() -> Collection[str]:
    from exporters.forms import FORMS

    return FORMS


def _nothing() -> Collection[str]:
    return ()


_WORDS: dict[str, Callable[[], Collection[str]]] = {
    "architecture": _nets,
    "checkpoint": _checkpoints,
    "model_name": _nets,
    "name": _checkpoints,
    "net": _nets,
    "preprocessing": _preprocessings,
    "split": _splits,
    "tfhub_module": _checkpoints,
    "to": _forms,
}
"""A parameter's name -> the words that it may be."""

_FILES = frozenset(
    ("a", "b", "checkpoint", "destination", "net", "path", "source", "sources", "tfhub_module")
)
"""Parameters of free text that may be paths."""


class Word(click.types.StringParamType):
    """Free text that a shell completes."""

    def __init__(self, name: str, is_path: bool = False) -> None:
        """Takes the parameter's name, and whether it is a path whatever its name."""
        self._words = _WORDS.get(name, _nothing)
        self._is_path = is_path or name in _FILES

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Files, which shells look up themselves, and the words that begin so."""
        from click.shell_completion import CompletionItem

        # bash forgets the words that stand before a file.
        files = [CompletionItem(incomplete, type="file")] if self._is_path else []
        words = sorted(word for word in self._words() if word.startswith(incomplete))
        return [*files, *map(CompletionItem, words)]


def understand_bash() -> None:
    """Has click read --flag=value as bash gives it: as three words, the sign between them."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        def get_completion_args(self) -> tuple[list[str], str]:
            words, incomplete = super().get_completion_args()
            return [word for word in words if word != "="], incomplete

    add_completion_class(Bash)
