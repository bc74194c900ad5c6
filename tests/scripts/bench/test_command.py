"""slimtune bench, with a group of two tiny programs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from checkpoints.errors import OutputExistsError
from scripts.bench import runner
from scripts.commands.bench import command

GROUP = """
import sys
from scripts.bench.case import Case, Command, Contender, Peer

def cases(directory, quick, progress):
    ours, peer = (Command((sys.executable, "-S", "-c", code)) for code in {codes!r})
    return [
        Case("tiny", "do nothing", Contender("A", ours), (Peer("B", peer),)),
        Case("slow", "do nothing", Contender("A", ours), (Peer("B", peer),), in_quick=False),
    ]
"""


@pytest.fixture
def files_group(tmp_path, monkeypatch):
    """Lets `bench files`, then the only group, run the two programs it is given."""

    def use(*codes):
        (tmp_path / "tiny_files.py").write_text(GROUP.format(codes=codes))
        monkeypatch.syspath_prepend(str(tmp_path))
        for name in set(runner.GROUPS) - {"files"}:
            monkeypatch.delitem(runner.GROUPS, name)
        monkeypatch.setitem(runner.GROUPS, "files", "tiny_files")
        monkeypatch.delitem(runner.importlib.sys.modules, "tiny_files", raising=False)

    return use


def test_json_is_one_object_and_the_only_thing_on_stdout(files_group):
    files_group("print(1)", "print(2)")
    result = CliRunner().invoke(command, ["files", "--quick", "--json"])
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["repetitions"] == runner.QUICK_REPETITIONS
    (case,) = value["cases"]
    assert case["name"] == "tiny"
    assert [len(c["runs"]) for c in case["contenders"]] == [runner.QUICK_REPETITIONS] * 2
    assert "files" not in value


def test_without_a_group_all_run_and_the_table_is_shown(files_group, monkeypatch):
    files_group("", "")
    monkeypatch.setattr(runner, "REPETITIONS", 1)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0
    assert "slow: do nothing" in result.stdout
    assert "memory ratio" in result.stdout
    assert "tiny: do nothing" in result.stdout
    assert "Next: slimtune bench --out DIR" in result.stdout


def test_out_holds_figures_plot_and_table(files_group, tmp_path):
    files_group("", "")
    out = tmp_path / "the results"
    result = CliRunner().invoke(command, ["files", "--quick", "--json", "--out", str(out)])
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert sorted(path.name for path in out.iterdir()) == ["bench.json", "bench.md", "bench.png"]
    assert value["files"] == [str(out / f"bench.{ending}") for ending in ("json", "png", "md")]
    assert json.loads((out / "bench.json").read_text())["cases"] == value["cases"]
    assert "| tiny | A |" in (out / "bench.md").read_text()


def test_results_are_replaced_only_when_told_to(files_group, tmp_path):
    files_group("", "")
    out = tmp_path / "results"
    arguments = ["files", "--quick", "--out", str(out)]
    assert CliRunner().invoke(command, arguments).exit_code == 0
    first = (out / "bench.json").read_text()
    refused = CliRunner().invoke(command, arguments)
    assert isinstance(refused.exception, OutputExistsError)
    assert (out / "bench.json").read_text() == first
    assert CliRunner().invoke(command, [*arguments, "--overwrite"]).exit_code == 0
    assert (out / "bench.json").read_text() != first


def test_a_directory_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--overwrite"])
    assert isinstance(result.exception, OutputExistsError)
    assert "thesis.txt" in str(result.exception)
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"


def test_a_failing_program_gives_exit_code_1_and_the_whole_json(files_group):
    files_group("", "raise SystemExit('no peer today')")
    result = CliRunner().invoke(command, ["files", "--quick", "--json"])
    assert result.exit_code == 1
    (case,) = json.loads(result.stdout)["cases"]
    assert "no peer today" in case["contenders"][1]["failure"]
    assert len(case["contenders"][0]["runs"]) == runner.QUICK_REPETITIONS


def test_an_unknown_group_is_wrong_usage():
    result = CliRunner().invoke(command, ["filez"])
    assert result.exit_code == 2
    assert "'files'" in result.stderr
