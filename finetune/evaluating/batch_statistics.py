"""A diagnostic: batch norm by the statistics of the batch, and how far its moving averages lag.

In evaluation, batch norm normalises by moving averages. After few training steps these still hold
much of what they began with (0.9997 of it a step in the published nets), and a net that has
learned answers as if it had not. By the statistics of the batch at hand the lag does not show.
"""

from __future__ import annotations

import math
from dataclasses import replace

from checkpoints.errors import UnsupportedError
from checkpoints.messages import DataType, GraphDef
from exporters.ops import FUSED_BATCH_NORMS
from finetune.model import Model

EMPTY = "slimtune/no_averages"
"""The node that stands in for moving averages: training mode wants them empty."""


def with_batch_statistics(model: Model) -> Model:
    """The same model with every batch norm in training mode: nothing is updated by it.

    Raises:
      UnsupportedError: the model has no batch norm that could be put into that mode.
    """
    if model.graph_def is None:
        raise UnsupportedError(
            f"{model.source} has no batch norms: its form folds them into its layers.",
            expected="a run, or a checkpoint with --net, whose net is rebuilt with batch statistics",
            received=model.file,
            next_step="Evaluate the run that it was made from.",
        )
    graph_def = GraphDef()
    graph_def.CopyFrom(model.graph_def)
    norms = [node for node in graph_def.node if node.op in FUSED_BATCH_NORMS]
    if not norms:
        raise UnsupportedError(
            f"{model.source} holds no batch norm as an op of its own: there are none, or they are "
            "folded into the layers before them.",
            expected=f"nodes of {', '.join(sorted(FUSED_BATCH_NORMS))}",
            received=f"none among {len(graph_def.node)} nodes",
            next_step="Evaluate the run or checkpoint that it was made from.",
        )
    for node in norms:
        node.attr["is_training"].b = True
        node.input[3], node.input[4] = EMPTY, EMPTY
    empty = graph_def.node.add(name=EMPTY, op="Const")
    empty.attr["dtype"].type = DataType.DT_FLOAT
    empty.attr["value"].tensor.dtype = DataType.DT_FLOAT
    empty.attr["value"].tensor.tensor_shape.dim.add(size=0)
    return replace(model, graph_def=graph_def)


def equal_batches(count: int, batch_size: int) -> int:
    """The size up to `batch_size` that leaves no small rest: statistics of few pictures are poor."""
    return math.ceil(count / math.ceil(count / batch_size))
