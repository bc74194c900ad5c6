"""Class names: read from a file, and counted against the logits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, GraphError, NotFoundError, listed
from checkpoints.files import kind_of_file, reading
from exporters.graph import Graph, dimensions
from exporters.names import TensorName
from exporters.variables import FrozenVariable

_SAME_CLASSES = frozenset(
    {"Cast", "Identity", "LogSoftmax", "ReadVariableOp", "Reshape", "Sigmoid", "Softmax", "Squeeze"}
)
"""Ops whose input has as many classes as their output, in what nets end with."""

_SHAPERS = frozenset({"Identity", "Reshape", "Squeeze"})
_PROBABILITIES = frozenset({"Sigmoid", "Softmax"})
_ADDS = frozenset({"Add", "AddV2", "BiasAdd"})
_PRODUCTS = frozenset({"Conv2D", "MatMul"})


def read_labels(path: str | Path) -> tuple[str, ...]:
    """Class names from a text file: a name a line, or `number:name` a line as TF-Slim writes.

    Blank lines at the end do not count. UTF-8, a byte-order mark forgiven.

    Raises:
      NotFoundError: there is no such file.
      DataError: it is not text, or a line is blank.
    """
    path = Path(path)
    if not path.is_file():
        kind = "a directory" if path.is_dir() else kind_of_file(path)
        raise NotFoundError(
            f"{path} is not there." if kind is None else f"{path} is {kind}.",
            expected="a text file, one class name a line",
        )
    # Not splitlines: a name may hold what only Unicode calls a line's end.
    text = read_label_text(path).rstrip()
    lines = re.split(r"\r\n|\n|\r", text) if text else []
    names = [line.strip() for line in lines]
    numbered = [name.partition(":") for name in names]
    if names and all(part[0] == str(index) for index, part in enumerate(numbered)):
        names = [part[2] for part in numbered]
    problems = [f"line {index}: blank" for index, name in enumerate(names, 1) if not name]
    if problems or not names:
        raise DataError(
            f"{path} does not list class names:\n{listed(problems or ['no line'])}",
            expected="one class name a line",
        )
    return tuple(names)


def read_label_text(path: Path) -> str:
    """The text of a file of class names: UTF-8, a byte-order mark forgiven.

    Raises:
      DataError: it is not UTF-8; the line is named and shown.
    """
    with reading(path):
        data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start)
        line = data.split(b"\n")[number].rstrip(b"\r")
        raise DataError(
            f"{path} is not UTF-8 text: line {number + 1} holds bytes that are none.",
            expected="class names in UTF-8",
            received=line.decode("utf-8", "backslashreplace"),
            next_step=f"Of Latin-1, {shell_words('iconv', '-f', 'LATIN1', '-t', 'UTF-8', path)} "
            "makes it.",
        ) from error


def refuse_other_count(labels: tuple[str, ...], num_classes: int, source: str) -> None:
    """Raises GraphError where the number of class names is not the number of classes."""
    if len(labels) != num_classes:
        raise GraphError(
            f"{source} does not fit the model.",
            expected=f"{num_classes} class names, one for each logit",
            received=f"{len(labels)}",
            next_step="Name the file that was used in training, its background line included.",
        )


def count_classes(
    graph: Graph, tensor: TensorName, variables: Mapping[str, FrozenVariable]
) -> int | None:
    """How many classes an output has: its last dimension, or that of the weights behind it.

    Args:
      graph: the pruned graph.
      tensor: logits or probabilities.
      variables: the graph's variables, whose shapes the checkpoint says.

    Returns:
      The count, or None where neither tells.
    """
    seen: set[str] = set()
    while tensor.node not in seen:
        seen.add(tensor.node)
        if tensor.node in variables:
            shape = variables[tensor.node].header.shape
            return shape[-1] if shape else None
        known = graph.shape(tensor)
        if known and known[-1] is not None:
            return known[-1]
        node = graph.node(tensor.node)
        inputs = graph.data_inputs(tensor.node)
        if node.op in _ADDS and len(inputs) == 2:
            counts = [_count_of_weights(graph, other, variables) for other in inputs]
            known_counts = [count for count in counts if count is not None]
            if known_counts:
                return known_counts[-1]
            tensor = inputs[0]
        elif node.op in _PRODUCTS and len(inputs) == 2:
            transposed = "transpose_b" in node.attr and node.attr["transpose_b"].b
            return None if transposed else _count_of_weights(graph, inputs[1], variables)
        elif node.op in _SAME_CLASSES and inputs:
            tensor = inputs[0]
        else:
            return None
    return None


def is_probabilities(graph: Graph, tensor: TensorName) -> bool:
    """Whether an output is a softmax or sigmoid, reshaped or not."""
    node = graph.node(tensor.node)
    seen: set[str] = set()
    while node.op in _SHAPERS and node.name not in seen:
        seen.add(node.name)
        inputs = graph.data_inputs(node.name)
        if inputs:
            node = graph.node(inputs[0].node)
    return node.op in _PROBABILITIES


def _count_of_weights(
    graph: Graph, tensor: TensorName, variables: Mapping[str, FrozenVariable]
) -> int | None:
    """The last dimension of a variable or constant, looked for behind reads and casts."""
    for _ in range(len(_SAME_CLASSES)):
        node = graph.node(tensor.node)
        if tensor.node in variables:
            shape = variables[tensor.node].header.shape
            return shape[-1] if shape else None
        if node.op == "Const" and "value" in node.attr:
            sizes = dimensions(node.attr["value"].tensor.tensor_shape)
            return sizes[-1] if sizes else None
        inputs = graph.data_inputs(tensor.node)
        if node.op not in _SAME_CLASSES or not inputs:
            return None
        tensor = inputs[0]
    return None
