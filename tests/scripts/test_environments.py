"""The command where the environment is not what a developer has: each in a process of its own."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CLASSES = ("naïve café", "花", "цветок")
SLIMTUNE = (sys.executable, "-m", "scripts")
ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|.)")


def environment(**changes: str | None) -> dict[str, str]:
    """This process's variables with some changed; None takes one away."""
    made = {**os.environ, "PYTHONPATH": str(REPOSITORY), **changes}
    return {name: value for name, value in made.items() if value is not None}


def run(*words: object, cwd: Path, **changes: str | None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*SLIMTUNE, *map(str, words)],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        check=False,
    )


def run_on_terminal(*words: object, cwd: Path, columns: int = 40, **changes: str | None) -> str:
    """What a terminal of so many columns gets from a command that succeeds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*SLIMTUNE, *map(str, words)],
        cwd=cwd,
        env=environment(COLUMNS=None, LINES=None, **changes),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # The other side was closed.
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with pictures/ in classes of several scripts, and values.npz."""
    folder = tmp_path_factory.mktemp("environments")
    random = np.random.default_rng(0)
    for name in CLASSES:
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(2):
            pixels = random.integers(0, 255, (8, 8, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / name / f"{number}.png")
    np.savez(folder / "values.npz", **{"слой/weights": np.zeros((3, 3), np.float32)})
    return folder


LOCALES = {
    "c": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": None, "PYTHONIOENCODING": None},
    "c-no-utf8": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("name", LOCALES)
def test_names_in_other_scripts_survive_any_locale(place, tmp_path, name):
    done = run("data", "build", "pictures", tmp_path / "out", cwd=place, **LOCALES[name])
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "out/labels.txt").read_text("utf-8").split("\n")[:-1] == sorted(CLASSES)
    told = run("inspect", "values.npz", "--json", cwd=place, **LOCALES[name])
    assert json.loads(told.stdout)["variables"][0]["name"] == "слой/weights"
    shown = run("inspect", "values.npz", cwd=place, **LOCALES[name])
    assert shown.returncode == 0


HOMES = {
    "none": {"HOME": None, "XDG_CACHE_HOME": None, "SLIMTUNE_CACHE": None},
    "a-file": {"HOME": "/dev/null", "XDG_CACHE_HOME": None, "SLIMTUNE_CACHE": None},
}


@pytest.mark.parametrize("name", HOMES)
def test_files_are_handled_without_a_home(place, tmp_path, name):
    for words in (
        ("convert", "values.npz", tmp_path / "o.ckpt"),
        ("data", "build", "pictures", tmp_path / "out"),
        ("nets",),
    ):
        done = run(*words, cwd=place, **HOMES[name])
        assert (done.returncode, done.stderr if done.returncode else b"") == (0, b""), words


def test_a_home_that_cannot_hold_a_cache_is_named(place):
    done = run("download", "inception_v3", cwd=place, **HOMES["a-file"])
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)
    assert b"/dev/null" in done.stderr


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_where_there_is_no_terminal_there_are_no_escapes(place, variables):
    for words in (("formats",), ("data", "check", "pictures")):
        done = run(*words, cwd=place, **{"TERM": "xterm-256color", **variables})
        assert done.returncode == 0
        assert not ESCAPE.search((done.stdout + done.stderr).decode())


def test_no_color_leaves_no_colours_and_a_dumb_terminal_no_escapes(place):
    colour = ("\x1b[3", "\x1b[9", "\x1b[4", "\x1b[10")
    text = run_on_terminal("formats", cwd=place, TERM="xterm-256color", NO_COLOR="1")
    assert not any(code in text for code in colour)
    assert not ESCAPE.search(run_on_terminal("formats", cwd=place, TERM="dumb", NO_COLOR=None))


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_the_terminal_and_cut_nothing(place, tmp_path, columns):
    commands = [
        ("formats",),
        ("data", "check", "pictures"),
        ("data", "build", "pictures", tmp_path / "out"),
    ]
    for words in commands:
        text = run_on_terminal(*words, cwd=place, columns=columns, TERM="xterm")
        lines = ESCAPE.sub("", text).splitlines()
        assert max(map(cell_len, lines)) <= columns, words
        assert "…" not in text
    for name in CLASSES:
        assert any(name in line for line in lines)


def test_nothing_is_written_beside_the_sources(place, tmp_path):
    """As where site-packages cannot be written: the packages are taken from a zip file."""
    packages = tmp_path / "packages.zip"
    with zipfile.ZipFile(packages, "w") as archive:
        for package in ("checkpoints", "exporters", "scripts", "finetune"):
            for path in sorted((REPOSITORY / package).rglob("*.py")):
                archive.write(path, path.relative_to(REPOSITORY))
    before = packages.read_bytes()
    program = "import sys; from scripts.main import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "inspect", "values.npz"],
        cwd=place,
        env=environment(PYTHONPATH=str(packages), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "слой/weights" in done.stdout.decode()
    assert packages.read_bytes() == before


def test_a_current_directory_that_was_removed(place, tmp_path):
    gone = tmp_path / "gone"
    program = (
        f"import os, shutil, sys; os.chdir({str(gone)!r}); shutil.rmtree({str(gone)!r}); "
        f"sys.path[:0] = [{str(REPOSITORY)!r}]; from scripts.main import main; main(sys.argv[1:])"
    )
    for words, code in (
        (("inspect", place / "values.npz"), 0),
        (("data", "build", place / "pictures", tmp_path / "out"), 0),
        (("inspect", "values.npz"), 1),
        (("convert", place / "values.npz", "o.ckpt"), 1),
    ):
        gone.mkdir()
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *map(str, words)],
            env=environment(PYTHONPATH=None),
            cwd=place,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr


def test_no_place_for_temporary_files(place, tmp_path):
    done = run("convert", "values.npz", tmp_path / "o.ckpt", cwd=place, TMPDIR="/nonexistent")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_a_strict_umask_is_kept(place, tmp_path):
    program = (
        f"import os, sys; os.umask(0o077); sys.path[:0] = [{str(REPOSITORY)!r}]; "
        "from scripts.main import main; main(sys.argv[1:])"
    )
    for words in (
        ("convert", "values.npz", tmp_path / "o.ckpt"),
        ("data", "build", "pictures", tmp_path / "out"),
    ):
        subprocess.run(
            [sys.executable, "-P", "-c", program, *map(str, words)],
            cwd=place,
            env=environment(PYTHONPATH=None),
            capture_output=True,
            check=True,
        )
    written = [path for path in tmp_path.rglob("*") if path.is_file() or path.is_dir()]
    assert len(written) > 4
    assert {path.stat().st_mode & 0o077 for path in written} == {0}
