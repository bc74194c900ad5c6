"""Makes a frozen graph cheaper to run, its answers the same."""

from __future__ import annotations

from dataclasses import replace

from checkpoints.errors import counted, listed
from exporters.freezing import FrozenGraph
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS
from exporters.names import TensorName, tensor_of
from exporters.rewrites.fold_batch_norm import fold_batch_norm
from exporters.rewrites.fold_constants import fold_constants
from exporters.rewrites.identities import remove_identities
from exporters.rewrites.prune import prune

_MAX_ROUNDS = 3
"""A layer with several multiplications behind it takes one a round."""


def with_constants(frozen: FrozenGraph) -> FrozenGraph:
    """The same frozen graph with its variables as constants in memory, to be rewritten."""
    graph_def = frozen_graph_def(replace(frozen, metadata=None))
    graph = Graph(graph_def, "graph-def", frozen.graph.path, frozen.graph.meta_graph)
    return replace(
        frozen, source=graph, graph=graph, variables={}, handles={}, values={}, rewritten=True
    )


def optimise(frozen: FrozenGraph) -> FrozenGraph:
    """Folds constants and batch norms and takes out Identities and NoOps.

    Args:
      frozen: any frozen graph. Nothing is run: whether the answers agree is for a verification.

    Returns:
      A frozen graph without variables; the same inputs, outputs, and tensors that the metadata
      names. What was done stands in `said`.
    """
    constant = with_constants(frozen)
    kept = _kept_names(frozen)
    graph = remove_identities(constant.graph, kept)
    inputs = {tensor.node for tensor in frozen.inputs}
    folded = 0
    left: tuple[str, ...] = ()
    for _ in range(_MAX_ROUNDS):
        graph = remove_identities(fold_constants(graph, inputs), kept)
        round_ = fold_batch_norm(graph, kept)
        graph, left = round_.graph, round_.left
        folded += round_.folded
        if not round_.folded:
            break
    graph = prune(graph, _tensors(frozen)).graph
    said = [
        f"Optimised: {counted(folded, 'batch norm')} folded,"
        f" {len(constant.graph.nodes):,} nodes became {len(graph.nodes):,}."
    ]
    if left:
        said.append(f"{counted(len(left), 'batch norm')} left as it was:\n{listed(left, 3)}")
    return replace(constant, source=graph, graph=graph, said=(*frozen.said, *said))


def _tensors(frozen: FrozenGraph) -> list[TensorName]:
    """What the graph has to hold afterwards: outputs, inputs, and what the metadata names."""
    tensors = [*frozen.outputs, *frozen.inputs]
    if frozen.metadata is not None:
        named = map(tensor_of, frozen.metadata.outputs.values())
        tensors += [tensor for tensor in named if tensor.node in frozen.graph.nodes]
    return list(dict.fromkeys(tensors))


def _kept_names(frozen: FrozenGraph) -> set[str]:
    placeholders = {name for name, node in frozen.graph.nodes.items() if node.op in PLACEHOLDERS}
    return placeholders | {tensor.node for tensor in _tensors(frozen)}
