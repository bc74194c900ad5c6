"""Cases run A B A B; failures and differing results are kept and told."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from checkpoints.errors import VerificationError
from scripts.bench import runner
from scripts.bench.case import Case, Command, Contender, Peer
from scripts.bench.groups import GROUPS
from scripts.bench.runner import run_case, run_groups


def logging_command(name, log):
    """A program that adds a line to the log and prints how many lines there are."""
    code = (
        f"log = open({str(log)!r}, 'a+'); log.write({name!r} + '\\n'); log.seek(0); "
        f"print({name!r}, len(log.readlines()))"
    )
    return Command((sys.executable, "-S", "-c", code))


def logging_case(tmp_path, peers=("B",), check=None):
    log = tmp_path / "log"
    return Case(
        name="logged",
        title="write a line",
        ours=Contender("A", logging_command("A", log)),
        peers=tuple(Peer(name, logging_command(name, log)) for name in peers),
        check=check,
    )


def test_contenders_take_turns_after_one_round_that_does_not_count(tmp_path):
    result = run_case(logging_case(tmp_path), tmp_path, 3, group="files")
    assert (tmp_path / "log").read_text().split() == ["A", "B"] * 4
    assert [len(contender.runs) for contender in result.contenders] == [3, 3]
    assert result.group == "files"
    assert result.failures == []
    assert result.equal is None


def test_a_case_may_ask_for_fewer_rounds(tmp_path):
    case = replace(logging_case(tmp_path), most_rounds=1)
    assert [len(contender.runs) for contender in run_case(case, tmp_path, 3).contenders] == [1, 1]


def test_several_peers_take_turns(tmp_path):
    run_case(logging_case(tmp_path, peers=("B", "C")), tmp_path, 2)
    assert (tmp_path / "log").read_text().split() == ["A", "B", "C"] * 3


def test_the_check_sees_what_each_printed_last(tmp_path):
    seen = {}

    def check(printed):
        seen.update(printed)
        return "two lines"

    result = run_case(logging_case(tmp_path, check=check), tmp_path, 2)
    assert seen == {"A": "A 5\n", "B": "B 6\n"}
    assert result.equal == "two lines"


def test_differing_results_are_a_failure_without_a_ratio(tmp_path):
    def check(printed):
        raise VerificationError("A says 1, B says 2.")

    result = run_case(logging_case(tmp_path, check=check), tmp_path, 1)
    assert result.check_failure == "A says 1, B says 2."
    assert result.failures == ["The results differ: A says 1, B says 2."]
    assert result.ratios == []


def test_a_contender_that_fails_stops_and_the_others_go_on(tmp_path):
    case = logging_case(tmp_path, peers=("B", "C"), check=lambda printed: "never asked")
    log = tmp_path / "log"
    broken = f"open({str(log)!r}, 'a').write('B\\n'); raise SystemExit('out of tea')"
    peers = (Peer("B", Command((sys.executable, "-c", broken))), case.peers[1])
    result = run_case(Case("logged", "", case.ours, peers, case.check), tmp_path, 2)
    assert log.read_text().split() == ["A", "B", "C", "A", "C", "A", "C"]
    (failure,) = result.failures
    assert failure.startswith("B: A program failed: ")
    assert failure.endswith("Received: exit code 1\nout of tea")
    assert [ratio.peer.name for ratio in result.ratios] == ["C"]
    assert result.equal is None


def test_progress_counts_every_run(tmp_path, heard):
    run_case(logging_case(tmp_path), tmp_path, 2, progress=heard)
    assert heard.total == 6
    assert heard.advanced == [1] * 6


def test_groups_run_in_a_directory_of_their_own_that_goes_away(tmp_path, monkeypatch):
    (tmp_path / "tiny_group.py").write_text(
        "import sys\n"
        "from scripts.bench.case import Case, Command, Contender, Peer\n"
        "directories = []\n"
        "def cases(directory, quick, progress):\n"
        "    directories.append(directory)\n"
        "    here = Command((sys.executable, '-S', '-c', 'import os; print(os.getcwd())'))\n"
        "    def check(printed):\n"
        "        return ' '.join(printed.values())\n"
        "    return [Case('here', 'where', Contender('A', here), (Peer('B', here),), check)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(GROUPS, "tiny", "tiny_group")
    report = run_groups(["tiny"], quick=True)
    (case,) = report.cases
    (directory,) = sys.modules["tiny_group"].directories
    assert case.group == "tiny"
    assert case.equal.split() == [str(directory.resolve())] * 2
    assert not directory.exists()
    assert report.repetitions == runner.QUICK_REPETITIONS
    assert not report.failed


@pytest.mark.parametrize("name", list(GROUPS))
def test_every_group_of_the_table_can_be_loaded(name):
    assert callable(runner.importlib.import_module(GROUPS[name]).cases)


def test_a_case_may_do_without_the_round_that_does_not_count(tmp_path):
    result = run_case(replace(logging_case(tmp_path), warm_up=False), tmp_path, 2)
    assert (tmp_path / "log").read_text().split() == ["A", "B"] * 2
    assert [len(contender.runs) for contender in result.contenders] == [2, 2]


def test_a_case_that_cannot_be_measured_is_told_and_not_run(tmp_path, monkeypatch):
    class Group:
        @staticmethod
        def cases(directory, quick, progress):
            return [replace(logging_case(tmp_path), skipped="no such CPU")]

    monkeypatch.setattr(runner.importlib, "import_module", lambda name: Group)
    report = run_groups(["files"], quick=True)
    assert report.cases == []
    assert report.as_json()["left_out"] == {"logged": "no such CPU"}
    assert not report.failed
    assert not (tmp_path / "log").exists()
