"""Tables of numbers: a CSV file as arrays, and arrays as shuffled batches."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints.errors import DataError, NotFoundError, UsageError, listed
from checkpoints.numbers import real_number
from exporters.runtime import load_tensorflow

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class NumericTable:
    """The rows of a CSV file.

    Attributes:
      names: of the feature columns, from the header; their numbers from 0 where there is none.
      features: [rows, columns] float32, the columns but the label's, in their order.
      labels: [rows] int64.
    """

    names: tuple[str, ...]
    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


def read_numeric_csv(
    path: str | Path,
    defaults: Sequence[float | int | str | None],
    *,
    categories: Mapping[str, float] | None = None,
    label: int = -1,
    header: bool = True,
) -> NumericTable:
    """Reads a CSV file of numbers, text columns made numbers by a table.

        heart = read_numeric_csv(
            "heart.csv",
            [0.0, 0.0, 0.0, 0.0, "Absent", 0.0, 0.0, 0.0, 0.0, 0],
            categories={"Present": 1, "Absent": 0},
        )

    Args:
      path: UTF-8, a byte-order mark forgiven; commas; quotes as in RFC 4180.
      defaults: for each column what an empty cell stands for, as tf.io.decode_csv's
        record_defaults: a float makes a column of numbers, an int of whole numbers, a text a
        column of categories; None a column of numbers in which no cell may be empty.
      categories: the number of each text in columns of categories.
      label: the label's column; -1 is the last.
      header: whether the first line names the columns and is skipped.

    Raises:
      NotFoundError: the file is not there.
      UsageError: `label` is no column, or a default is no category.
      DataError: lines of another length, or cells that are no number or no category; all with
        their line numbers.
    """
    path, categories = Path(path), categories or {}
    if not -len(defaults) <= label < len(defaults):
        raise UsageError(
            "The label's column is not there.",
            expected=f"{-len(defaults)} to {len(defaults) - 1}",
            received=label,
        )
    lost = [value for value in defaults if isinstance(value, str) and value not in categories]
    if lost:
        raise UsageError(
            f"The default {lost[0]!r} is no category.",
            expected=f"one of {', '.join(map(repr, categories)) or 'categories'}",
        )
    names, rows = _read_rows(path, defaults, categories, header)
    values = np.array(rows, np.float64).reshape(-1, len(defaults))
    place = label % len(defaults)
    labels = values[:, place]
    if not np.array_equal(labels, np.rint(labels)):
        raise DataError(
            f"{path}: labels in column {place} are no whole numbers.",
            received=labels[labels != np.rint(labels)][0],
        )
    return NumericTable(
        tuple(name for number, name in enumerate(names) if number != place),
        np.delete(values, place, axis=1).astype(np.float32),
        labels.astype(np.int64),
    )


def shuffled_batches(
    table: NumericTable,
    batch_size: int,
    *,
    epochs: int | None = None,
    seed: int = 0,
    drop_remainder: bool = False,
) -> Any:
    """The rows in batches, every epoch in another order.

    Where TensorFlow 1's shuffle_batch mixed what stood near, the whole table is shuffled.

    Args:
      table: the rows.
      batch_size: rows of a batch; the last of all may be smaller.
      epochs: how often each row comes; None: without end.
      seed: of the orders.
      drop_remainder: leave the smaller last batch out, so that shapes are static.

    Returns:
      A tf.data.Dataset of (features [batch, columns] float32, labels [batch] int64).
    """
    tf = load_tensorflow()
    rows = tf.data.Dataset.from_tensor_slices((table.features, table.labels))
    rows = rows.shuffle(max(1, len(table.labels)), seed=seed, reshuffle_each_iteration=True)
    return rows.repeat(epochs).batch(batch_size, drop_remainder=drop_remainder).prefetch(2)


def _read_rows(
    path: Path,
    defaults: Sequence[float | int | str | None],
    categories: Mapping[str, float],
    header: bool,
) -> tuple[tuple[str, ...], list[list[float]]]:
    """Column names and the numbers of every line."""
    names = tuple(str(number) for number in range(len(defaults)))
    rows: list[list[float]] = []
    problems: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True, skipinitialspace=True)
            for number, cells in enumerate(line for line in reader if line):
                if len(cells) != len(defaults):
                    problems.append(
                        f"line {reader.line_num}: {len(cells)} cells, not {len(defaults)}"
                    )
                elif header and number == 0:
                    names = tuple(cell.strip() for cell in cells)
                else:
                    rows.append(_numbers(cells, defaults, categories, reader.line_num, problems))
    except FileNotFoundError as err:
        raise NotFoundError(f"{path} is not there.") from err
    except UnicodeDecodeError as err:
        raise DataError(f"{path} is not UTF-8: {err.reason}.") from err
    except csv.Error as err:
        raise DataError(f"{path}, line {reader.line_num}: {err}.") from err
    if problems or not rows:
        raise DataError(
            f"{path} cannot be read:\n{listed(problems)}" if problems else f"{path} has no rows.",
            expected=f"{len(defaults)} columns, as many as defaults",
            next_step="Correct these lines, or give other defaults or categories.",
        )
    return names, rows


def _numbers(
    cells: Sequence[str],
    defaults: Sequence[float | int | str | None],
    categories: Mapping[str, float],
    line: int,
    problems: list[str],
) -> list[float]:
    """The cells of a line as numbers; what is none joins the problems."""
    row: list[float] = []
    for column, (cell, default) in enumerate(zip(cells, defaults, strict=True)):
        text = cell.strip()
        value: float | None = None
        if isinstance(default, str):
            wanted = f"one of {', '.join(map(repr, categories))}"
            value = categories.get(text or default)
        else:
            wanted = "a whole number" if isinstance(default, int) else "a number of 32 bits"
            value = default if not text else _number(text, isinstance(default, int))
        if value is None:
            problems.append(f"line {line}, column {column}: {text!r} is not {wanted}")
        row.append(0.0 if value is None else float(value))
    return row


def _number(text: str, whole: bool) -> float | None:
    if whole:
        number = int(text) if _WHOLE.fullmatch(text) else None
        # Beyond 2^53 a float64 would hold another whole number.
        return number if number is not None and abs(number) <= 1 << 53 else None
    value = real_number(text)
    return value if value is not None and abs(value) <= _LARGEST else None
