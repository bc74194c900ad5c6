"""Runs TensorFlow Lite models with LiteRT, and holds what travels in them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.cores import available_cores
from checkpoints.errors import BrokenFileError, GraphError
from exporters.metadata import MAX_METADATA_BYTES, Metadata, metadata_from_text
from exporters.names import tensor_of
from exporters.runtime import hold_stderr_back
from exporters.runtimes.extras import load_extra
from exporters.runtimes.runners import ArrayRunner
from exporters.values import Array

METADATA_FILE = "slimtune-metadata.json"
LABELS_FILE = "labels.txt"

_FIRST_YEAR = (1980, 1, 1, 0, 0, 0)
_IDENTIFIER = b"TFL3"


def add_metadata(path: Path, metadata: Metadata) -> None:
    """Appends metadata and class names as associated files: a zip archive behind the model.

    Source:
      TensorFlow Lite's metadata: "associated files" are concatenated to the model as ZIP.
    """
    texts = {METADATA_FILE: metadata.to_text()}
    if metadata.classes:
        texts[LABELS_FILE] = "".join(f"{name}\n" for name in metadata.classes)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        for name, text in texts.items():
            # The same model gives the same bytes, whenever it is written.
            archive.writestr(zipfile.ZipInfo(name, _FIRST_YEAR), text.encode("utf-8"))


def read_tflite_metadata(path: Path) -> Metadata | None:
    """The metadata of a .tflite, or None where it has none.

    Raises:
      GraphError: there is some and it cannot be used.
    """
    if not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if METADATA_FILE not in archive.namelist():
                return None
            with archive.open(METADATA_FILE) as file:
                text = file.read(MAX_METADATA_BYTES + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise GraphError(
            f"{path}: the files behind the model cannot be read.", received=error
        ) from error
    return metadata_from_text(text, str(path))


class TfliteRunner(ArrayRunner):
    """One TensorFlow Lite model. Its batch follows that of the values it gets."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        """Loads the model, to run on so many threads; None: as many as there are cores.

        Raises:
          UnsupportedError: LiteRT is not installed.
          BrokenFileError: the file is no model that it can run.
        """
        interpreter = load_extra("ai_edge_litert.interpreter").Interpreter
        self.label = str(path)
        with path.open("rb") as file:
            head = file.read(8)
        if head[4:] != _IDENTIFIER:
            raise BrokenFileError(
                f"{path} is not a TensorFlow Lite model.",
                expected=f"{_IDENTIFIER!r} at byte 4",
                received=repr(head[4:]),
            )
        # Left to itself it takes one.
        threads = threads or available_cores()
        try:
            # It tells on stderr which kernels it takes.
            with hold_stderr_back():
                self._interpreter: Any = interpreter(model_path=str(path), num_threads=threads)
                self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise BrokenFileError(
                f"{path} cannot be run as a TensorFlow Lite model.",
                received=str(error).split("\n")[0],
            ) from error
        self.metadata = read_tflite_metadata(path)
        self._details = {
            str(tensor_of(detail["name"])): detail
            for detail in self._interpreter.get_input_details()
        }
        self._places = {
            str(tensor_of(detail["name"])): detail["index"]
            for detail in self._interpreter.get_output_details()
        }
        self.inputs = tuple(self._details)
        self.outputs = tuple(self._places)
        # The signature has -1 where the shape itself has 1 for the time being.
        shapes = [detail["shape_signature"] for detail in self._details.values()]
        size = int(shapes[0][0]) if shapes and len(shapes[0]) else -1
        self.batch_size = size if size > 0 else None

    def run_feeds(self, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs for values by name."""
        try:
            shapes = {name: tuple(feeds[name].shape) for name in self.inputs}
            if any(tuple(self._details[name]["shape"]) != shapes[name] for name in self.inputs):
                self._resize(shapes)
            for name, detail in self._details.items():
                self._interpreter.set_tensor(detail["index"], feeds[name])
            self._interpreter.invoke()
            places = [self._places[name] for name in self.outputs]
            return [np.array(self._interpreter.get_tensor(place)) for place in places]
        except (ValueError, RuntimeError) as error:
            raise GraphError(
                f"{self.label} cannot be run as it was asked to.",
                received=str(error).strip().split("\n")[0],
            ) from error

    def _resize(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            # Strict: only dimensions that the model leaves open may change.
            self._interpreter.resize_tensor_input(
                self._details[name]["index"], list(shape), strict=True
            )
        self._interpreter.allocate_tensors()
        for detail in self._interpreter.get_input_details():
            self._details[str(tensor_of(detail["name"]))] = detail

    def close(self) -> None:
        """Frees the interpreter. The runner cannot be used again."""
        self._interpreter = None
