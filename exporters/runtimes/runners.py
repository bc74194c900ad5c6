"""Models of other runtimes, run as GraphRunner runs a graph."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from checkpoints.errors import GraphError, UsageError
from exporters.metadata import Metadata
from exporters.runtime import load_tensorflow, session_config
from exporters.values import Array

RUNNERS = {
    "onnx": "exporters.runtimes.onnx_runner:OnnxRunner",
    "tflite": "exporters.runtimes.tflite_runner:TfliteRunner",
}
"""Form, which is the ending of its files too -> "module:class" that runs it."""


class Runner(Protocol):
    """What runs a model: GraphRunner, or an ArrayRunner.

    Attributes:
      inputs: names of the tensors that take what `run` is given, in that order.
      outputs: names of the tensors that come back, in that order.
      metadata: what the model says of itself, or None.
      batch_size: the length of the first input's first dimension; None where any is taken.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    metadata: Metadata | None
    batch_size: int | None

    def run(self, *arrays: Array, feeds: Mapping[str, Array] | None = None) -> list[Array]:
        """The outputs for one batch."""

    def run_dataset(
        self, make_dataset: Callable[[], Any]
    ) -> Iterator[tuple[list[Array], tuple[Array, ...]]]:
        """The outputs for each batch of a data set, and the rest of its element."""

    def __enter__(self) -> Runner:
        """The runner itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Frees what it holds."""


class ArrayRunner(ABC):
    """A model of a runtime that takes arrays.

    Attributes:
      label: how messages call the model.
      inputs: names of its inputs.
      outputs: names of the outputs that come back.
      metadata: what the model says of itself, or None.
      batch_size: the length of the first input's first dimension; None where any is taken.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    metadata: Metadata | None
    batch_size: int | None

    @abstractmethod
    def run_feeds(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs for values by the names of `inputs`."""

    @abstractmethod
    def close(self) -> None:
        """Frees the model. The runner cannot be used again."""

    def select_outputs(self, names: tuple[str, ...]) -> None:
        """Has `run` give these outputs alone.

        Raises:
          GraphError: the model has no such output.
        """
        missing = [name for name in names if name not in self.outputs]
        if missing:
            raise GraphError(
                f"{self.label} has no output {missing[0]}.",
                expected=", ".join(self.outputs),
                received=missing[0],
            )
        self.outputs = names

    def run(self, *arrays: Array, feeds: Mapping[str, Array] | None = None) -> list[Array]:
        """The outputs for one batch.

        Args:
          arrays: a value for each input, in the order of `inputs`.
          feeds: values of further inputs, by name.

        Raises:
          GraphError: an input is missing or unknown, or a shape or dtype does not fit.
        """
        values = {**dict(zip(self.inputs, arrays, strict=False)), **(feeds or {})}
        if len(arrays) > len(self.inputs) or values.keys() != set(self.inputs):
            raise GraphError(
                f"{self.label} takes other inputs.",
                expected=", ".join(self.inputs),
                received=", ".join(values) if len(arrays) <= len(self.inputs) else len(arrays),
            )
        return self.run_feeds(values)

    def run_dataset(
        self, make_dataset: Callable[[], Any]
    ) -> Iterator[tuple[list[Array], tuple[Array, ...]]]:
        """The outputs for each batch of a data set, which TensorFlow reads.

        Args:
          make_dataset: called inside a tf.Graph; returns a tf.data.Dataset whose elements are
            the first input, or a tuple that begins with it.

        Yields:
          The outputs, and the rest of the element (labels, ...).

        Raises:
          GraphError: a shape or dtype does not fit, or the data cannot be read.
        """
        tf = load_tensorflow()
        with tf.Graph().as_default() as graph:
            iterator = tf.compat.v1.data.make_initializable_iterator(make_dataset())
            element = iterator.get_next()
            with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
                session.run(iterator.initializer)
                while True:
                    try:
                        values = session.run(element)
                    except tf.errors.OutOfRangeError:
                        return
                    except tf.errors.OpError as error:
                        raise GraphError(
                            "The data cannot be read.", received=error.message.split("\n")[0]
                        ) from error
                    features, *rest = values if isinstance(values, tuple) else (values,)
                    yield self.run(features), tuple(rest)

    def __enter__(self) -> ArrayRunner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def refuse_other_than_utf8(path: Path) -> None:
    """Raises UsageError where a path has bytes that the runtimes, which take text, cannot be given."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{path}: the path is not UTF-8, and ONNX Runtime and LiteRT open no other.",
            next_step="Give it another name.",
        ) from error


def open_runner(
    path: str | Path, form: str | None = None, threads: int | None = None
) -> ArrayRunner:
    """A model file of another runtime, ready to run.

    Args:
      path: the file.
      form: "onnx" or "tflite"; left out, as the file's name ends.
      threads: how many threads it may use; None: as many as there are cores.

    Raises:
      UnsupportedError: its runtime is not installed.
      UsageError: its path is not UTF-8.
      BrokenFileError: the file is not what its name says.
    """
    refuse_other_than_utf8(Path(path))
    module, _, name = RUNNERS[form or Path(path).suffix[1:]].partition(":")
    runner: ArrayRunner = getattr(importlib.import_module(module), name)(Path(path), threads)
    return runner
