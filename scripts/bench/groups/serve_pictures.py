"""Models that slimtune wrote as steps to be timed, run by the runners of `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 0

Serve = Callable[[NDArray[np.float32]], NDArray[Any]]


def serve_graph(
    path: str, input_name: str, output: str, size: str, batch: str
) -> Callable[[], list[list[float]]]:
    """The step: pictures through a .pb.

    Args:
      path: the frozen graph.
      input_name: tensor name of the pictures.
      output: tensor name of the probabilities.
      size: height and width of a picture.
      batch: pictures at a time; all of `pictures_of(size)` go through.
    """
    from exporters.runtime import GraphRunner

    runner = GraphRunner(path, [input_name], [output])
    return in_batches(lambda pictures: runner.run(pictures)[0], size, batch)


def serve_other(
    path: str, input_name: str, output: str, size: str, batch: str
) -> Callable[[], list[list[float]]]:
    """The step: pictures through a .tflite or an .onnx. Arguments as of `serve_graph`."""
    from exporters.runtimes.runners import open_runner

    runner = open_runner(Path(path))
    runner.select_outputs((output,))
    return in_batches(lambda pictures: runner.run(pictures)[0], size, batch)


def in_batches(serve: Serve, size: str, batch: str) -> Callable[[], list[list[float]]]:
    """The step that answers all pictures, so many at a time; returns the probabilities of each."""
    pictures = pictures_of(int(size))
    step = int(batch)
    parts = [pictures[start : start + step] for start in range(0, len(pictures), step)]
    return lambda: [row for part in parts for row in serve(part).tolist()]


PICTURES = 16
"""How many pictures a step answers: whole batches of any size that is measured."""


def pictures_of(size: int) -> NDArray[np.float32]:
    """float32 [PICTURES, size, size, 3] in [-1, 1]: uniform noise, the same in every process."""
    random = np.random.default_rng(SEED)
    return random.uniform(-1, 1, (PICTURES, size, size, 3)).astype(np.float32)
