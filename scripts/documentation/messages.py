"""Every error message of ours, read off the syntax trees of the sources."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("checkpoints", "exporters", "finetune", "scripts")
TREE = "checkpoints/errors.py"
ROOT = "SlimtuneError"
SHOWN_ANCHOR = 72
"""Characters of a message that its anchor is made of, at most."""


@dataclass(frozen=True)
class Message:
    """What one error says.

    Attributes:
      kind: its class.
      text: the message; what is filled in stands as {name}.
      expected: what would have been right, or "".
      next_step: what to type or change, or "".
      source: the file that raises it, from the repository's root.
    """

    kind: str
    text: str
    expected: str
    next_step: str
    source: str


def read_kinds(root: Path) -> dict[str, str]:
    """The classes of errors and the first paragraph of what each is, the root first."""
    kinds: dict[str, str] = {}
    for path in (root / TREE, *_sources(root)):
        for node in ast.walk(_tree(path)):
            bases = {_last(base) for base in getattr(node, "bases", ())}
            if isinstance(node, ast.ClassDef) and (node.name == ROOT or bases & kinds.keys()):
                kinds[node.name] = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return kinds


def read_messages(root: Path) -> list[Message]:
    """All messages in the order of files and lines, each once a file.

    Where a function makes the error of what it is told, its callers' words stand in the message.

    Args:
      root: the folder that holds the packages.
    """
    kinds = read_kinds(root)
    found: dict[tuple[str, str, str], Message] = {}
    for path in _sources(root):
        tree = _tree(path)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        makers = _makers(tree, kinds)
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            kind = _last(call.func)
            if kind in kinds and call.args:
                for message in _messages(call, kind, path.relative_to(root).as_posix()):
                    for told in _told(message, makers.get(call), calls):
                        found.setdefault((told.kind, told.text, told.source), told)
    return list(found.values())


def anchors(messages: list[Message]) -> list[str]:
    """An anchor for each message, made of the words that are always the same."""
    given: dict[str, int] = {}
    made = []
    for message in messages:
        words = re.findall(r"[a-z0-9]+", re.sub(r"\{[^}]*\}", " ", message.text.lower()))
        anchor = "-".join(words)[:SHOWN_ANCHOR].strip("-") or "message"
        given[anchor] = given.get(anchor, 0) + 1
        made.append(anchor if given[anchor] == 1 else f"{anchor}-{given[anchor]}")
    return made


def _makers(tree: ast.Module, kinds: Mapping[str, str]) -> dict[ast.Call, ast.FunctionDef]:
    """Calls that make an error -> the function that they are in, where that gives the error back."""
    return {
        call: function
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and function.returns is not None
        and _last(function.returns) in kinds
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    }


def _told(
    message: Message, maker: ast.FunctionDef | None, calls: list[ast.Call]
) -> Iterator[Message]:
    """A message with the words that callers of its maker hand over; itself where they hand none."""
    if maker is None:
        yield message
        return
    names = [argument.arg for argument in maker.args.args if argument.arg not in ("self", "cls")]
    told = []
    for call in calls:
        if _last(call.func) == maker.name:
            named = {entry.arg: entry.value for entry in call.keywords if entry.arg}
            given = dict(zip(names, call.args, strict=False)) | named
            words = {name: _texts(node) for name, node in given.items() if _is_text(node)}
            for choice in itertools.product(*words.values()):
                changed = dict(zip(words, choice, strict=True))
                parts = (message.text, message.expected, message.next_step)
                text, expected, step = (_replaced(part, changed) for part in parts)
                told.append(Message(message.kind, text, expected, step, message.source))
    yield from told or [message]


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        text = text.replace("{" + name.strip("_") + "}", word)
    return text


def _messages(call: ast.Call, kind: str, source: str) -> Iterator[Message]:
    named = {entry.arg: entry.value for entry in call.keywords}
    expected, next_step = (
        " or ".join(filter(None, _texts(named[name]))) if name in named else ""
        for name in ("expected", "next_step")
    )
    for text in _texts(call.args[0]):
        # A message that is passed on is listed where it is made.
        if re.sub(r"\{[^}]*\}", "", text).strip():
            yield Message(kind, text.rstrip(), expected, next_step, source)


def _texts(node: ast.expr) -> list[str]:
    """What an expression may say: several texts where it chooses."""
    if isinstance(node, ast.Constant):
        return ["" if node.value is None else str(node.value)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        pairs = itertools.product(_texts(node.left), _texts(node.right))
        return [left + right for left, right in pairs]
    if isinstance(node, ast.JoinedStr):
        parts = [
            _texts(part) if isinstance(part, ast.Constant) else _filled(part)
            for part in node.values
        ]
        return ["".join(choice) for choice in itertools.product(*parts)]
    return _filled(node)


def _filled(node: ast.expr) -> list[str]:
    """What stands for something that is filled in: {its name}."""
    if isinstance(node, ast.FormattedValue):
        texts = _filled(node.value)
        return [f"'{text}'" for text in texts] if node.conversion == ord("r") else texts
    if isinstance(node, ast.Constant | ast.IfExp | ast.JoinedStr):
        return _texts(node)
    if isinstance(node, ast.Call) and _last(node.func) == "counted":
        (noun,) = _texts(node.args[1])
        return [f"{{number}} {noun}s"]
    if isinstance(node, ast.Call) and _last(node.func) == "listed":
        return ["  {problems}"]
    return ["{" + _name(node) + "}"]


def _name(node: ast.expr) -> str:
    """One word for an expression."""
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Subscript | ast.Starred | ast.Await):
        return _name(node.value)
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _name(node.generators[0].iter)
    if isinstance(node, ast.Call):
        inner = node.args[0] if node.args else node.func
        found = _name(inner)
        return _last(node.func) if found == "value" else found
    if isinstance(node, ast.BinOp):
        return _name(node.left)
    return "value"


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _sources(root: Path) -> list[Path]:
    return [path for name in PACKAGES for path in sorted((root / name).rglob("*.py"))]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
