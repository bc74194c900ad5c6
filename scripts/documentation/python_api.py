"""The page of what is called from Python, made of signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from scripts.documentation.markdown import code, escape

MODULES = ("checkpoints", "exporters", "finetune", "finetune.data")
LINE = 88
"""Characters of a signature that stand in one line."""

SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")

INTRODUCTION = """\
# Python

Every verb is a function that takes the same words as its flags, returns a typed result, and raises
one of the errors of `checkpoints.errors` ([all of them](errors/index.md)). Importing `checkpoints`,
`exporters` or `finetune` loads neither TensorFlow nor anything else that takes long.
"""


def python_page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for name in MODULES:
        module = importlib.import_module(name)
        parts.append(f"## {name} {{ #{name} }}\n\n{_docstring(module)}\n")
        parts += [_entry(module, word) for word in sorted(module.__all__, key=_order)]
    return "\n".join(parts)


def _order(name: str) -> tuple[bool, str]:
    """Functions before classes."""
    return name[0].isupper(), name


def _entry(module: ModuleType, word: str) -> str:
    value = getattr(module, word)
    if inspect.ismodule(value):
        return ""
    name = f"{module.__name__}.{word}"
    lines = [
        f"### {name} {{ #{name} }}".replace("_", "&#95;"),
        "",
        _signature(name, value),
        _docstring(value),
    ]
    if inspect.isclass(value):
        for method, part in _methods(value):
            lines += ["", f"#### {method} {{ #{name}.{method} }}".replace("_", "&#95;"), ""]
            lines += [_signature(method, part), _docstring(part)]
    return "\n".join(lines) + "\n"


def _methods(value: type) -> Iterator[tuple[str, Any]]:
    """Public functions and properties that the class itself defines, in their order."""
    for name, part in vars(value).items():
        function = part.__func__ if isinstance(part, classmethod | staticmethod) else part
        is_shown = inspect.isfunction(function) or isinstance(function, property)
        if is_shown and not name.startswith("_") and function.__doc__:
            yield name, function


def _signature(name: str, value: Any) -> str:
    if isinstance(value, property):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        part for part in signature.parameters.values() if part.name not in ("self", "cls")
    ]
    short = name.rpartition(".")[2]
    line = short + _plain(signature.replace(parameters=parameters))
    if len(line) <= LINE:
        return f"    {line}\n"
    inner = "".join(f"        {_plain(part)},\n" for part in _starred(parameters))
    returned = _plain(signature.replace(parameters=[])).removeprefix("()")
    return f"    {short}(\n{inner}    ){returned}\n"


def _plain(part: object) -> str:
    """A signature or a parameter without quotes around annotations; objects by their names."""
    text = str(part).replace("'", "")
    text = re.sub(r"<function <lambda> at \w+>|<factory>", "...", text)
    text = re.sub(r"<(?:built-in )?function ([\w.]+)(?: at \w+)?>", r"\1", text)
    return re.sub(r"<[\w.]*\b_?(\w+) object at \w+>", lambda found: found[1].upper(), text)


def _starred(parameters: list[inspect.Parameter]) -> list[object]:
    """The parameters with the star before those that go by name alone."""
    shown: list[object] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(parameter)
    return shown


def _docstring(value: Any) -> str:
    """A docstring as Markdown: its sections as lists, its indented lines as code."""
    lines, section, result = inspect.cleandoc(value.__doc__ or "").splitlines(), "", []
    for line in lines:
        heading = line.removesuffix(":")
        if heading in SECTIONS and line.endswith(":"):
            section = heading
            result += ["", f"**{heading}**", ""]
        elif not section:
            result.append(line if line.startswith("    ") else _inline(line))
        elif match := re.match(r"  (\*{0,2}[\w.]+(?:, [\w.]+)*): (.*)", line):
            result.append(f"- {code(match[1])}: {_inline(match[2])}")
        elif line.startswith("    "):
            result.append(f"  {_inline(line.strip())}")
        elif line.strip() and section in ("Returns", "Yields"):
            result.append(_inline(line.strip()))
        elif line.strip():
            result += (
                ["", _inline(line.strip())] if not line.startswith(" ") else [_inline(line.strip())]
            )
        else:
            result.append("")
    return "\n".join(result) + "\n"


def _inline(text: str) -> str:
    """A line whose code between backticks stays code and whose other signs mean nothing."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        code(part[1:-1])
        if part.startswith("`") and part.endswith("`") and len(part) > 1
        else escape(part)
        for part in parts
    )
