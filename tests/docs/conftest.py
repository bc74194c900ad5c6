"""The pages, the command lines that stand in them, and a process that types these."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FORKS = REPOSITORY / "tests/faults/conftest.py"


@dataclass(frozen=True)
class Line:
    """A command as it stands in a page.

    Attributes:
      page: the page, from the repository's root.
      number: its line, from 1.
      text: the command, on one line and without the comment behind it.
    """

    page: str
    number: int
    text: str

    @property
    def words(self) -> list[str]:
        """What is typed after slimtune."""
        words = shlex.split(self.text)
        return words[words.index("slimtune") + 1 :]


def page_paths() -> list[Path]:
    """All pages written by hand."""
    roots = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")]
    return [*roots, *sorted((REPOSITORY / "docs").rglob("*.md"))]


def commands_of(path: Path) -> list[Line]:
    """The commands in blocks of code: lines that begin with slimtune or hand it a list."""
    name, found = path.relative_to(REPOSITORY).as_posix(), []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r" {4}(slimtune |find .*\| slimtune )", line):
            text = line.strip()
            while text.endswith("\\"):
                number += 1
                text = f"{text[:-1].rstrip()} {lines[number].strip()}"
            text = re.sub(r"\s(#\s.*|&)$", "", text).strip()
            found.append(Line(name, number + 1, text))
    return found


PUBLISHED = "inception_v3_2016_08_28.tar.gz"
"""What the archive of Inception-v3 is called."""


class World:
    """Small things under the names that the pages use, made once and copied."""

    def __init__(self, folder: Path, type_line: Any) -> None:
        self.folder = folder / "world"
        self.folder.mkdir()
        self._cache = folder / "cache"
        self._type = type_line

    def lay(self, name: str, into: Path) -> None:
        """Puts a thing into a page's folder."""
        for source in self._made(name):
            target = into / source.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)

    def _made(self, name: str) -> list[Path]:
        """Makes a thing; gives its files and folders, that of its name where the maker names none."""
        made = getattr(self, "make_" + re.sub(r"\W", "_", name))()
        return [self.folder / name] if made is None else list(made)

    def type(self, *words: str) -> None:
        """Types a command here."""
        ended = self._type(self.folder, *words)
        assert ended.status == 0, ended.stderr

    def make_pictures(self):
        if not (self.folder / "pictures").is_dir():
            self.type("data", "sample", "flowers", "pictures", "--per-class", "12")

    def _pictures_as(self, name: str) -> None:
        self.make_pictures()
        if not (self.folder / name).is_dir():
            shutil.copytree(self.folder / "pictures", self.folder / name)

    def make_flowers(self):
        self._pictures_as("flowers")

    def make_flower_photos(self):
        self._pictures_as("flower_photos")

    def make_few(self):
        self._pictures_as("few")

    def make_flowers_data(self):
        if not (self.folder / "flowers-data").is_dir():
            self.make_pictures()
            self.type("data", "build", "pictures", "flowers-data", "--val", "0.2", "--test", "0.2")

    def make_counts(self):
        self.make_flowers_data()
        if not (self.folder / "counts").is_dir():
            shutil.copytree(self.folder / "flowers-data", self.folder / "counts")

    def make_runs_flowers(self):
        if not (self.folder / "runs/flowers").is_dir():
            self.make_flowers_data()
            run = ("--run", "runs/flowers", "--checkpoint", "sample", "--epochs", "1")
            self.type("train", "flowers-data", *run)

    def make_frozen_pb(self):
        if not (self.folder / "frozen.pb").is_file():
            self.make_runs_flowers()
            self.type("convert", "runs/flowers", "frozen.pb")

    def make_train_ckpt(self):
        return self._family("train.ckpt")

    def make_train_meta(self):
        return self._family("train")

    def _family(self, prefix: str) -> list[Path]:
        """The last checkpoint of the run with its .meta, under another name."""
        self.make_runs_flowers()
        for path in (self.folder / "runs/flowers").glob("model.ckpt-*"):
            shutil.copy(
                path, self.folder / f"{prefix}.{path.name.partition('.ckpt-')[2].partition('.')[2]}"
            )
        return [path for path in self.folder.glob(f"{prefix}.*") if path.suffix != ".ckpt"]

    def make_output_graph_pb(self):
        """A graph without metadata, as retrain.py wrote it, and its labels."""
        self.make_frozen_pb()
        if not (self.folder / "output_graph.pb").is_file():
            from checkpoints.messages import GraphDef

            graph = GraphDef.FromString((self.folder / "frozen.pb").read_bytes())
            nodes = [node for node in graph.node if node.name != "slimtune/metadata"]
            del graph.node[:]
            graph.node.extend(nodes)
            (self.folder / "output_graph.pb").write_bytes(graph.SerializeToString())
            shutil.copy(self.folder / "runs/flowers/labels.txt", self.folder / "output_labels.txt")
        return [self.folder / "output_graph.pb", self.folder / "output_labels.txt"]

    def make_exported(self):
        """What Keras exports: a small net up to its pooled features."""
        if not (self.folder / "exported").is_dir():
            from exporters.runtime import load_tensorflow

            layers = load_tensorflow().keras.layers
            sizes = [
                layers.Input((64, 64, 3)),
                layers.Conv2D(8, 3),
                layers.GlobalAveragePooling2D(),
            ]
            load_tensorflow().keras.Sequential(sizes).export(
                self.folder / "exported", verbose=False
            )

    def make_digits(self):
        if not (self.folder / "mnist").is_dir():
            self.type("data", "sample", "digits", "mnist", "--per-class", "60")
        return [self.folder / "mnist"]

    def make_toys_csv(self):
        """Pictures of which some show two classes."""
        self.make_toys()
        self.make_pictures()
        rows = ["path,label"]
        folders = sorted((self.folder / "pictures").iterdir())
        for place, path in enumerate(sorted((self.folder / "pictures").glob("*/*.jpg"))):
            other = folders[place % len(folders)].name
            label = path.parent.name if other == path.parent.name else f"{path.parent.name}|{other}"
            rows.append(f"{path.relative_to(self.folder / 'pictures')},{label}")
        (self.folder / "toys.csv").write_text("\n".join(rows) + "\n")
        return [self.folder / "toys.csv"]

    def make_toys(self):
        self._pictures_as("toys")
        shutil.copy(next((self.folder / "toys").glob("*/*.jpg")), self.folder / "toys/1.jpg")

    def make_picture_jpg(self):
        self.make_pictures()
        shutil.copy(next((self.folder / "pictures").glob("*/*.jpg")), self.folder / "picture.jpg")

    def make_mynet_py(self):
        self._code("mynet.py", "docs/recipes.md", "import tf_slim")

    def make_baskets_py(self):
        self._code("baskets.py", "docs/losses.md", "def goods")

    def _code(self, name: str, page: str, words: str) -> None:
        """The block of a page that holds these words, as a file."""
        text = (Path(__file__).parents[2] / page).read_text()
        blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)
        (block,) = (block for block in blocks if words in block)
        code = re.sub(r"^ {4}", "", block, flags=re.MULTILINE).partition("\nslimtune ")[0]
        (self.folder / name).write_text(code.strip() + "\n")

    def make_inception_v3_ckpt(self):
        """Inception-v3 as it is published, one V1 file; its weights have learned nothing."""
        path = self.folder / "inception_v3.ckpt"
        if not path.is_file():
            import checkpoints
            from checkpoints.published import get_net
            from exporters.runtime import load_tensorflow
            from finetune.nets import build_net
            from finetune.planning import read_values

            v1 = load_tensorflow().compat.v1
            with v1.Graph().as_default(), v1.Session() as session:
                v1.set_random_seed(0)
                images = v1.placeholder("float32", [None, 299, 299, 3])
                build_net(get_net("inception_v3"), images, 1001, is_training=False)
                session.run(v1.global_variables_initializer())
                checkpoints.write(path, read_values(session, v1.global_variables()), version="v1")
        return [path]

    def make_published(self):
        """Its archive, where one puts it that was fetched elsewhere."""
        archive = self._cache / "checkpoints" / PUBLISHED
        if not archive.is_file():
            (path,) = self.make_inception_v3_ckpt()
            archive.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive, "w") as tar:
                tar.add(path, path.name)
        return []


@pytest.fixture(scope="session")
def pages() -> dict[str, list[Line]]:
    """Page -> its commands in order; pages without any are left out."""
    found = {path.relative_to(REPOSITORY).as_posix(): commands_of(path) for path in page_paths()}
    return {page: lines for page, lines in found.items() if lines}


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Types commands in forks of a process that has TensorFlow loaded."""
    spec = importlib.util.spec_from_file_location("slimtune_faults_conftest", FORKS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    commands = module.Commands(tmp_path_factory.mktemp("said"), tensorflow=True)
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def type_line(forks: Any) -> Any:
    """Types words in a folder; gives what came of it."""

    def type_(folder: Path, *words: str) -> Any:
        cache = {"SLIMTUNE_CACHE": str(folder.parent / "cache"), "PYTHONPATH": str(folder)}
        return forks.run(*words, watched=folder / "nothing", folder=str(folder), environment=cache)

    return type_


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, type_line: Any) -> World:
    """What the pages' commands find."""
    return World(tmp_path_factory.mktemp("docs"), type_line)
