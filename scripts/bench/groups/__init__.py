"""Groups of cases. A new one is a module with `cases(directory, progress)` and a row of the table."""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "files": "scripts.bench.groups.files",
    "input": "scripts.bench.groups.input",
    "serving": "scripts.bench.groups.serving",
    "training": "scripts.bench.groups.training",
}
"""Group -> the module that makes its cases, loaded when it runs."""
