"""From a graph as it was trained to one that gives the same answer for the same picture.

The rewrites stand in one list; each takes a draft and gives one back, and says what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from checkpoints.errors import GraphError
from checkpoints.messages import FunctionDef
from exporters.constants import Array
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS, resolve_tensor
from exporters.inspecting.training_ops import has_training_nodes, training_ops
from exporters.names import TensorName, tensor_of
from exporters.ops import VARIABLES
from exporters.rewrites.batch_dimension import free_batch_dimension
from exporters.rewrites.checks import drop_checks, is_check
from exporters.rewrites.conditionals import resolve_conditionals
from exporters.rewrites.draft import Draft
from exporters.rewrites.dropout import remove_dropout
from exporters.rewrites.inference_batch_norm import use_moving_averages
from exporters.rewrites.inlining import inline_calls
from exporters.rewrites.loop_dropout import remove_dropout_in_loops
from exporters.rewrites.pipelines import find_feed, is_source, open_defaults, pipeline_shape
from exporters.rewrites.placeholders import InputRequest, cut_at_inputs, each_once, refuse_unneeded
from exporters.rewrites.prune import Pruned, prune
from exporters.rewrites.relevant import relevant
from exporters.rewrites.settings import (
    KnownSettings,
    Settings,
    find_placeholder,
    fold_settings,
)
from exporters.rewrites.stale_reads import described, stale_reads, still_stale
from exporters.rewrites.waiting import drop_idle_waiting
from exporters.shapes.sizes import Shape


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
      stale: of these, the reads of variables after writes that were cut.
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
    stale: tuple[str, ...] = ()
    changed: bool = False
    reference: Graph | None = None
    settings: Mapping[TensorName, Array] = field(default_factory=dict)
    batches: frozenset[int] = frozenset()


def to_inference(
    graph: Graph, pruned: Pruned, outputs: Sequence[TensorName], wishes: Wishes
) -> InferenceGraph:
    """Puts a graph into inference mode, as far as that is exact.

    Args:
      graph: the whole graph.
      pruned: the part the outputs need, and what was cut off it.
      outputs: the tensors that hold answers.
      wishes: what was asked for.

    Raises:
      GraphError: an input or setting is not there; where the pictures come from, or the batch,
        is not clear; functions do not fit their calls.
      UsageError: a setting does not fit its placeholder.
    """
    named = {name: find_placeholder(graph, name) for name in wishes.settings}
    refuse_unneeded(graph, pruned.graph, outputs, wishes.inputs)
    begun = Draft(pruned.graph, tuple(outputs), stale=stale_reads(graph, pruned))
    cut = _cut(begun, wishes.inputs)
    source = cut.draft
    there = {
        tensor: wishes.settings[name]
        for name, tensor in named.items()
        if tensor.node in source.graph.nodes
    }
    draft, settings = _rewritten(graph, source, wishes, there)
    unneeded = sorted(name for name, tensor in named.items() if tensor not in there)
    if unneeded:
        line = f"Set, and no output depends on it: {', '.join(unneeded)}."
        draft = replace(draft, said=(*draft.said, line))
    feed = None if wishes.inputs or wishes.keeps_training else find_feed(draft)
    if feed is not None:
        shape = None if feed.shape is None else (None, *feed.shape[1:])
        request = InputRequest(str(feed.tensor), shape)
        cut = _cut(draft, (request,))
        draft = cut.draft
        source = _cut_alike(source, request)
    if cut.opened:
        draft = _needed(free_batch_dimension(draft, cut.opened))
    elif draft.graph is not source.graph and not wishes.inputs and not wishes.keeps_training:
        draft = _with_open_placeholders(draft)
    reference = None
    is_changed = draft.graph is not pruned.graph
    if draft.is_faithful and is_changed and draft.outputs == source.outputs:
        reference = _reference(source.graph, draft.graph, settings)
    stale = tuple(map(described, still_stale(draft.stale, draft.graph)))
    return InferenceGraph(
        graph=draft.graph,
        outputs=draft.outputs,
        inputs=cut.inputs,
        said=draft.said,
        problems=(*stale, *draft.problems),
        stale=stale,
        changed=is_changed,
        reference=reference,
        settings={} if reference is None else _fed(reference, settings),
        batches=frozenset(
            shape[0] for shape in cut.opened.values() if shape and shape[0] is not None
        ),
    )


def _rewritten(
    graph: Graph, source: Draft, wishes: Wishes, settings: Mapping[TensorName, str]
) -> Settings:
    """The draft after all rewrites that are wanted or needed, and the settings it has now."""
    folded = Settings(source, {})
    if wishes.keeps_training:
        folded = fold_settings(source, settings, known_names=False)
        if folded.values:
            folded = folded._replace(draft=_needed(resolve_conditionals(folded.draft)))
    elif settings or _is_in_training(source):
        folded = fold_settings(replace(source, graph=relevant(graph, source.graph)), settings)
        for rewrite in _REWRITES:
            folded = folded._replace(draft=rewrite(folded.draft))
    draft = folded.draft
    moved = [
        f"{before} is {after} now."
        for before, after in zip(source.outputs, draft.outputs, strict=True)
        if before != after
    ]
    draft = replace(draft, said=draft.said + tuple(moved))
    if wishes.drops_checks:
        draft = _needed(drop_checks(_needed(_inline_with(draft, _has_checks))))
    return folded._replace(draft=draft)


def _is_in_training(draft: Draft) -> bool:
    """Whether there is anything to rewrite."""
    graph = draft.graph
    if training_ops(graph):
        return True
    known = KnownSettings(graph)
    return any(
        known.of(node) is not None
        for name, node in graph.nodes.items()
        if node.op in PLACEHOLDERS and TensorName(name) not in draft.kept
    )


def _needed(draft: Draft) -> Draft:
    """The draft with what its outputs need alone."""
    pruned = prune(draft.graph, draft.outputs)
    if not pruned.cut_edges and len(pruned.graph.nodes) == len(draft.graph.nodes):
        return draft
    stale = draft.stale + stale_reads(draft.graph, pruned)
    return replace(draft, graph=pruned.graph, stale=stale)


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
    remove_dropout_in_loops,
    _needed,
    open_defaults,
    _needed,
)


class _CutDraft(NamedTuple):
    """A draft with placeholders where it was cut.

    Attributes:
      draft: the draft.
      inputs: the placeholders, in the order they were asked for.
      opened: of those that were put in with an open batch: placeholder -> the shape that its
        tensor had in training.
    """

    draft: Draft
    inputs: tuple[TensorName, ...]
    opened: dict[TensorName, Shape | None]


def _cut(draft: Draft, requests: Sequence[InputRequest]) -> _CutDraft:
    """Puts placeholders in; those that are there already stay."""
    if not requests:
        return _CutDraft(draft, (), {})
    requests = each_once(draft.graph, requests)
    shapes = [_shape_in_training(draft.graph, request) for request in requests]
    cut = cut_at_inputs(draft.graph, draft.outputs, requests)
    opened = {
        tensor: shape
        for tensor, request, shape in zip(cut.inputs, requests, shapes, strict=True)
        if cut.graph.nodes[tensor.node] != draft.graph.nodes.get(tensor.node)
        and (request.shape is None or (request.shape and request.shape[0] is None))
    }
    changed = replace(draft, graph=cut.graph, cuts=cut.inputs, said=draft.said + cut.said)
    return _CutDraft(changed, cut.inputs, opened)


def _with_open_placeholders(draft: Draft) -> Draft:
    """Opens the batch of placeholders that were made for the batch of training, where that goes."""
    graph = draft.graph
    fixed = [
        TensorName(name)
        for name, node in graph.nodes.items()
        if node.op in PLACEHOLDERS and _has_fixed_batch(graph.shape(TensorName(name)))
    ]
    requests = [
        InputRequest(str(tensor), (None, *(graph.shape(tensor) or ())[1:])) for tensor in fixed
    ]
    if not requests:
        return draft
    names = ", ".join(tensor.node for tensor in fixed)
    try:
        cut = _cut(replace(draft, said=()), requests)
        opened = _needed(free_batch_dimension(cut.draft, cut.opened))
    except GraphError as error:
        reason = error.message.splitlines()[:2][-1].strip()
        line = f"{names} keeps the batch of training, which the graph depends on: {reason}."
        return replace(draft, said=(*draft.said, line))
    lines = (f"The batch of {names} is open.", *opened.said[len(cut.draft.said) :])
    return replace(opened, said=draft.said + lines, cuts=draft.cuts, is_faithful=False)


def _has_fixed_batch(shape: Shape | None) -> bool:
    """Whether a shape is that of several rows of training: a number first, more behind it."""
    return shape is not None and len(shape) > 1 and shape[0] is not None


def _shape_in_training(graph: Graph, request: InputRequest) -> Shape | None:
    """The shape of a tensor as its pipeline has it; what was requested where that is not known."""
    known = pipeline_shape(graph, resolve_tensor(graph, request.name, role="input"))
    if request.shape is None or known is None or len(known) != len(request.shape):
        return known if request.shape is None else request.shape
    return (known[0], *request.shape[1:])


def _cut_alike(source: Draft, request: InputRequest) -> Draft:
    """The source, cut where the rewritten graph was; as it is where that came out of a function."""
    if tensor_of(request.name).node not in source.graph.nodes:
        return source
    return _cut(source, (request,)).draft


def _reference(
    source: Graph, rewritten: Graph, settings: Mapping[TensorName, Array]
) -> Graph | None:
    """The source, if all it needs to be run is known: no inputs and variables of its own."""
    known = rewritten.nodes.keys() | {tensor.node for tensor in settings}
    needs = {
        name
        for name, node in source.nodes.items()
        if node.op in VARIABLES or node.op in PLACEHOLDERS or is_source(node.op)
    }
    return source if needs <= known else None


def _fed(reference: Graph, settings: Mapping[TensorName, Array]) -> dict[TensorName, Array]:
    return {tensor: value for tensor, value in settings.items() if tensor.node in reference.nodes}
