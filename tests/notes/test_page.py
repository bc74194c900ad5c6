"""docs/notes.md: the tests it names are there, and its Python runs from top to bottom."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/notes.md"

TEST = re.compile(r"(test_\w+\.py)::(test_\w+)")
CODE = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)


def test_every_topic_names_a_test_and_every_test_has_a_topic():
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| (?!topic)", line)]
    assert all(TEST.search(row.rpartition(" | ")[2]) for row in rows)
    named = set(TEST.findall("\n".join(rows)))
    there = {
        (path.name, name)
        for path in HERE.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
        if path.name != Path(__file__).name
    }
    assert named == there


@pytest.mark.tensorflow
def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = [textwrap.dedent(block) for block in CODE.findall(PAGE.read_text()) if block.strip()]
    assert len(code) == 4
    names: dict[str, object] = {}
    exec(compile("\n".join(code), str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert names["newest"].prefix == Path("run/model.ckpt-50")
    assert names["answers"].argmax(1).tolist() == [0, 0, 1, 1]
    assert names["read"] == [[2], [0], [1]]
