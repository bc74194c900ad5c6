"""What a pipeline meets in the data, told as a DataError that names the record.

TensorFlow wraps what Python raised in a pipeline into an error of its own, and what its decoders
say of a picture names no record. Everything that iterates a pipeline does it inside `data_errors`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from checkpoints.cores import available_cores
from checkpoints.errors import DataError, GraphError
from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow
from finetune.datasets.dataset import Dataset
from finetune.datasets.record_index import RecordIndex, read_index

_ERROR_MARK = "slimtune-data-error:"
_OF_A_DECODER = re.compile("Decode|Jpeg|Png|JPEG|PNG")
_CHUNK = 256


@contextmanager
def data_errors(dataset: Dataset, progress: Progress = SILENT) -> Iterator[None]:
    """Raises the DataError that a pipeline met in place of TensorFlow's error or the graph's.

    Args:
      dataset: what the pipeline reads. After an error of a decoder its pictures are decoded one
        by one until one cannot be.
      progress: gets a task in pictures while the one is looked for.
    """
    tf = load_tensorflow()
    try:
        yield
    except (GraphError, tf.errors.OpError) as error:
        cause = error.__cause__ if isinstance(error, GraphError) else error
        found = find_data_error(cause)
        if (
            found is None
            and isinstance(cause, tf.errors.OpError)
            and _OF_A_DECODER.search(str(cause))
        ):
            found = find_undecodable(dataset, progress)
        if found is None:
            raise
        raise found from error


def telling(read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """Puts a DataError into the message that TensorFlow makes of it, for `find_data_error`."""

    def reading(start: Any) -> tuple[Any, ...]:
        try:
            return read(start)
        except DataError as error:
            raise ValueError(_ERROR_MARK + json.dumps(error.as_json()) + "\n") from error

    return reading


def find_data_error(error: BaseException | None) -> DataError | None:
    """The DataError that a pipeline met, out of the tf.errors.OpError it became; or None."""
    _, mark, rest = str(error).partition(_ERROR_MARK)
    if not mark:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(rest)
        return DataError(
            value["message"],
            expected=value["expected"],
            received=value["received"],
            next_step=value["next"],
        )
    except (ValueError, KeyError, TypeError):
        return None


def find_undecodable(dataset: Dataset, progress: Progress = SILENT) -> DataError | None:
    """The first record whose picture TensorFlow cannot decode, as an error; None: there is none.

    Its decoder is asked, the pipelines' own, in a graph of its own.
    """
    from finetune.pixels.decode import decode

    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        encoded = v1.placeholder(tf.string, [])
        decoded = tf.size(decode(encoded))
        count = sum(split.count for split in dataset.splits.values())
        with (
            v1.Session(graph=graph) as session,
            ThreadPoolExecutor(available_cores()) as threads,
            progress.task("Looking for the picture", count, "pictures") as task,
        ):

            def reason(data: bytes) -> str:
                try:
                    session.run(decoded, {encoded: data})
                except tf.errors.OpError as error:
                    # The reason is the last line that is not indented; where in the graph is above.
                    lines = str(error.message).splitlines()
                    return next(line for line in reversed(lines) if line[:1].strip())
                return ""

            for split in dataset.splits.values():
                index = read_index(split)
                for start in range(0, len(index), _CHUNK):
                    rows = range(start, min(start + _CHUNK, len(index)))
                    answers = threads.map(reason, map(index.picture, rows))
                    for row, answer in zip(rows, answers, strict=True):
                        if answer:
                            return _undecodable(index, row, answer)
                    task.advance(len(rows))
    return None


def _undecodable(index: RecordIndex, row: int, reason: str) -> DataError:
    return DataError(
        f"{index.describe(row)}: TensorFlow cannot decode the picture.",
        expected="a JPEG, PNG, GIF, BMP or WebP that decodes to its end",
        received=f"{index.picture_lengths[row]} bytes: {reason}",
        next_step="slimtune data check names every such record; build the dataset again from "
        "its pictures, or write the shards again without these.",
    )
