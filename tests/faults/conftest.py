"""Commands that something befalls, and what may lie there afterwards."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checkpoints.temporary_names import PARTIAL


@dataclass(frozen=True)
class Ended:
    """What came of a command.

    Attributes:
      status: exit status, negative for a signal.
      stdout: what it printed.
      stderr: the same.
      moments: what it changed, or was about to, in order.
      seconds: how long it took.
      orphans: whether processes that it started were left.
      rival: exit status of the command that ran at the same time.
      rival_said: what that printed to stderr.
    """

    status: int
    stdout: str
    stderr: str
    moments: list[str]
    seconds: float
    orphans: bool
    rival: int | None
    rival_said: str


class Commands:
    """slimtune, in forks of a process that has everything loaded."""

    def __init__(self, directory: Path, *, tensorflow: bool) -> None:
        self._said = directory
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("forking_command_line.py")),
                *(["tensorflow"] if tensorflow else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )

    def run(self, *words: object, watched: Path, **fault: object) -> Ended:
        """Types a command; the words of `fault` are those of forking_command_line.Command."""
        command = {
            "words": [str(word) for word in words],
            "watched": str(watched),
            "said": str(self._said),
            **fault,
        }
        self._process.stdin.write(json.dumps(command, default=str) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Ended(
            status=answer["status"],
            stdout=self._read("stdout"),
            stderr=self._read("stderr"),
            moments=self._read("moments").splitlines(),
            seconds=answer["seconds"],
            orphans=answer["orphans"],
            rival=answer.get("rival"),
            rival_said=self._read("rival/stderr") if "rival" in answer else "",
        )

    def _read(self, name: str) -> str:
        return (self._said / name).read_text(errors="replace")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def light(tmp_path_factory):
    """Commands without TensorFlow."""
    commands = Commands(tmp_path_factory.mktemp("said"), tensorflow=False)
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def heavy(tmp_path_factory):
    """Commands that have TensorFlow loaded."""
    commands = Commands(tmp_path_factory.mktemp("said"), tensorflow=True)
    yield commands
    commands.close()


@dataclass(frozen=True)
class Writing:
    """A command that writes, and how its outputs are judged.

    Attributes:
      words: of the command for the sources of a number, 1 or 2, and the output.
      out: name of the output in its folder.
      check: words of the command that says whether the output is sound, before its path.
      overwrite: what allows to replace an output.
      sign: the file whose being there makes a family of files one; absent, what is left of the
        others counts for nothing. Empty: the output is one file or one folder.
      same: takes from a snapshot what two runs of one command have in common.
      begin: puts an older output into a folder; None: the command with source 1 does.
      environment: variables, for the folder that the output lies in.
    """

    words: Callable[[int, Path], list[object]]
    out: str
    check: tuple[str, ...] = ("verify",)
    overwrite: tuple[str, ...] = ("--overwrite",)
    sign: str = ""
    same: Callable[[dict[str, bytes]], dict[str, bytes]] = dict
    begin: Callable[[Path], None] | None = None
    environment: Callable[[Path], dict[str, str]] = field(default=lambda folder: {})


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; hidden ones, which are being written or locks, left out."""
    found = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if file.is_symlink() or not file.is_dir():
            found[str(name)] = bytes(file.readlink()) if file.is_symlink() else file.read_bytes()
        elif not any(file.iterdir()):
            found[f"{name}/"] = b""
    return found


def leftovers(folder: Path) -> list[str]:
    """Temporary names below a folder."""
    return [file.name for file in folder.rglob(".*") if PARTIAL.fullmatch(file.name)]


class Trial:
    """A command tried with faults, in folders of its own, over nothing or over an older output."""

    def __init__(self, commands: Commands, writing: Writing, directory: Path, over: bool) -> None:
        """Runs it undisturbed: what it writes, its moments and its seconds are known then.

        Args:
          commands: where it runs.
          writing: the command.
          directory: an empty one.
          over: whether an older output is there, and is to be replaced.
        """
        self.commands = commands
        self.writing = writing
        self.over = over
        self.directory = directory
        self.before = directory / "before"
        self.folder = directory / "tried"
        self.before.mkdir(parents=True)
        if over and writing.begin is not None:
            writing.begin(self.before)
        elif over:
            self.begin_from_before()
            ended = self._run(self.writing.words(1, self.out))
            assert ended.status == 0, ended.stderr
            self.before.rmdir()
            self.folder.rename(self.before)
        self.begin_from_before()
        self.old = self.found()
        self.whole = self.run()
        assert self.whole.status == 0, self.whole.stderr
        assert leftovers(self.folder) == []
        self.new = self.found()
        self.begin_from_before()
        self.whole = self.run()  # what was loaded for the first time took longer
        assert self.found() == self.new != self.old

    @property
    def out(self) -> Path:
        return self.folder / self.writing.out

    def found(self) -> dict[str, bytes]:
        """What lies there, as far as it may be compared."""
        return self.writing.same(snapshot(self.folder))

    def begin_from_before(self) -> None:
        """Puts what was there before into the folder."""
        self.remove()
        shutil.copytree(self.before, self.folder, symlinks=True, dirs_exist_ok=True)

    def remove(self) -> None:
        """Empties the folder, and removes it where it is no disk of its own."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def words(self, number: int = 2) -> list[object]:
        """The command as it is typed."""
        return [
            *self.writing.words(number, self.out),
            *(self.writing.overwrite if self.over else ()),
        ]

    def run(self, *options: object, **fault: object) -> Ended:
        """Types it, with a fault."""
        return self._run([*self.words(), *options], **fault)

    def _run(self, words: list[object], **fault: object) -> Ended:
        environment = self.writing.environment(self.folder)
        ended = self.commands.run(*words, watched=self.folder, environment=environment, **fault)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert not ended.orphans
        return ended

    def is_whole(self) -> bool:
        """Whether what lies there is the old or the new output; else it is to be none.

        A family of files without its sign is none.
        """
        found = self.found()
        if found == self.new or (self.over and found == self.old):
            return True
        sign = self.writing.sign
        assert (sign and sign not in found) or not found, sorted(found)
        return False

    def judge(self) -> None:
        """What lies there is the old, the new or none, and the check says which."""
        if not self.writing.check:
            self.is_whole()
            return
        whole = self.is_whole()
        checked = self._run([*self.writing.check, self.out])
        assert checked.status == (0 if whole else 1), checked.stderr
        if not whole:
            assert self.writing.out.rstrip("/") in checked.stdout + checked.stderr

    def rerun(self) -> None:
        """The same command again gives the whole result and leaves nothing else.

        Where the output got its name before the kill, the command has to be told to replace it.
        """
        ended = self.run()
        if ended.status and not self.over:
            assert "already there" in ended.stderr
            assert self.found() == self.new
            ended = self._run([*self.words(), *self.writing.overwrite])
        assert ended.status == 0, ended.stderr
        assert self.found() == self.new
        assert leftovers(self.folder) == []

    def kill_at(self, moment: int) -> None:
        """Killed just before a change, judged, and done again."""
        self.begin_from_before()
        assert self.run(at=moment).status == -9
        self.judge()
        self.rerun()

    def kill_at_random(self, times: int, seed: int = 1) -> int:
        """Killed so many times after a random share of its usual duration; gives the hits."""
        moments = random.Random(seed)
        hits = 0
        while hits < times:
            self.begin_from_before()
            hits += self.run(after=moments.uniform(0, self.whole.seconds)).status == -9
            self.judge()
            self.rerun()
        return hits


@pytest.fixture(scope="session")
def checkpoint_sources(tmp_path_factory):
    """Two checkpoints of the same names, m1 and m2, in one file, and sliced ones, s1 and s2."""
    import numpy as np

    import checkpoints
    from checkpoints.slicing import Slicing

    folder = tmp_path_factory.mktemp("checkpoints")
    for number in (1, 2):
        values = {name: np.full((40, 30), number + 0.5, np.float32) for name in ("a", "b/c")}
        values["global_step"] = np.array(number)
        checkpoints.write(folder / f"m{number}", values, version="v1")
        checkpoints.write(folder / f"s{number}.ckpt", values, slicing=Slicing(3, 0))
    return folder


@pytest.fixture(scope="session")
def few_pictures(tmp_path_factory):
    """Two folders of two classes of three pictures each, by their numbers 1 and 2."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(6)
    folders = {}
    for number in (1, 2):
        folders[number] = tmp_path_factory.mktemp("pictures") / "pictures"
        for name in ("one", "two"):
            (folders[number] / name).mkdir(parents=True)
            for picture in range(3):
                pixels = random.integers(0, 255, (8, 8, 3), np.uint8)
                Image.fromarray(pixels).save(folders[number] / name / f"{picture}.png")
    return folders


@pytest.fixture(scope="session")
def graph_sources(tmp_path_factory, make_colour_model):
    """Two models with the graph beside each: m1.ckpt and m2.ckpt with their .meta."""
    import checkpoints
    from exporters import convert

    folder = tmp_path_factory.mktemp("graphs")
    colour_model = make_colour_model()
    (folder / "graph.pb").write_bytes(colour_model.graph())
    for number in (1, 2):
        values = colour_model.variables(colour_model.RIGHT * number)
        checkpoints.write(folder / f"c{number}.ckpt", values)
        convert(folder / f"c{number}.ckpt", folder / f"m{number}.ckpt", graph=folder / "graph.pb")
    return folder


CHECKPOINTS = {
    # name of the output, source, options, its sign
    "v2": ("out.ckpt", "m{}", [], "out.ckpt.index"),
    "v1": ("out", "s{}.ckpt", ["--to", "v1"], ""),
    "sliced": ("out.ckpt", "m{}", ["--partition", 3, "--partition-bytes", 0], "out.ckpt.index"),
    "npz": ("out.npz", "m{}", [], ""),
    "safetensors": ("out.safetensors", "s{}.ckpt", [], ""),
}

GRAPHS = {
    "graph-v2": ("out.ckpt", [], "out.ckpt.index"),
    "graph-v1": ("out", ["--to", "v1"], "out"),
    "pb": ("out.pb", [], ""),
    "pbtxt": ("out.pbtxt", [], ""),
    "saved-model": ("out/", [], ""),
}


SCENES = [*CHECKPOINTS, *GRAPHS, "average", "data-build", "data-show", "data-sample"]
SCENES += ["data-download", "download-v1", "download-v2"]
QUICK = ["v2", "npz", "data-build", "data-download", "download-v2"]
"""Tried in every run, over an older output; all others in the long form."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tries every scene over nothing and over an older output."""
    if "scene" not in metafunc.fixturenames:
        return
    cases = []
    for scene in SCENES:
        for over in (False, True):
            marks = [pytest.mark.tensorflow] if scene in GRAPHS else []
            if scene not in QUICK or not over:
                marks.append(pytest.mark.long)
            name = f"{scene}-{'over' if over else 'new'}"
            cases.append(pytest.param(scene, over, id=name, marks=marks))
    metafunc.parametrize(("scene", "over"), cases)


@dataclass(frozen=True)
class Scenes:
    """What commands write, by a name each."""

    request: pytest.FixtureRequest
    directory: Path

    def fixture(self, name: str) -> Any:
        return self.request.getfixturevalue(name)

    def writing(self, name: str) -> Writing:
        if name in CHECKPOINTS:
            return self.checkpoint(name)
        if name in GRAPHS:
            return self.graph(name)
        return getattr(self, name.replace("-", "_"))()

    def checkpoint(self, name: str) -> Writing:
        sources = self.fixture("checkpoint_sources")
        out, source, options, sign = CHECKPOINTS[name]
        return Writing(
            lambda number, path: ["convert", sources / source.format(number), path, *options],
            out,
            sign=sign,
        )

    def graph(self, name: str) -> Writing:
        sources = self.fixture("graph_sources")
        out, options, sign = GRAPHS[name]
        end = "/" if out.endswith("/") else ""
        return Writing(
            lambda number, path: ["convert", sources / f"m{number}.ckpt", f"{path}{end}", *options],
            out,
            sign=sign,
        )

    def average(self) -> Writing:
        sources = self.fixture("checkpoint_sources")
        return Writing(
            lambda number, path: ["average", sources / "m1", sources / f"m{number}", path],
            "out.ckpt",
            sign="out.ckpt.index",
        )

    def data_build(self) -> Writing:
        pictures = self.fixture("few_pictures")
        return Writing(
            lambda number, path: ["data", "build", pictures[number], path, "--shards", 2],
            "out",
            check=("data", "check"),
        )

    def data_show(self) -> Writing:
        pictures = self.fixture("few_pictures")
        return Writing(
            lambda number, path: ["data", "show", pictures[number], "--out", path],
            "out.png",
            check=(),
        )

    def data_sample(self) -> Writing:
        options = ["--per-class", 6, "--seed"]
        return Writing(
            lambda number, path: ["data", "sample", "digits", path, *options, number],
            "out",
            check=("data", "check"),
        )

    def download_v1(self) -> Writing:
        return self.download("inception_v3", "/inception_v3_2016_08_28.tar.gz", "m{}", "")

    def download_v2(self) -> Writing:
        archive = "/mobilenet_v1_2018_08_02/mobilenet_v1_1.0_224.tgz"
        return self.download("mobilenet_v1_1.0_224", archive, "s{}.ckpt", ".index")

    def download(self, name: str, archive: str, source: str, sign: str) -> Writing:
        """The older one lies there without a note of where it came from."""
        server, sources = self.fixture("http_server"), self.fixture("checkpoint_sources")
        checkpoint = f"out/{name}.ckpt"

        def members(number: int) -> dict[str, bytes]:
            base = source.format(number)
            files = sources.glob(f"{base}*")
            return {f"{name}.ckpt{f.name.removeprefix(base)}": f.read_bytes() for f in files}

        def put_older(folder: Path) -> None:
            (folder / "out").mkdir()
            for file, data in members(1).items():
                (folder / "out" / file).write_bytes(data)

        server.add_archive(archive, members(2))
        return Writing(
            lambda number, path: ["download", name, "--to", path.parent],
            checkpoint,
            sign=sign and f"{checkpoint}{sign}",
            same=lambda found: {n: data for n, data in found.items() if n.startswith(checkpoint)},
            begin=put_older,
            environment=lambda folder: {"SLIMTUNE_MIRROR": server.url("/")},
        )

    def data_download(self) -> Writing:
        """MNIST's files."""
        from finetune.sample.digits import write_digits

        server = self.fixture("http_server")
        sources = {number: self.directory / f"digits{number}" for number in (1, 2)}
        for number, folder in sources.items():
            write_digits(folder, per_class=6, seed=number)
            for file in list(folder.iterdir()):
                packed = gzip.compress(file.read_bytes(), compresslevel=1, mtime=0)
                file.with_name(f"{file.name}.gz").write_bytes(packed)
                file.unlink()
        for file in sources[2].iterdir():
            server.files[f"/mnist/{file.name}"] = file.read_bytes()
        return Writing(
            lambda number, path: ["data", "download", "mnist", path, "--url", server.url("/mnist")],
            "out",
            check=("data", "check"),
            same=lambda found: {n: data for n, data in found.items() if n.startswith("out")},
            begin=lambda folder: shutil.copytree(sources[1], folder / "out"),
            environment=lambda folder: {"SLIMTUNE_CACHE": str(folder / "cache")},
        )


@pytest.fixture
def try_writing(request, tmp_path, light):
    """Makes a Trial of a scene without TensorFlow, by its name, or of a Writing."""
    numbers = iter(range(100))

    def make(writing, over, commands=light):
        if isinstance(writing, str):
            writing = Scenes(request, tmp_path).writing(writing)
        return Trial(commands, writing, tmp_path / f"trial{next(numbers)}", over)

    return make


@pytest.fixture(scope="session")
def make_writing():
    """The class Writing, for the tests beside this file."""
    return Writing


@pytest.fixture(name="leftovers")
def leftovers_function():
    """The function, for the tests beside this file."""
    return leftovers


@pytest.fixture
def count_kills(record_property):
    """Notes how often a command was killed: before changes, and at random moments."""

    def count(at_changes: int, at_random: int) -> None:
        record_property("killed before changes", at_changes)
        record_property("killed at random", at_random)

    return count
