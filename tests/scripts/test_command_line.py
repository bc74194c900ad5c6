"""What holds for every verb: streams that are full or closed, interrupts, whole errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import checkpoints
from scripts import command_line
from scripts.main import main
from scripts.output import json_line, one_line, printable

REPOSITORY = Path(__file__).resolve().parents[2]
FULL = Path("/dev/full")


@pytest.fixture
def prefix(tmp_path):
    return checkpoints.write(tmp_path / "m.ckpt", {"a": np.ones(2, np.float32)}).prefix


def started(*words, program="from scripts.main import main; main()", **options):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=REPOSITORY,
        text=True,
        check=False,
        **options,
    )


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("flags", [["inspect", "{}"], ["inspect", "{}", "--json"], ["--help"]])
def test_a_full_standard_output_is_one_error(prefix, flags):
    with FULL.open("w") as full:
        done = started(
            *(flag.format(prefix) for flag in flags), stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Error: Standard output cannot be written: No space left on device")
    assert lines[-1].startswith("Next: ")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_closed_standard_output_is_refused_before_anything_is_done(prefix):
    program = (
        "import os, sys; os.close(1);"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'scripts', *sys.argv[1:]])"
    )
    done = started(
        "convert", prefix, prefix.with_name("n.npz"), program=program, stderr=subprocess.PIPE
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Error: Standard output is closed."
    assert not prefix.with_name("n.npz").exists()


def test_a_reader_that_has_gone_is_no_error(prefix):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = started("inspect", prefix, stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_interrupt_while_things_are_loaded(monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == "scripts.command_line":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "scripts.command_line", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as stop:
        main(["formats"])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "Error: Interrupted.\n"


def test_json_has_no_number_that_json_lacks():
    values = {"a": float("nan"), "b": [1.5, float("-inf")], "c": {"d": np.float64("inf")}}
    assert json.loads(json_line(values)) == {"a": None, "b": [1.5, None], "c": {"d": None}}
    assert json.loads(
        json_line({"a": np.array([1.0, np.nan]), "p": Path("x"), "t": (True, "s")})
    ) == {
        "a": [1.0, None],
        "p": "x",
        "t": [True, "s"],
    }


def test_control_characters_do_not_reach_the_terminal():
    assert printable("a\x1b[31m\t\0\x9b\nb\u202e") == "a\\x1b[31m\\t\\x00\\x9b\nb\\u202e"
    assert one_line("a\nb") == "a\\nb"
    assert one_line("x" * 10, 7) == "xxx\N{HORIZONTAL ELLIPSIS}xxx"
    assert one_line("abcdefgh", 8) == "abcdefgh"


@pytest.mark.parametrize("verb", ["inspect", "verify", "diff"])
def test_names_of_variables_do_not_steer_the_terminal(tmp_path, capsys, verb):
    name = "a\x1b[31m\tb\nc\0d"
    for file in ("a", "b"):
        checkpoints.write(tmp_path / file, {name: np.full(2, ord(file), np.float32)})
    data = tmp_path / "b.data-00000-of-00001"
    words = {"diff": [tmp_path / "a"]}.get(verb, [])
    if verb == "verify":
        data.write_bytes(data.read_bytes()[:4])
    with pytest.raises(SystemExit):
        main([verb, *map(str, words), str(tmp_path / "b")])
    out = capsys.readouterr().out
    assert "a\\x1b[31m\\tb\\nc\\x00d" in out
    assert not set(out) & set("\x1b\t\0")


def test_one_long_name_does_not_widen_the_table(tmp_path, capsys):
    checkpoints.write(tmp_path / "m", {"x" * 5000: np.ones(1), "w": np.ones(1)})
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path / "m")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[1:])) < 200
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path / "m"), "--json"])
    names = [variable["name"] for variable in json.loads(capsys.readouterr().out)["variables"]]
    assert sorted(map(len, names)) == [1, 5000]


def test_memory_that_runs_out_is_an_error(monkeypatch, capsys):
    def run_out(*_, **__):
        raise MemoryError("Unable to allocate 16 GiB")

    monkeypatch.setattr(command_line.cli, "main", run_out)
    assert command_line.run(["verify", "bomb.npz", "--json"]) == 1
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (error["type"], error["message"]) == ("MemoryError", "Memory ran out.")
    assert error["received"] == "Unable to allocate 16 GiB"
    assert err.startswith("Error: Memory ran out.\nNext: inspect shows sizes")
