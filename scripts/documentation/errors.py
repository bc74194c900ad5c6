"""The pages of all error messages, a page a kind, each message under an anchor of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from scripts.documentation.markdown import code, escape
from scripts.documentation.messages import Message, anchors, read_kinds, read_messages

INTRODUCTION = """\
# Error messages

All messages of slimtune, read off its sources: {count} in {kinds} kinds. What is filled in stands between
braces. The search finds a message by the words that are always the same; with `--json` the kind stands in
`error.type`. The ones that people meet most often have a page with causes and remedies:
[troubleshooting](../../troubleshooting.md).
"""


def error_pages(root: Path) -> dict[str, str]:
    """File name -> page; index.md lists the kinds.

    Args:
      root: the folder that holds the packages.
    """
    kinds, messages = read_kinds(root), read_messages(root)
    by_kind: dict[str, list[Message]] = {kind: [] for kind in kinds}
    for message in messages:
        by_kind[message.kind].append(message)
    used = {kind: found for kind, found in by_kind.items() if found}
    index = [INTRODUCTION.format(count=len(messages), kinds=len(used))]
    index += [
        f"- [{kind}]({page_name(kind)}): {escape(kinds[kind])} {len(found)} messages."
        for kind, found in used.items()
    ]
    pages = {"index.md": "\n".join(index) + "\n"}
    for kind, found in used.items():
        pages[page_name(kind)] = _page(kind, kinds[kind], found)
    return pages


def page_name(kind: str) -> str:
    """The file of a kind: GraphError -> graph-error.md."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower() + ".md"


def _page(kind: str, what: str, messages: list[Message]) -> str:
    lines = ["---", "hide: [toc]", "---", "", f"# {kind}", "", escape(what), ""]
    for message, anchor in zip(messages, anchors(messages), strict=True):
        first, *others = message.text.splitlines()
        lines += [f"### {escape(first)} {{ #{anchor} }}", ""]
        lines += _parts([("", other.strip()) for other in others])
        lines += _parts([("Expected", message.expected), ("Next", message.next_step)])
        lines += [f"Raised in {code(message.source)}.", ""]
    return "\n".join(lines)


def _parts(parts: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for name, text in parts:
        if text:
            shown = "<br>".join(escape(line) for line in text.splitlines())
            lines += [f"{name}: {shown}" if name else shown, ""]
    return lines
