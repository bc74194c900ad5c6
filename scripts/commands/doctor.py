"""slimtune doctor: versions, processor, extras, and what works here; for bug reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from scripts.output import Output
from scripts.verb import verb

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+).*;.*extra == .(?P<extra>[\w-]+)")
"""As it stands in a distribution's metadata: `onnx>=1.16; extra == "onnx"`."""

DEVELOPMENT = "dev"
"""The extra of those who change slimtune; users need not hear of it."""


@verb("doctor", example="slimtune doctor")
def command(output: Output) -> None:
    """Show versions and processor, and try what slimtune needs: for a look, or a bug report."""
    from scripts.bench.machine import describe_machine, machine_line

    machine = describe_machine()
    extras = {extra: _versions(names) for extra, names in _extras().items()}
    checks = []
    with output.task("Trying what slimtune needs", len(CHECKS), "checks") as task:
        for name, check in CHECKS.items():
            checks.append({"name": name, **_tried(check)})
            task.advance()
    ok = all(check["ok"] for check in checks)
    lines = [
        machine_line(machine),
        f"Instruction sets: {', '.join(machine['flags']) or 'none of note'}",
    ]
    lines += [
        f"  {name} {version or 'not installed'}" for name, version in machine["versions"].items()
    ]
    for extra, versions in extras.items():
        found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        missing = None in versions.values()
        lines.append(
            f"Extra {extra}: {found or '-'}"
            + (f" (pip install 'slimtune[{extra}]')" if missing else "")
        )
    lines += [f"{'works ' if c['ok'] else 'FAILS '} {c['name']}: {c['detail']}" for c in checks]
    output.result(
        {"ok": ok, "machine": machine, "extras": extras, "checks": checks}, "\n".join(lines)
    )
    if not ok:
        raise click.exceptions.Exit(1)


def _extras() -> dict[str, list[str]]:
    """Extra -> the distributions it brings, as slimtune's own metadata has them."""
    from importlib import metadata

    extras: dict[str, list[str]] = {}
    for requirement in metadata.requires("slimtune") or []:
        found = _REQUIREMENT.match(requirement)
        if found and found["extra"] != DEVELOPMENT:
            extras.setdefault(found["extra"], []).append(found["name"])
    return extras


def _versions(distributions: list[str]) -> dict[str, str | None]:
    from importlib import metadata

    found: dict[str, str | None] = {}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _tried(check: Callable[[], str]) -> dict[str, Any]:
    """What a check says; whatever it raises is an answer here, not a fault of this verb."""
    try:
        return {"ok": True, "detail": check()}
    except Exception as error:  # noqa: BLE001
        return {"ok": False, "detail": f"{type(error).__name__}: {error}"}


def _tensorflow() -> str:
    from exporters.runtime import load_tensorflow

    return f"loads, version {load_tensorflow().__version__}"


def _tf_slim() -> str:
    from exporters.runtime import load_tensorflow
    from finetune.nets import build_net

    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default():
        build_net("inception_v3_sample", v1.placeholder(v1.float32, [None, 149, 149, 3]), 5)
        return f"builds Inception-v3 with {len(v1.global_variables())} variables"


def _sample() -> str:
    import checkpoints
    from checkpoints.downloading import download

    with checkpoints.open(download("sample").path) as saved:
        return f"the base that ships with slimtune has {len(saved)} variables"


def _cache() -> str:
    from checkpoints.cache import cache_directory

    directory = cache_directory()
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    if not _writable(nearest):
        raise PermissionError(f"{nearest} cannot be written; SLIMTUNE_CACHE names another place")
    return str(directory)


def _writable(directory: Path) -> bool:
    import os

    return os.access(directory, os.W_OK)


CHECKS: dict[str, Callable[[], str]] = {
    "TensorFlow": _tensorflow,
    "tf-slim": _tf_slim,
    "sample": _sample,
    "cache": _cache,
}
