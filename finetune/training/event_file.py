"""TensorBoard's event files: TFRecord files of Event messages, written at once and by nobody else.

TensorFlow's own writer works in a thread, where a full disk ends as an error that names no disk.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import IO, Any

from exporters.runtime import load_tensorflow
from finetune.datasets.records import frame

VERSION = "brain.Event:2"


class EventFile:
    """One event file, appended to.

    Source:
      tensorflow/core/util/event.proto; the file's name as TensorFlow makes it.
    """

    def __init__(self, directory: Path, graph: Any = None) -> None:
        """Begins a new file, with a tf.Graph in it where there is one.

        Args:
          directory: where it goes.
          graph: what TensorBoard shows as the graph.

        Raises:
          OSError: it cannot be written, as all methods do.
        """
        self._file = _new_file(directory)
        self._write(file_version=VERSION)
        if graph is not None:
            self._write(graph_def=graph.as_graph_def(add_shapes=True).SerializeToString())

    def write(self, summary: Any, step: int) -> None:
        """Appends a tensorflow.Summary of a step."""
        self._write(step=step, summary=summary)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, **fields: Any) -> None:
        event = load_tensorflow().compat.v1.Event(wall_time=time.time(), **fields)
        self._file.write(frame(event.SerializeToString()))
        self._file.flush()


def _new_file(directory: Path) -> IO[bytes]:
    """A file of a name that nobody has: two may begin within a second."""
    name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
    number = 0
    while True:
        try:
            return (directory / (f"{name}.{number}" if number else name)).open("xb")
        except FileExistsError:
            number += 1
