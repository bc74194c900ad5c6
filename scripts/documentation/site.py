"""The pages in one folder, and the site that Zensical builds of them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checkpoints.errors import SlimtuneError, UnsupportedError
from checkpoints.files import atomic_directory
from scripts.documentation.commands import commands_page
from scripts.documentation.errors import error_pages
from scripts.documentation.forms import with_forms_table
from scripts.documentation.python_api import python_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that lie in the repository's root -> what they are called in the site."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^()\s]+)\)")


def build_site(out: str | Path) -> Path:
    """Builds the site; gives the path of its first page. Nothing is fetched.

    Args:
      out: the directory to make; an older one is replaced.

    Raises:
      UnsupportedError: Zensical is not installed.
      SlimtuneError: a link leads nowhere, or a page is in no menu; the message lists what was said.
    """
    if importlib.util.find_spec("zensical") is None:
        raise UnsupportedError(
            "Zensical, which builds the site, is not installed.",
            expected="Python 3.11 or later, and Zensical",
            next_step="pip install 'slimtune[dev]'",
        )
    with tempfile.TemporaryDirectory(prefix="slimtune-docs-") as folder:
        gather(Path(folder))
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"],
            cwd=folder,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SlimtuneError(f"The site cannot be built:\n{done.stdout}{done.stderr}")
        with atomic_directory(Path(out), overwrite=True) as place:
            shutil.copytree(Path(folder) / "site", place, dirs_exist_ok=True)
    return Path(out) / "index.html"


def gather(folder: Path) -> None:
    """Puts mkdocs.yml and all pages, those of the code too, into a folder."""
    from scripts.command_line import cli

    pages = folder / "docs"
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", pages)
    for name, page in PAGES.items():
        (pages / page).write_text(_linked((ROOT / name).read_text(encoding="utf-8"), pages, pages))
    for path in sorted(pages.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(_linked(text, path.parent, pages), encoding="utf-8")
    formats = pages / "formats"
    (formats / "index.md").write_text(_formats_page(formats), encoding="utf-8")
    reference = pages / "reference"
    (reference / "errors").mkdir(parents=True)
    (reference / "commands.md").write_text(commands_page(cli), encoding="utf-8")
    (reference / "python.md").write_text(python_page(), encoding="utf-8")
    for name, page in error_pages(ROOT).items():
        (reference / "errors" / name).write_text(page, encoding="utf-8")


def _formats_page(folder: Path) -> str:
    """The table of forms, and a line for each page of a format."""
    lines = [
        "# Formats",
        "",
        "What `slimtune convert` reads and writes:",
        "",
        "<!-- formats -->",
        "<!-- /formats -->",
    ]
    lines += ["", "How each file is laid out, byte by byte:", ""]
    for path in sorted(folder.glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return with_forms_table("\n".join(lines) + "\n")


def _linked(text: str, folder: Path, pages: Path) -> str:
    """A page whose links fit the site: what lies outside of it is named, not linked."""

    def change(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        target = PAGES.get(target.removeprefix("../"), target.removeprefix("docs/"))
        path, _, anchor = target.partition("#")
        if path.endswith("/"):
            path += "index.md"
        place = os.path.normpath(folder / path)
        if not place.startswith(str(pages)):
            return words
        return f"[{words}]({path}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(change, text)
