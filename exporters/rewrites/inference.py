"""From a graph as it was trained to one that gives the same answer for the same picture.

The rewrites stand in one list; each takes a draft and gives one back, and says what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkpoints.messages import FunctionDef
from exporters.constants import Array
from exporters.endpoints import PLACEHOLDERS, resolve_tensor
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.names import TensorName, tensor_of
from exporters.ops import VARIABLES
from exporters.rewrites.batch_dimension import free_batch_dimension
from exporters.rewrites.checks import drop_checks, is_check
from exporters.rewrites.conditionals import resolve_conditionals
from exporters.rewrites.draft import Draft
from exporters.rewrites.dropout import remove_dropout
from exporters.rewrites.inference_batch_norm import use_moving_averages
from exporters.rewrites.inlining import inline_calls
from exporters.rewrites.pipelines import find_feed, open_defaults, pipeline_shape
from exporters.rewrites.placeholders import InputRequest, cut_at_inputs
from exporters.rewrites.prune import prune
from exporters.rewrites.relevant import relevant
from exporters.rewrites.settings import find_placeholder, fold_settings, setting_of
from exporters.rewrites.waiting import drop_idle_waiting
from exporters.shapes import Shape
from exporters.training_ops import has_training_nodes, training_ops


@dataclass(frozen=True)
class Wishes:
    """What a person asked for.

    Attributes:
      inputs: where the graph is to be cut.
      settings: placeholder -> its value as text.
      drops_checks: whether assertions and prints go.
      keeps_training: whether only what was asked for is done.
    """

    inputs: tuple[InputRequest, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    drops_checks: bool = False
    keeps_training: bool = False


@dataclass(frozen=True, eq=False)
class InferenceGraph:
    """A graph in inference mode.

    Attributes:
      graph: the pruned graph, variables in it.
      outputs: the tensors that hold answers.
      inputs: the tensors to feed.
      said: what was done, a line each.
      problems: what could not be done, a line each.
      changed: whether nodes are others than in the source.
      reference: the source as it was, pruned and cut at the same inputs, where it gives the
        same answers with `settings` fed; None where it does not, or nothing was changed.
      settings: what the placeholders of the reference are fed.
      batches: the batch sizes that inputs had in training.
    """

    graph: Graph
    outputs: tuple[TensorName, ...]
    inputs: tuple[TensorName, ...]
    said: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    changed: bool = False
    reference: Graph | None = None
    settings: Mapping[TensorName, Array] = field(default_factory=dict)
    batches: frozenset[int] = frozenset()


def to_inference(
    graph: Graph, pruned: Graph, outputs: Sequence[TensorName], wishes: Wishes
) -> InferenceGraph:
    """Puts a graph into inference mode, as far as that is exact.

    Args:
      graph: the whole graph.
      pruned: the part the outputs need.
      outputs: the tensors that hold answers.
      wishes: what was asked for.

    Raises:
      GraphError: an input or setting is not there; where the pictures come from, or the batch,
        is not clear; functions do not fit their calls.
      UsageError: a setting does not fit its placeholder.
    """
    named = {name: find_placeholder(graph, name) for name in wishes.settings}
    cuts = [resolve_tensor(graph, request.name, role="input") for request in wishes.inputs]
    draft = Draft(pruned, tuple(outputs), tuple(cut for cut in cuts if cut.node in pruned.nodes))
    there = {
        tensor: wishes.settings[name]
        for name, tensor in named.items()
        if tensor.node in pruned.nodes
    }
    settings: Mapping[TensorName, Array] = {}
    if wishes.keeps_training:
        draft, settings = fold_settings(draft, there, known_names=False)
        draft = _needed(resolve_conditionals(draft)) if settings else draft
    elif there or _is_in_training(draft):
        draft = replace(draft, graph=relevant(graph, pruned))
        draft, settings = fold_settings(draft, there)
        for rewrite in _REWRITES:
            draft = rewrite(draft)
    moved = [
        f"{before} is {after} now."
        for before, after in zip(outputs, draft.outputs, strict=True)
        if before != after
    ]
    draft = replace(draft, said=draft.said + tuple(moved))
    if wishes.drops_checks:
        draft = _needed(drop_checks(_needed(_inline_with(draft, _has_checks))))
    unneeded = sorted(named.keys() - {name for name in named if named[name] in there})
    if unneeded:
        line = f"Set, and no output depends on it: {', '.join(unneeded)}."
        draft = replace(draft, said=(*draft.said, line))
    return _cut(draft, Draft(pruned, tuple(outputs)), wishes, cuts, settings)


def _is_in_training(draft: Draft) -> bool:
    """Whether there is anything to rewrite."""
    graph = draft.graph
    if training_ops(graph):
        return True
    evaluator = Evaluator(graph)
    return any(
        setting_of(graph, node, evaluator) is not None
        for name, node in graph.nodes.items()
        if node.op in PLACEHOLDERS and TensorName(name) not in draft.kept
    )


def _needed(draft: Draft) -> Draft:
    """The draft with what its outputs need alone."""
    pruned, cut_edges = prune(draft.graph, draft.outputs)
    if not cut_edges and len(pruned.nodes) == len(draft.graph.nodes):
        return draft
    return replace(draft, graph=pruned)


def _inline_training(draft: Draft) -> Draft:
    return _inline_with(draft, has_training_nodes)


def _inline_with(draft: Draft, is_wanted: Callable[[FunctionDef], bool]) -> Draft:
    """Inlines functions, and decides on the conditionals that come to light."""
    inlined = inline_calls(draft, is_wanted)
    return draft if inlined is draft else resolve_conditionals(inlined)


def _has_checks(function: FunctionDef) -> bool:
    return any(map(is_check, function.node_def))


_REWRITES: tuple[Callable[[Draft], Draft], ...] = (
    resolve_conditionals,
    _inline_training,
    use_moving_averages,
    _needed,
    drop_idle_waiting,
    remove_dropout,
    _needed,
    open_defaults,
    _needed,
)


def _cut(
    draft: Draft,
    source: Draft,
    wishes: Wishes,
    cuts: Sequence[TensorName],
    settings: Mapping[TensorName, Array],
) -> InferenceGraph:
    """Puts placeholders where the pictures come in, and leaves the batch open."""
    requests = _renamed(wishes.inputs, cuts, draft)
    own_requests = tuple(wishes.inputs)
    if not requests and not wishes.keeps_training:
        feed = find_feed(draft)
        if feed is not None:
            shape = None if feed.shape is None else (None, *feed.shape[1:])
            own_requests = requests = (InputRequest(str(feed.tensor), shape),)
    before = [_shape_in_training(draft.graph, request) for request in requests]
    cut = cut_at_inputs(draft.graph, draft.outputs, requests)
    if cut.graph is not draft.graph:
        draft = replace(draft, graph=cut.graph, said=draft.said + cut.said)
        draft = _needed(replace(draft, cuts=()))
        opened = {
            tensor: shape
            for tensor, request, shape in zip(cut.inputs, requests, before, strict=True)
            if request.shape is None or (request.shape and request.shape[0] is None)
        }
        draft = _needed(free_batch_dimension(draft, opened))
    reference = None
    if draft.is_faithful and draft.graph is not source.graph and draft.outputs == source.outputs:
        reference = _reference(source, own_requests, draft.graph)
    return InferenceGraph(
        graph=draft.graph,
        outputs=draft.outputs,
        inputs=cut.inputs,
        said=draft.said,
        problems=draft.problems,
        changed=draft.graph is not source.graph,
        reference=reference,
        settings={} if reference is None else _fed(reference, settings),
        batches=frozenset(shape[0] for shape in before if shape and shape[0] is not None),
    )


def _renamed(
    requests: Sequence[InputRequest], cuts: Sequence[TensorName], draft: Draft
) -> tuple[InputRequest, ...]:
    """The requests with the names that their tensors have by now."""
    names = iter(draft.cuts)
    return tuple(
        request._replace(name=str(next(names, cut)))
        for request, cut in zip(requests, cuts, strict=True)
    )


def _shape_in_training(graph: Graph, request: InputRequest) -> Shape | None:
    """The shape of a tensor as its pipeline has it; what was requested where that is not known."""
    tensor = tensor_of(request.name)
    known = pipeline_shape(graph, tensor) if tensor.node in graph.nodes else None
    if request.shape is None or known is None or len(known) != len(request.shape):
        return known if request.shape is None else request.shape
    return (known[0], *request.shape[1:])


def _reference(source: Draft, requests: Sequence[InputRequest], rewritten: Graph) -> Graph | None:
    """The source, cut where the rewritten graph was; None where it has variables of its own."""
    if any(tensor_of(request.name).node not in source.graph.nodes for request in requests):
        return None
    graph = cut_at_inputs(source.graph, source.outputs, requests).graph
    variables = {name for name, node in graph.nodes.items() if node.op in VARIABLES}
    return graph if variables <= rewritten.nodes.keys() else None


def _fed(reference: Graph, settings: Mapping[TensorName, Array]) -> dict[TensorName, Array]:
    return {tensor: value for tensor, value in settings.items() if tensor.node in reference.nodes}
