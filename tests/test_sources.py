"""What no source of ours does: each rule read off the syntax trees of all of them."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("checkpoints", "exporters", "finetune", "scripts")
FILES = [path for package in PACKAGES for path in sorted((REPOSITORY / package).rglob("*.py"))]

UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
RUNNERS = {"eval", "exec", "compile", "os.system", "os.popen", "subprocess.getoutput"}
KNOWN_JSON = (
    "finetune/beam/",
    "finetune/datasets/cleaning.py",
    "finetune/workers/workers.py",
    "scripts/bench",
    "checkpoints/safetensors_file.py",
)
"""Where JSON comes from a process that we or the same person started, or was read by the format's own library before."""


@functools.cache
def trees() -> list[tuple[str, list[ast.AST]]]:
    """Every file's name and the nodes of its tree."""
    return [
        (
            path.relative_to(REPOSITORY).as_posix(),
            list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))),
        )
        for path in FILES
    ]


def nodes(kind: Any) -> Iterator[tuple[str, Any]]:
    """The nodes of a kind, with their files' names."""
    for name, found in trees():
        yield from ((name, node) for node in found if isinstance(node, kind))


@functools.cache
def calls() -> list[tuple[str, str, dict[str, ast.expr]]]:
    """File and line, what is called, its keyword arguments."""
    return [
        (
            f"{name}:{node.lineno}",
            ast.unparse(node.func),
            {entry.arg: entry.value for entry in node.keywords if entry.arg},
        )
        for name, node in nodes(ast.Call)
    ]


def test_there_are_sources():
    assert len(FILES) > 300


def test_nothing_is_unpickled():
    imported = [
        (name, alias.name)
        for name, node in nodes(ast.Import | ast.ImportFrom)
        for alias in [*node.names, ast.alias(getattr(node, "module", None) or "")]
        if alias.name.partition(".")[0] in UNPICKLERS
    ]
    assert imported == []
    allowed = [
        place
        for place, _, given in calls()
        if not isinstance(value := given.get("allow_pickle", ast.Constant(False)), ast.Constant)
        or value.value
    ]
    assert allowed == []
    loads = {
        place: given for place, called, given in calls() if called in ("np.load", "numpy.load")
    }
    assert [place for place, given in loads.items() if "allow_pickle" not in given] == []


def test_no_text_is_run():
    assert [(place, called) for place, called, _ in calls() if called in RUNNERS] == []
    shells = [place for place, _, given in calls() if "shell" in given]
    assert shells == []


def test_certificates_are_always_checked():
    given_up = [
        (place, called)
        for place, called, given in calls()
        if "cert_reqs" in given
        or (called.startswith(("requests.", "session.")) and "verify" in given)
    ]
    assert given_up == []
    texts = [
        f"{name}:{node.lineno}"
        for name, node in nodes(ast.Attribute)
        if node.attr in ("_create_unverified_context", "CERT_NONE", "disable_warnings")
    ]
    assert texts == []


def test_json_from_outside_may_be_nested_too_deep():
    """json.loads raises RecursionError, which is no ValueError: whoever reads it catches both."""
    loads, caught = set(), set()
    for name, node in nodes(ast.Call | ast.Try | ast.With):
        if is_loads(node) and not name.startswith(KNOWN_JSON):
            loads.add((name, node.lineno))
        elif not isinstance(node, ast.Call) and "RecursionError" in handlers(node):
            inner = [found for part in node.body for found in ast.walk(part)]
            caught |= {(name, found.lineno) for found in inner if is_loads(found)}
    assert len(loads) > 8
    assert loads - caught == set()


def is_loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load")


def handlers(tried: ast.Try | ast.With) -> str:
    """The kinds that are caught, or that a suppress() lets go."""
    if isinstance(tried, ast.With):
        return " ".join(ast.unparse(item.context_expr) for item in tried.items)
    return " ".join(ast.unparse(handler.type) for handler in tried.handlers if handler.type)
