"""What importing and asking for help may not load, tried in interpreters of their own.

import-linter and ruff look at the text of the imports; this looks at what really gets loaded,
through other people's packages too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.main import COMMANDS

REPOSITORY = Path(__file__).resolve().parent.parent
HEAVY = ("tensorflow", "tf_slim", "tf_keras", "keras")

# Imports the modules one after the other and tells for each which forbidden ones it brought in.
IMPORT = """
import importlib, json, sys
names, forbidden = json.loads(sys.argv[1])
found = {}
for name in names:
    importlib.import_module(name)
    loaded = [module for module in forbidden if module in sys.modules]
    if loaded:
        found[name] = loaded
        forbidden = [module for module in forbidden if module not in loaded]
print(json.dumps(found))
"""

HELP = """
import contextlib, io, json, sys
from scripts.main import main
calls, forbidden = json.loads(sys.argv[1])
found = {}
for call in calls:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(call)
        except SystemExit as stop:
            assert stop.code == 0, (call, stop.code)
    assert "Usage: slimtune" in out.getvalue(), call
    loaded = [module for module in forbidden if module in sys.modules]
    if loaded:
        found[" ".join(call)] = loaded
        forbidden = [module for module in forbidden if module not in loaded]
print(json.dumps(found))
"""


def fresh(program, *arguments):
    """What a program prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, json.dumps(arguments)],
        check=True,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    return json.loads(done.stdout)


def modules_of(package):
    for path in sorted((REPOSITORY / package).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        if parts[-1] == "__main__":
            continue
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_the_modules_are_found():
    assert {"checkpoints", "checkpoints.bundle"} <= set(modules_of("checkpoints"))
    assert {"exporters", "exporters.rewrites.prune"} <= set(modules_of("exporters"))


@pytest.mark.parametrize("package", ["checkpoints", "exporters", "finetune", "scripts"])
def test_importing_modules_does_not_load_tensorflow(package):
    """Also where a module runs TensorFlow: it loads it when it does."""
    assert fresh(IMPORT, list(modules_of(package)), HEAVY) == {}


@pytest.mark.parametrize("package", ["checkpoints", "exporters", "finetune", "scripts"])
def test_importing_a_package_costs_nothing(package):
    assert fresh(IMPORT, [package], [*HEAVY, "numpy", "google.protobuf", "PIL", "rich"]) == {}


def test_help_loads_neither_tensorflow_nor_numpy():
    calls = [["--help"], *([verb, "--help"] for verb in COMMANDS)]
    assert fresh(HELP, calls, [*HEAVY, "numpy", "google.protobuf"]) == {}


def test_a_forbidden_import_would_be_found():
    """The test itself can fail: it finds what it looks for where that is loaded."""
    assert fresh(IMPORT, ["json", "checkpoints.dtypes", "checkpoints.bundle"], ["numpy"]) == {
        "checkpoints.dtypes": ["numpy"]
    }
