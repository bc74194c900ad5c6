"""Medians and ratios from given figures, and the JSON they end in."""

from __future__ import annotations

import json
import sys

from scripts.bench.result import ContenderResult


def test_medians_spread_and_ratios(report):
    fast = report.cases[0]
    ours, peer = fast.contenders
    assert ours.seconds == 0.2
    assert ours.spread == (0.1, 0.3)
    assert ours.peak_bytes == 20_000_000
    (ratio,) = fast.ratios
    assert ratio.time == 20.0
    assert ratio.memory == 25.0
    assert ratio.met is True
    assert peer.measured


def test_a_target_is_missed_when_one_of_two_is_missed(report):
    (ratio,) = report.cases[1].ratios
    assert (ratio.time, ratio.memory, ratio.met) == (0.5, 5.0, False)


def test_without_targets_nothing_is_met_or_missed(report):
    (ratio,) = report.cases[0].ratios
    free = type(ratio)(type(ratio.peer)("peer", ratio.peer.work), ratio.time, ratio.memory)
    assert free.met is None


def test_failures_fail_the_report_and_missed_targets_do_not(report):
    assert report.failed
    report.cases = report.cases[:2]
    assert not report.failed


def test_a_failed_contender_has_no_ratio(report):
    failed = report.cases[2]
    assert failed.ratios == []
    assert failed.failures == ["the peer's [tool]: A program failed: peer"]


def test_json_holds_every_run_and_the_ratios(report):
    value = json.loads(json.dumps(report.as_json()))
    assert list(value) == ["date", "machine", "repetitions", "cases", "left_out"]
    assert value["machine"]["versions"]["slimtune"] == "0.1.0"
    fast, missed, failed = value["cases"]
    assert (fast["group"], fast["name"], fast["title"]) == ("files", "list", "list a checkpoint")
    assert fast["contenders"][0] == {
        "name": "slimtune inspect",
        "role": "ours",
        "kind": "process",
        "command": ["slimtune", "inspect"],
        "times": 1,
        "runs": [
            {"seconds": time, "cpu_seconds": time / 2, "peak_bytes": 20_000_000}
            for time in (0.3, 0.1, 0.2)
        ],
        "failure": None,
        "median_seconds": 0.2,
        "min_seconds": 0.1,
        "max_seconds": 0.3,
        "median_peak_bytes": 20_000_000,
        "items_per_second": None,
    }
    assert fast["ratios"] == [
        {
            "peer": "the peer's [tool]",
            "time": 20.0,
            "memory": 25.0,
            "target": 12.0,
            "memory_target": None,
            "met": True,
        }
    ]
    assert missed["contenders"][0]["kind"] == "step"
    assert missed["contenders"][0]["command"] == [
        *(sys.executable, "-m", "scripts.bench.step", "module:function", "2", "x")
    ]
    assert failed["contenders"][1]["failure"] == "A program failed: peer"
    assert "median_seconds" not in failed["contenders"][1]
    assert failed["ratios"] == []


def test_json_of_a_check(report):
    fast, missed, _ = report.cases
    assert missed.as_json()["check"] == {"passed": None, "equal": None, "failure": None}
    fast.case = type(fast.case)("list", "", fast.case.ours, fast.case.peers, lambda printed: "")
    assert fast.as_json()["check"] == {"passed": True, "equal": "388 variables", "failure": None}
    fast.equal, fast.check_failure = None, "1 is not 2"
    assert fast.as_json()["check"] == {"passed": False, "equal": None, "failure": "1 is not 2"}
    assert fast.as_json()["ratios"] == []


def test_a_contender_that_failed_half_way_is_not_measured(report):
    ours = report.cases[0].contenders[0]
    assert not ContenderResult(ours.contender, ours.runs, "killed").measured
    assert not ContenderResult(ours.contender).measured
