"""A report with figures that can be reckoned in the head."""

from __future__ import annotations

import pytest

from scripts.bench.case import Case, Command, Contender, Peer, Step
from scripts.bench.process import Run
from scripts.bench.result import CaseResult, ContenderResult, Report

MACHINE = {
    "cpu": "Example CPU",
    "cores": 2,
    "flags": ["avx2"],
    "memory_bytes": 8 * 2**30,
    "system": "Linux 6.1 x86_64",
    "load": 0.25,
    "versions": {"python": "3.11.7", "slimtune": "0.1.0", "tensorflow": None},
}


def runs(megabytes, *seconds):
    return [Run(time, time / 2, megabytes * 10**6) for time in seconds]


@pytest.fixture
def report():
    """Three cases: targets met, a target missed, a peer that failed."""
    ours = Contender("slimtune inspect", Command(("slimtune", "inspect")))
    peer = Peer("the peer's [tool]", Command(("peer",)), target=12.0)
    fast = CaseResult(
        "files",
        Case("list", "list a checkpoint", ours, (peer,)),
        [
            ContenderResult(ours, runs(20, 0.3, 0.1, 0.2)),
            ContenderResult(peer, runs(500, 4.0, 5.0, 3.0)),
        ],
        equal="388 variables",
    )
    step = Contender("slimtune step", Step("module:function", ("x",), repeat=2))
    slower = Peer("faster peer", Step("other:function"), target=1.0, memory_target=4.0)
    missed = CaseResult(
        "files",
        Case("read", "read a checkpoint", step, (slower,)),
        [ContenderResult(step, runs(100, 2.0)), ContenderResult(slower, runs(500, 1.0))],
    )
    failed = CaseResult(
        "files",
        Case("freeze", "freeze a graph", ours, (peer,)),
        [
            ContenderResult(ours, runs(150, 0.5)),
            ContenderResult(peer, [], "A program failed: peer"),
        ],
    )
    return Report("2026-01-02T03:04:05+00:00", MACHINE, 3, [fast, missed, failed])
