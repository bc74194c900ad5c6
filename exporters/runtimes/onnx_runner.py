"""Runs ONNX models with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.errors import BrokenFileError, GraphError
from exporters.metadata import metadata_from_text
from exporters.names import METADATA_NODE
from exporters.runtimes.extras import load_extra
from exporters.runtimes.onnx_external import refuse_files_elsewhere
from exporters.runtimes.runners import ArrayRunner
from exporters.values import Array

LAYOUT = "slimtune/layout"
"""Key of metadata_props: "nchw" where the input of pictures is [batch, channels, height, width]."""

_QUIET = 3


class OnnxRunner(ArrayRunner):
    """One ONNX model. Pictures are given as [batch, height, width, channels], whatever its layout."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """Loads the model.

        Raises:
          UnsupportedError: ONNX Runtime is not installed.
          BrokenFileError: the file is no ONNX model that it can run, or names files elsewhere.
        """
        runtime = load_extra("onnxruntime")
        refuse_files_elsewhere(path)
        self.label = str(path)
        options = runtime.SessionOptions()
        options.log_severity_level = _QUIET
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            with _explained(self.label):
                self._session: Any = runtime.InferenceSession(
                    str(path), options, providers=["CPUExecutionProvider"]
                )
        except GraphError as error:
            raise BrokenFileError(
                f"{path} cannot be run as an ONNX model.", received=error.received
            ) from error
        self.inputs = tuple(entry.name for entry in self._session.get_inputs())
        self.outputs = tuple(entry.name for entry in self._session.get_outputs())
        # A free dimension is a name or nothing.
        size = next((entry.shape[0] for entry in self._session.get_inputs() if entry.shape), None)
        self.batch_size = size if isinstance(size, int) and size > 0 else None
        stored = self._session.get_modelmeta().custom_metadata_map
        text = stored.get(METADATA_NODE)
        self.metadata = None if text is None else metadata_from_text(text, self.label)
        self._channels_first = stored.get(LAYOUT) == "nchw"

    def run_feeds(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs for values by name."""
        values = dict(feeds)
        if self._channels_first:
            values = {
                name: np.ascontiguousarray(np.moveaxis(value, -1, 1)) if value.ndim == 4 else value
                for name, value in values.items()
            }
        with _explained(self.label):
            found: list[Array] = self._session.run(list(self.outputs), values)
        return found

    def close(self) -> None:
        """Frees the session. The runner cannot be used again."""
        self._session = None


@contextmanager
def _explained(label: str) -> Iterator[None]:
    """Turns what ONNX Runtime raises into a GraphError."""
    state: Any = load_extra("onnxruntime.capi.onnxruntime_pybind11_state")
    names = (
        "EPFail",
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NoModel",
        "NoSuchFile",
        "NotImplemented",
        "RuntimeException",
    )
    kinds = tuple(getattr(state, name) for name in names if hasattr(state, name))
    try:
        yield
    except (*kinds, ValueError, RuntimeError) as error:
        raise GraphError(
            f"{label} cannot be run as it was asked to.", received=str(error).split("\n")[0]
        ) from error
