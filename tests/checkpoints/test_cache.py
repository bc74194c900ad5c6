import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoints.cache import cache_directory, locked


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("SLIMTUNE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_order_of_places(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache/slimtune"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == tmp_path / ".cache/slimtune"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg/slimtune"
    monkeypatch.setenv("SLIMTUNE_CACHE", "~/own cache")
    assert cache_directory() == tmp_path / "own cache"


def test_a_user_without_a_home_gets_a_temporary_directory(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory().name == f"slimtune-{os.getuid()}"


COUNT = """
import sys
from pathlib import Path
from checkpoints.cache import locked
from checkpoints.progress import SILENT
directory = Path(sys.argv[1])
for _ in range(200):
    with locked(directory / "lock", SILENT):
        counter = directory / "counter"
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def test_one_process_at_a_time_and_nothing_left(tmp_path):
    (tmp_path / "counter").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert (tmp_path / "counter").read_text() == "400"
    assert [file.name for file in tmp_path.iterdir()] == ["counter"]


def test_who_waits_is_told(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    said = []
    holder = (tmp_path / "lock").open("ab")
    fcntl.flock(holder, fcntl.LOCK_EX)

    class Listening:
        def say(self, text):
            said.append(text)
            holder.close()

    with locked(tmp_path / "lock", Listening()):
        assert said == [f"Another process holds {tmp_path / 'lock'}; waiting for it."]
