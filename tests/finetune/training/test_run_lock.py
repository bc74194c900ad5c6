import json
import os
import re
import socket
import subprocess
import sys

import pytest

from checkpoints.errors import OutputError, RunError
from finetune.training import run_lock as run_lock_module
from finetune.training.run_lock import LOCK, run_lock

HOST = socket.gethostname()

HOLD = """
import sys
from pathlib import Path
from checkpoints.progress import SILENT
from finetune.training.run_lock import run_lock
with run_lock(Path(sys.argv[1]), SILENT):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds tmp_path/run."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_trainer_is_refused_and_told_who_is_there(holder, tmp_path, heard):
    with pytest.raises(RunError) as caught, run_lock(tmp_path / "run", heard):
        pass
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}/run is in use: process {holder.pid} on \S+ trains there\.",
        caught.value.message,
    )
    assert re.fullmatch(r"the lock train\.lock, 0 min \d+ s old", caught.value.received)
    assert heard.said == []
    holder.stdin.write("\n")
    holder.stdin.flush()
    holder.wait()
    with run_lock(tmp_path / "run", heard):
        pass
    assert heard.said == []


def test_the_lock_of_a_process_that_was_killed_is_taken_over_and_that_is_said(
    holder, tmp_path, heard
):
    holder.kill()
    holder.wait()
    path = tmp_path / "run" / LOCK
    assert json.loads(path.read_text())["process"] == holder.pid
    with run_lock(tmp_path / "run", heard):
        assert json.loads(path.read_text())["process"] == os.getpid()
    (said,) = heard.said
    assert said.startswith(f"Took over the lock of process {holder.pid} on ")
    assert not path.exists()


def test_a_directory_made_for_the_lock_goes_again_where_nothing_came_into_it(tmp_path, heard):
    with run_lock(tmp_path / "a" / "run", heard):
        assert (tmp_path / "a" / "run" / LOCK).is_file()
    assert not (tmp_path / "a" / "run").exists()
    with run_lock(tmp_path / "kept", heard):
        (tmp_path / "kept" / "config.json").write_text("{}")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["config.json"]


def test_one_process_cannot_take_it_twice(tmp_path, heard):
    with run_lock(tmp_path / "run", heard):
        with pytest.raises(RunError, match="is in use"), run_lock(tmp_path / "run", heard):
            pass
        assert (tmp_path / "run" / LOCK).is_file()
    assert not (tmp_path / "run").exists()


def test_a_lock_file_of_somebody_else_is_written_over(tmp_path, heard):
    (tmp_path / LOCK).write_text("not ours")
    with run_lock(tmp_path, heard):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()
    assert heard.said == []


ODD = {
    "no JSON": "{",
    "list": "[1]",
    "number": "5",
    "null": "null",
    "deep": "[" * 100_000,
    "empty": "{}",
    "no host": json.dumps({"process": 1, "since": 0}),
    "list for a process": json.dumps({"process": [], "host": HOST, "since": 0}),
    "text for a process": json.dumps({"process": "1", "host": HOST, "since": 0}),
    "truth for a process": json.dumps({"process": True, "host": HOST, "since": 0}),
    "process group": json.dumps({"process": 0, "host": HOST, "since": 0}),
    "all processes": json.dumps({"process": -1, "host": HOST, "since": 0}),
    "no process has it": json.dumps({"process": 10**30, "host": HOST, "since": 0}),
    "number for a host": json.dumps({"process": 1, "host": 5, "since": 0}),
    "text for a time": json.dumps({"process": 1, "host": HOST, "since": "today"}),
    "no number": json.dumps({"process": 1, "host": HOST, "since": float("nan")}),
    "infinity": json.dumps({"process": 1, "host": HOST, "since": float("inf")}),
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_without_the_systems_locks_odd_contents_name_nobody(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    run_lock_module._refuse_living(tmp_path / LOCK)
    error = run_lock_module._in_use(tmp_path / LOCK)
    assert error.message == f"{tmp_path} is in use: another process trains there."
    assert error.received == "the lock train.lock"


def test_without_the_systems_locks_the_living_and_those_elsewhere_are_refused(tmp_path):
    path = tmp_path / LOCK
    for process, host in ((os.getpid(), HOST), (1, "another.example")):
        path.write_text(json.dumps({"process": process, "host": host, "since": 0}))
        with pytest.raises(RunError, match=f"process {process} on {host} trains there"):
            run_lock_module._refuse_living(path)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    path.write_text(json.dumps({"process": ended.pid, "host": HOST, "since": 0}))
    run_lock_module._refuse_living(path)


@pytest.mark.parametrize("name", ["file", "file/run"])
def test_a_place_where_no_run_can_be(tmp_path, heard, name):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(OutputError, match="cannot be written") as caught,
        run_lock(tmp_path / name, heard),
    ):
        pass
    assert str(tmp_path / name) in caught.value.message and caught.value.next_step
    assert (tmp_path / "file").read_text() == "mine"
