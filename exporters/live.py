"""The variables of a session that is running, for graphs that somebody holds in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkpoints.errors import GraphError, listed
from exporters.graph import Graph
from exporters.names import TensorName, is_control
from exporters.ops import HANDLE_VARIABLES, REFERENCE_VARIABLES
from exporters.rewrites.prune import prune
from exporters.rewrites.relevant import relevant
from exporters.runtime import load_tensorflow
from exporters.values import Array


def session_values(session: Any, graph: Graph, outputs: tuple[TensorName, ...]) -> dict[str, Array]:
    """Fetches the variables that the outputs need from a session, all in one run.

    Args:
      session: a tf.compat.v1.Session of the graph.
      graph: the session's graph.
      outputs: the tensors to be exported.

    Returns:
      Variable's node -> its value.

    Raises:
      GraphError: variables have no value yet, or no op reads one without side effects.
    """
    needed = prune(graph, outputs).graph
    # The moving averages of batch norms in training mode are read by their updates alone.
    nodes = relevant(graph, needed).nodes
    fetches = {name: f"{name}:0" for name, node in nodes.items() if node.op in REFERENCE_VARIABLES}
    reads = _plain_reads(graph, {n for n, node in nodes.items() if node.op in HANDLE_VARIABLES})
    handles = {name for name, node in needed.nodes.items() if node.op in HANDLE_VARIABLES}
    unread = sorted(handles - reads.keys())
    if unread:
        raise GraphError(
            f"No op reads these variables without waiting for others:\n{listed(unread)}",
            expected="a ReadVariableOp on each, as TensorFlow makes with every variable",
        )
    fetches.update(reads)
    errors = load_tensorflow().errors
    try:
        values = session.run(fetches)
    except errors.FailedPreconditionError as error:
        raise GraphError(
            "Variables of the session have no values yet.",
            received=error.message.split("\n")[0],
            next_step="Restore a checkpoint or run the initialiser before exporting.",
        ) from error
    return {name: np.asarray(value) for name, value in values.items()}


def _plain_reads(graph: Graph, handles: set[str]) -> dict[str, str]:
    """Variable -> a tensor that reads it and waits for nothing, so that fetching it changes nothing."""
    reads: dict[str, str] = {}
    for handle in handles:
        for reader in graph.consumers.get(handle, ()):
            node = graph.nodes[reader]
            if node.op == "ReadVariableOp" and not any(map(is_control, node.input)):
                reads[handle] = f"{reader}:0"
                break
    return reads
