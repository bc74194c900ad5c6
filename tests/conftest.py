"""Fixtures that every test may use."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
_CACHE = tempfile.TemporaryDirectory(prefix="slimtune-tests-")
os.environ["SLIMTUNE_CACHE"] = _CACHE.name

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real pictures and models that lies beside the repository.

    On a user's machine it is absent and the test skips; where SLIMTUNE_REQUIRE_SHARED is
    set, its absence fails.
    """
    folder = Path(os.environ.get("SLIMTUNE_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        if os.environ.get("SLIMTUNE_REQUIRE_SHARED"):
            pytest.fail(f"SLIMTUNE_REQUIRE_SHARED is set and {folder}/data is not there.")
        pytest.skip("the shared pictures and models are not beside this repository")
    return folder


@pytest.fixture
def http_server() -> Iterator[Any]:
    """A web server on 127.0.0.1 that serves bytes and misbehaves as told: tests/http_server.py."""
    name = "slimtune_http_server"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, REPOSITORY / "tests/http_server.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    with sys.modules[name].serve() as server:
        yield server


class Heard:
    """A Progress that remembers what it was told.

    Attributes:
      said: the lines.
      total: of the last task.
      advanced: what tasks advanced by.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.total: int | None = None
        self.advanced: list[int] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def note(self, text: str) -> None:
        pass

    def advance(self, amount: int = 1) -> None:
        self.advanced.append(amount)

    @contextmanager
    def task(self, description: str, total: int | None, unit: str = "") -> Iterator[Heard]:
        self.total = total
        yield self


@pytest.fixture
def slimtune(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    """Types a command; gives (exit code, stdout, stderr)."""
    from scripts.main import main

    def type_(*words: object) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([*map(str, words)])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return type_


@pytest.fixture
def heard() -> Heard:
    return Heard()


class Killed(BaseException):
    """Stands for the process being killed: nothing may catch it and go on."""


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A block that ends before the call of that number, of functions given as (holder, name).

    It gives an event, which is set where the block ended so.
    """

    @contextmanager
    def block(moment: int, *functions: tuple[Any, str]) -> Iterator[threading.Event]:
        killed = threading.Event()
        left = [moment]

        def guard(function: Callable[..., Any]) -> Callable[..., Any]:
            def guarded(*arguments: Any, **options: Any) -> Any:
                if not left[0]:
                    killed.set()
                    raise Killed
                left[0] -= 1
                return function(*arguments, **options)

            return guarded

        with monkeypatch.context() as patch, suppress(Killed):
            for holder, name in functions:
                patch.setattr(holder, name, guard(getattr(holder, name)))
            yield killed

    return block


@pytest.fixture(scope="session")
def colour_pictures(tmp_path_factory):
    """Class folders of 20 noisy 20x20 pictures each: red, green, blue."""
    folder = tmp_path_factory.mktemp("colours") / "pictures"
    random = np.random.default_rng(4)
    for place, name in enumerate(["red", "green", "blue"]):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            pixels = random.integers(0, 120, (20, 20, 3), np.uint8)
            pixels[:, :, place] += 130
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def colours(colour_pictures):
    """The dataset built of them, a fifth for validation."""
    from finetune.datasets.build import build

    out = colour_pictures.parent / "dataset"
    build(colour_pictures, out, val=0.2)
    return out


class ColourModel:
    """A model of the three colours, made by hand: what it answers follows from one matrix.

    Logits are the mean of each channel, normalised by averages, times the matrix.
    """

    RIGHT = np.fliplr(np.eye(3, dtype=np.float32)) * 4
    """Red, green and blue in, blue, green and red out."""

    def __init__(self, classes: tuple[str, ...] = ("blue", "green", "red")) -> None:
        self.classes = classes
        self.label_offset = 0

    def variables(self, weights: Any = None, mean: Any = (0, 0, 0)) -> dict[str, Any]:
        """Values of the variables; a `mean` other than 0 is an average that lags."""
        return {
            "Colour/weights": self.RIGHT if weights is None else weights,
            "Colour/BatchNorm/moving_mean": np.array(mean, np.float32),
            "Colour/BatchNorm/moving_variance": np.ones(3, np.float32),
        }

    def graph(self, batch: int | None = None, values: dict[str, Any] | None = None) -> bytes:
        """A GraphDef with metadata; with `values` frozen, else with variables."""
        from checkpoints.messages import GraphDef
        from exporters.metadata import Metadata, metadata_node
        from exporters.runtime import load_tensorflow

        tf = load_tensorflow()
        v1 = tf.compat.v1

        def variable(name: str, shape: list[int]) -> Any:
            if values is not None:
                return tf.constant(values[name], name=name)
            return tf.raw_ops.VariableV2(shape=shape, dtype=tf.float32, name=name)

        with tf.Graph().as_default() as graph:
            images = v1.placeholder(tf.float32, [batch, 16, 16, 3], name="input")
            channels = tf.reduce_mean(images, [1, 2], keepdims=True)
            normalised = tf.raw_ops.FusedBatchNormV3(
                x=channels,
                scale=tf.ones(3),
                offset=tf.zeros(3),
                mean=variable("Colour/BatchNorm/moving_mean", [3]),
                variance=variable("Colour/BatchNorm/moving_variance", [3]),
                is_training=False,
            ).y
            weights = variable("Colour/weights", [3, 3])
            logits = tf.matmul(tf.squeeze(normalised, [1, 2]), weights, name="logits")
            tf.nn.softmax(logits, name="probabilities")
            message = GraphDef.FromString(graph.as_graph_def().SerializeToString())
        metadata = Metadata(
            classes=self.classes,
            label_offset=self.label_offset,
            preprocessing={"name": "inception", "image_size": 16},
            image_size=16,
            input="input:0",
            outputs={"probabilities": "probabilities:0", "logits": "logits:0"},
        )
        message.node.append(metadata_node(metadata))
        return message.SerializeToString(deterministic=True)

    def write_pb(self, path: Path, batch: int | None = None, **changes: Any) -> Path:
        """A frozen graph."""
        path.write_bytes(self.graph(batch, self.variables(**changes)))
        return path

    def begin_run(self, directory: Path, steps: int, trainable: tuple[str, ...] = ()) -> Path:
        """A run directory before its first checkpoint."""
        directory.mkdir()
        config = {"data": "colours", "run": str(directory), "steps": steps, "total_steps": steps}
        variables = [
            {"name": name, "state": state, "optimised": name.endswith("weights")}
            for name in self.variables()
            for state in ["trainable" if name in trainable else "frozen"]
        ]
        (directory / "config.json").write_text(json.dumps(config))
        (directory / "plan.json").write_text(json.dumps({"variables": variables}))
        (directory / "labels.txt").write_text("".join(f"{name}\n" for name in self.classes))
        (directory / "inference_graph.pb").write_bytes(self.graph())
        return directory

    def save(self, run: Path, step: int, **changes: Any) -> Path:
        """A checkpoint of a run."""
        import checkpoints
        from checkpoints import family

        prefix = run / f"model.ckpt-{step}"
        checkpoints.write(prefix, self.variables(**changes))
        family.write_state(run, prefix.name, [prefix.name])
        return prefix

    def end(self, run: Path, step: int, **changes: Any) -> None:
        """The last checkpoint of a run, noted as such."""
        self.save(run, step, **changes)
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "ended_at": step}))


@pytest.fixture
def colour_model() -> ColourModel:
    return ColourModel()


@pytest.fixture(scope="session")
def make_colour_model() -> type[ColourModel]:
    """For fixtures that last longer than a test."""
    return ColourModel
