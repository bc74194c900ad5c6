"""The site: built without a warning, nothing from elsewhere, and what the code says is what it says."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
from pathlib import Path

import click
import pytest

from checkpoints.errors import SlimtuneError
from scripts.command_line import cli
from scripts.documentation import site
from scripts.documentation.commands import commands_page, walk
from scripts.documentation.errors import page_name
from scripts.documentation.forms import with_forms_table
from scripts.documentation.messages import anchors, read_kinds, read_messages
from scripts.documentation.python_api import MODULES, python_page

REPOSITORY = Path(__file__).resolve().parents[2]

needs_zensical = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="Zensical is for Python 3.11 and later"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site's folder."""
    return site.build_site(tmp_path_factory.mktemp("docs") / "site").parent


@pytest.fixture(scope="module")
def messages():
    return read_messages(REPOSITORY)


@needs_zensical
def test_it_builds_without_a_warning_and_fetches_nothing(built):
    pages = list(built.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text()
        assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"https?:", text) == []
        assert "fonts.googleapis" not in text


@needs_zensical
def test_a_broken_link_stops_it(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# One\n\n[two](two.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: one\n")
    monkeypatch.setattr(site, "gather", lambda folder: _copy(tmp_path, folder))
    with pytest.raises(SlimtuneError, match="page does not exist"):
        site.build_site(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _copy(source, folder):
    for path in source.rglob("*.*"):
        target = folder / path.relative_to(source)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())


@needs_zensical
def test_the_menu_has_every_page(built):
    text = (REPOSITORY / "mkdocs.yml").read_text()
    named = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    written = {
        path.relative_to(REPOSITORY / "docs").as_posix()
        for path in (REPOSITORY / "docs").glob("*.md")
    }
    assert written - named == set()
    assert all((built / name).with_suffix(".html").is_file() for name in named)


@needs_zensical
def test_the_search_finds_a_message_by_its_words_and_leads_to_it(built, messages):
    index = json.loads((built / "search.json").read_text())
    places = {entry["location"] for entry in index["items"]}
    for kind in read_kinds(REPOSITORY):
        found = [message for message in messages if message.kind == kind]
        if found:
            page = f"reference/errors/{page_name(kind).removesuffix('.md')}.html"
            assert {f"{page}#{anchor}" for anchor in anchors(found)} <= places


def test_messages_are_read_off_the_sources(messages):
    """As many as there are calls; the words of some that are made in different ways."""
    assert len(messages) > 500
    said = {(message.kind, message.text): message for message in messages}
    assert said["OutputExistsError", "{path} is already there."].next_step.startswith(
        "Add --overwrite"
    )
    assert ("NotFoundError", "{root} is no folder.") in said  # one of two that a line chooses from
    assert ("PlanError", "{checkpoint} lacks {number} variables of the net:\n  {problems}") in said
    assert not any("{}" in message.text for message in messages)


def test_no_error_is_raised_without_a_message_that_is_listed(messages):
    """Every file that makes one of our errors of words of its own is in the list."""
    kinds = set(read_kinds(REPOSITORY))
    listed = {(message.kind, message.source) for message in messages}
    for package in ("checkpoints", "exporters", "finetune", "scripts"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in kinds
                    and node.args
                    and isinstance(node.args[0], ast.Constant | ast.JoinedStr)
                ):
                    assert (node.func.id, path.relative_to(REPOSITORY).as_posix()) in listed


def test_the_page_of_remedies_quotes_messages_that_are_there(messages):
    known = {re.sub(r"\{[^}]*\}", "...", message.text.partition("\n")[0]) for message in messages}
    page = (REPOSITORY / "docs/troubleshooting.md").read_text()
    quoted = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert len(quoted) >= 20
    assert set(quoted) - known == set()


def test_commands_have_every_verb_and_option():
    page = commands_page(cli)
    for words, command in walk(cli):
        assert f" {' '.join(words)} {{ #".replace("_", "&#95;") in page
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "as_json":
                assert option.opts[0].replace("_", "&#95;") in page


def test_python_has_every_public_name_and_nothing_that_changes():
    page = python_page()
    assert page == python_page()
    assert " at 0x" not in page
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            assert f"{module}.{name}".replace("_", "&#95;") in page


def test_the_readme_has_the_forms_of_the_code():
    text = (REPOSITORY / "README.md").read_text()
    assert with_forms_table(text) == text
    assert "| ONNX model | `model.onnx` | `onnx` |  | with `slimtune[onnx]` |" in text
