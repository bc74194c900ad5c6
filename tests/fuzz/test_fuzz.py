"""Mutated files for every reader: only errors of ours, within 2 s and 256 MB each.

What was found once stands with its right error in tests/hostile and beside the readers' tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from fuzzing import runner
from fuzzing.reader import Reader
from fuzzing.readers import READERS
from fuzzing.runner import files_of, run

from checkpoints.errors import DataError

SHORT, LONG = 600, 200_000


@pytest.mark.parametrize("name", READERS)
def test_some_inputs(name):
    assert [str(finding) for finding in run(READERS[name], range(SHORT))] == []


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_many_inputs(name):
    # In processes of their own: one that dies is a finding too.
    cores = os.cpu_count() or 1
    share = -(-LONG // cores)
    command = [sys.executable, str(Path(__file__).parent), name, "--count", str(share)]
    running = [
        subprocess.Popen(
            [*command, "--first", str(core * share)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for core in range(cores)
    ]
    outputs = [process.communicate()[0].decode() for process in running]
    assert [process.returncode for process in running] == [0] * cores, "\n".join(outputs)


@pytest.mark.parametrize("name", READERS)
def test_inputs_repeat(name):
    reader = READERS[name]
    seeds = reader.seeds()
    first = [files_of(reader, seeds, 0, number) for number in range(20)]
    assert first == [files_of(reader, reader.seeds(), 0, number) for number in range(20)]
    assert first != [files_of(reader, seeds, 1, number) for number in range(20)]
    assert sum(files not in seeds for files in first) >= 15


def fail(directory):
    raise KeyError(directory)


def hang(directory):
    while True:
        pass


def grow(directory):
    bytes(2 * runner.MEMORY)


def warn(directory):
    warnings.warn("old", DeprecationWarning, stacklevel=1)


def refuse(directory):
    raise DataError("It is broken.")


FOUND = {fail: "KeyError", hang: "_TooLongError", grow: "MemoryError", warn: "DeprecationWarning"}


@pytest.mark.parametrize("read", [*FOUND, refuse])
def test_what_counts_as_a_finding(monkeypatch, read):
    monkeypatch.setattr(runner, "SECONDS", 0.05)
    reader = Reader("r", lambda: [{"f": b"x"}], (read,))
    found = run(reader, range(3))
    assert [finding.what.split()[0] for finding in found] == (
        [FOUND[read]] if read in FOUND else []
    )
    for finding in found:
        assert "Again: python tests/fuzz r --seed 0 --first 0 --count 1" in str(finding)
