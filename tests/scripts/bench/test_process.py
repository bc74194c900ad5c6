"""One run of one program: time, memory, what it printed, and every way it can fail."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from scripts.bench.case import Command, Step, python, slimtune
from scripts.bench.process import ProgramError, run_work

MEGABYTE = 10**6


def program(code):
    return Command((sys.executable, "-c", code))


def test_a_command_gives_what_it_printed_and_its_figures(tmp_path):
    run, printed = run_work(program("import os; print(os.getcwd())"), tmp_path)
    assert printed == f"{tmp_path.resolve()}\n"
    assert run.cpu_seconds > 0
    assert run.seconds > 0


def test_python_may_keep_its_bytecode(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("KEPT", "yes")
    code = "import os, sys; print(sys.dont_write_bytecode, os.environ['KEPT'])"
    assert run_work(program(code), tmp_path)[1] == "False yes\n"


def test_waiting_counts_as_wall_time_and_not_as_cpu_time(tmp_path):
    run, _ = run_work(program("import time; time.sleep(0.5)"), tmp_path)
    assert run.seconds > 0.5
    assert run.cpu_seconds < run.seconds


def test_memory_that_a_program_held_is_seen(tmp_path):
    idle, _ = run_work(program("pass"), tmp_path)
    run, _ = run_work(program("held = bytearray(b'x') * 200_000_000; del held"), tmp_path)
    assert run.peak_bytes > 150 * MEGABYTE
    assert 200 * MEGABYTE < run.peak_bytes - idle.peak_bytes + MEGABYTE < 230 * MEGABYTE


def test_memory_of_the_process_that_measures_is_not_counted(tmp_path):
    held = bytearray(b"x") * 300_000_000
    run, _ = run_work(program("pass"), tmp_path)
    del held
    assert run.peak_bytes < 50 * MEGABYTE


def test_a_failing_program_is_told_with_its_last_words(tmp_path):
    code = "import sys; [print(f'line {i}', file=sys.stderr) for i in range(20)]; sys.exit(3)"
    with pytest.raises(ProgramError) as caught:
        run_work(program(code), tmp_path)
    assert caught.value.received == "exit code 3\n" + "\n".join(
        f"line {index}" for index in range(14, 20)
    )
    assert caught.value.message.startswith(f"A program failed: {sys.executable} -c ")


def test_a_killed_program_is_told_by_its_signal(tmp_path):
    with pytest.raises(ProgramError, match="exit code -9"):
        run_work(program("import os; os.kill(os.getpid(), 9)"), tmp_path)


def test_a_program_that_is_not_there_is_told(tmp_path):
    with pytest.raises(
        ProgramError, match="it could not be started\nno-such-program: No such file"
    ):
        run_work(Command(("no-such-program",)), tmp_path)


def test_a_program_that_does_not_end_is_killed_with_its_children(tmp_path):
    shell = Command(("sh", "-c", "sleep 60 & echo $! > child; sleep 60"))
    with pytest.raises(ProgramError, match=r"no end after 1\.5 s"):
        run_work(shell, tmp_path, limit=1.5)
    assert _gone(int((tmp_path / "child").read_text()))


def _gone(process):
    """Whether a process has ended; who adopts it may take a moment to collect it."""
    for _ in range(100):
        try:
            os.kill(process, 0)
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_a_step_is_timed_without_its_preparation(tmp_path):
    (tmp_path / "counting.py").write_text(
        "import time\n"
        "clock = [0.0]\n"
        "time.perf_counter = lambda: clock[0]\n"
        "calls = []\n"
        "def prepare(word):\n"
        "    clock[0] += 100\n"
        "    def step():\n"
        "        calls.append(word)\n"
        "        clock[0] += [50, 2, 9, 4][len(calls) - 1]\n"
        "        print('noise')\n"
        "        return {'calls': len(calls), 'word': word}\n"
        "    return step\n"
    )
    run, printed = run_work(Step("counting:prepare", ("ä b",), repeat=3), tmp_path)
    assert json.loads(printed) == {"calls": 4, "word": "ä b"}
    assert run.seconds == 4  # the median of 2, 9, 4; the first call is not timed


def test_a_step_of_a_file_runs_in_another_python_that_sees_nothing_of_this_one(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "alone.py").write_text(
        "import sys\n"
        "def prepare(word):\n"
        "    return lambda: [word, sys.flags.isolated, 'scripts' in sys.modules]\n"
    )
    step = Step(f"{tmp_path / 'alone.py'}:prepare", ("word",), interpreter=sys.executable)
    assert json.loads(run_work(step, tmp_path)[1]) == ["word", 1, False]


def test_a_step_that_raises_is_told(tmp_path):
    (tmp_path / "raising.py").write_text(
        "def prepare():\n    def step():\n        raise ValueError('no such step')\n    return step\n"
    )
    with pytest.raises(ProgramError, match="ValueError: no such step"):
        run_work(Step("raising:prepare"), tmp_path)


def test_slimtune_is_run_as_it_is_typed(tmp_path):
    command = slimtune("nets", "inception_v3", "--json")
    assert command.arguments[-3:] == ("nets", "inception_v3", "--json")
    _, printed = run_work(command, tmp_path)
    assert "inception_v3" in [net["name"] for net in json.loads(printed)["nets"]]


def test_modules_are_run_by_this_python():
    assert python("a.b", "x").arguments == (sys.executable, "-m", "a.b", "x")
